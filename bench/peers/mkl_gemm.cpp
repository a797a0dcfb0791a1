// MKL's sgemm and gemm_bf16bf16f32 with B packed once, as a GEMM peer.
#include <mkl.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "bench/peers/gemm_peer.h"

namespace {

constexpr int kAlignment = 4096;

struct Free {
  void operator()(void* p) const { mkl_free(p); }
};
template <typename T>
using Block = std::unique_ptr<T[], Free>;

template <typename T>
Block<T> allocate(size_t bytes) {
  return Block<T>(static_cast<T*>(mkl_malloc(bytes, kAlignment)));
}

struct Gemm {
  int64_t m, n, k;
  bool bf16;
  Block<float> a32, b32, c;
  Block<MKL_BF16> a16;
  const void* a;  // One of these, or the caller's.
  Block<char> packed;
  std::string info;
};

MKL_BF16 to_bf16(float x) {  // Round to nearest even; inputs are finite.
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits += 0x7FFF + (bits >> 16 & 1);
  return static_cast<MKL_BF16>(bits >> 16);
}

Block<MKL_BF16> converted(const float* from, int64_t count) {
  auto to = allocate<MKL_BF16>(static_cast<size_t>(count) * sizeof(MKL_BF16));
  for (int64_t i = 0; to && i < count; ++i) to[i] = to_bf16(from[i]);
  return to;
}

bool pack_bf16(Gemm* g, const float* a, const float* b) {
  g->a16 = converted(a, g->m * g->k);
  const auto b16 = converted(b, g->k * g->n);
  const size_t bytes = cblas_gemm_bf16bf16f32_pack_get_size(CblasBMatrix, g->m, g->n, g->k);
  g->packed = allocate<char>(bytes);
  if (!g->a16 || !b16 || !g->packed) return false;
  cblas_gemm_bf16bf16f32_pack(CblasRowMajor, CblasBMatrix, CblasNoTrans, g->m, g->n, g->k,
                              b16.get(), g->n, reinterpret_cast<MKL_BF16*>(g->packed.get()));
  return true;
}

bool pack_f32(Gemm* g, const float* a, const float* b) {
  const size_t bytes = static_cast<size_t>(g->m * g->k) * sizeof(float);
  g->a32 = allocate<float>(bytes);
  g->packed = allocate<char>(cblas_sgemm_pack_get_size(CblasBMatrix, g->m, g->n, g->k));
  if (!g->a32 || !g->packed) return false;
  memcpy(g->a32.get(), a, bytes);
  cblas_sgemm_pack(CblasRowMajor, CblasBMatrix, CblasNoTrans, g->m, g->n, g->k, 1.0f, b, g->n,
                   reinterpret_cast<float*>(g->packed.get()));
  return true;
}

}  // namespace

void* gemm_peer_create(int64_t m, int64_t n, int64_t k, int bf16, const float* a, const float* b) {
  mkl_set_num_threads(1);
  auto g = std::make_unique<Gemm>();
  g->m = m;
  g->n = n;
  g->k = k;
  g->bf16 = bf16 != 0;
  g->c = allocate<float>(static_cast<size_t>(m * n) * sizeof(float));
  if (!g->c || !(g->bf16 ? pack_bf16(g.get(), a, b) : pack_f32(g.get(), a, b))) {
    fprintf(stderr, "MKL: out of memory\n");
    return nullptr;
  }
  g->a = g->bf16 ? static_cast<void*>(g->a16.get()) : g->a32.get();
  MKLVersion v;
  mkl_get_version(&v);
  g->info = "MKL " + std::to_string(v.MajorVersion) + "." + std::to_string(v.MinorVersion) +
            (g->bf16 ? " gemm_bf16bf16f32_compute" : " sgemm_compute");
  return g.release();
}

void gemm_peer_use_a(void* gemm, void* a) { static_cast<Gemm*>(gemm)->a = a; }

int gemm_peer_run(void* gemm) {
  auto* g = static_cast<Gemm*>(gemm);
  if (g->bf16) {
    cblas_gemm_bf16bf16f32_compute(CblasRowMajor, CblasNoTrans, CblasPacked, g->m, g->n, g->k, 1.0f,
                                   static_cast<const MKL_BF16*>(g->a), g->k,
                                   reinterpret_cast<MKL_BF16*>(g->packed.get()), g->n, 0.0f,
                                   g->c.get(), g->n);
  } else {
    cblas_sgemm_compute(CblasRowMajor, CblasNoTrans, CblasPacked, static_cast<MKL_INT>(g->m),
                        static_cast<MKL_INT>(g->n), static_cast<MKL_INT>(g->k),
                        static_cast<const float*>(g->a), static_cast<MKL_INT>(g->k),
                        reinterpret_cast<float*>(g->packed.get()), static_cast<MKL_INT>(g->n), 0.0f,
                        g->c.get(), static_cast<MKL_INT>(g->n));
  }
  return 0;
}

float* gemm_peer_out(void* gemm) { return static_cast<Gemm*>(gemm)->c.get(); }

const char* gemm_peer_info(void* gemm) { return static_cast<Gemm*>(gemm)->info.c_str(); }

void gemm_peer_free(void* gemm) { delete static_cast<Gemm*>(gemm); }
