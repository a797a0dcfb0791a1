// oneDNN's matmul as a GEMM peer; compiled once per version (2.6 of Debian, 3.13 of PyPI).
//
// B gets the layout that the library picks ("any"). The PyPI build runs through SYCL: without the
// OpenCL CPU runtime it finds no device, and a call costs microseconds that its time at n = 16
// shows.
#include <cstdio>
#include <cstring>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "bench/peers/gemm_peer.h"

namespace {

using dnnl::matmul;
using dnnl::memory;

struct Gemm {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  memory a, b, c;
  matmul primitive;
  std::unordered_map<int, memory> arguments;
  std::string info;
};

matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a,
                                const memory::desc& b, const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return matmul::primitive_desc(engine, a, b, c);
#else
  return matmul::primitive_desc(matmul::desc(a, b, c), engine);
#endif
}

// Copies f32 data into `to`, converting type and layout.
void load(Gemm* g, const memory::dims& dims, const float* from, memory& to) {
  const memory::desc plain(dims, memory::data_type::f32, memory::format_tag::ab);
  memory source(plain, g->engine, const_cast<float*>(from));
  dnnl::reorder(source, to).execute(g->stream, source, to);
  g->stream.wait();
}

}  // namespace

void* gemm_peer_create(int64_t m, int64_t n, int64_t k, int bf16, const float* a, const float* b) {
  try {
    auto g = std::make_unique<Gemm>();
    const auto type = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc da({m, k}, type, memory::format_tag::ab);
    const memory::desc db({k, n}, type, memory::format_tag::any);
    const memory::desc dc({m, n}, memory::data_type::f32, memory::format_tag::ab);
    const auto description = describe(g->engine, da, db, dc);
    g->a = memory(da, g->engine);
    g->b = memory(description.weights_desc(), g->engine);
    g->c = memory(dc, g->engine);
    load(g.get(), {m, k}, a, g->a);
    load(g.get(), {k, n}, b, g->b);
    g->primitive = matmul(description);
    g->arguments = {{DNNL_ARG_SRC, g->a}, {DNNL_ARG_WEIGHTS, g->b}, {DNNL_ARG_DST, g->c}};
    const dnnl_version_t* v = dnnl_version();
    g->info = "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
              std::to_string(v->patch) + " " + description.impl_info_str();
    return g.release();
  } catch (const std::exception& error) {
    fprintf(stderr, "oneDNN: %s\n", error.what());
    return nullptr;
  }
}

void gemm_peer_use_a(void* gemm, void* a) { static_cast<Gemm*>(gemm)->a.set_data_handle(a); }

int gemm_peer_run(void* gemm) {
  auto* g = static_cast<Gemm*>(gemm);
  try {
    g->primitive.execute(g->stream, g->arguments);
    g->stream.wait();
  } catch (const std::exception& error) {
    fprintf(stderr, "oneDNN: %s\n", error.what());
    return 1;
  }
  return 0;
}

float* gemm_peer_out(void* gemm) {
  return static_cast<float*>(static_cast<Gemm*>(gemm)->c.get_data_handle());
}

const char* gemm_peer_info(void* gemm) { return static_cast<Gemm*>(gemm)->info.c_str(); }

void gemm_peer_free(void* gemm) { delete static_cast<Gemm*>(gemm); }
