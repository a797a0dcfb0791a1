// Loads GEMM shims (bench/peers/gemm_peer.h) into this process, apart from each other.
#ifndef SK_BENCH_E2E_GEMM_PEERS_H_
#define SK_BENCH_E2E_GEMM_PEERS_H_

#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "bench/peers/gemm_peer.h"

namespace sk_bench {

struct GemmPeer {
  std::string name;  // "dnnl2": the shim's file name without ".so".
  decltype(&gemm_peer_create) create = nullptr;
  decltype(&gemm_peer_use_a) use_a = nullptr;
  decltype(&gemm_peer_run) run = nullptr;
  decltype(&gemm_peer_out) out = nullptr;
  decltype(&gemm_peer_info) info = nullptr;
  decltype(&gemm_peer_free) free = nullptr;
};

// False, with the loader's sentence on stderr, when the shim or a library of it is not to be had.
inline bool load_gemm_peer(const std::string& path, GemmPeer* peer) {
  const size_t slash = path.find_last_of('/');
  peer->name = path.substr(slash + 1, path.size() - slash - 4);
  // Own symbols first: two oneDNN versions and MKL share names.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == nullptr) {
    fprintf(stderr, "bench: %s\n", dlerror());
    return false;
  }
  const auto find = [handle](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  return find("gemm_peer_create", peer->create) && find("gemm_peer_use_a", peer->use_a) &&
         find("gemm_peer_run", peer->run) && find("gemm_peer_out", peer->out) &&
         find("gemm_peer_info", peer->info) && find("gemm_peer_free", peer->free);
}

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_GEMM_PEERS_H_
