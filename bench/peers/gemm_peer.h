// A GEMM library behind six C functions, one shared object per library and version.
//
// Each shim is loaded with dlopen(RTLD_LOCAL | RTLD_DEEPBIND), so that two oneDNN versions and MKL
// can be measured beside libsk in one process, call by call. C[M,N] = A[M,K] * B[K,N], row-major; C
// is f32; A stays plain, B is packed once as the library likes it.
#ifndef SK_BENCH_PEERS_GEMM_PEER_H_
#define SK_BENCH_PEERS_GEMM_PEER_H_

#include <cstdint>

#define SK_BENCH_PEER extern "C" __attribute__((visibility("default")))

// Converts A and B (f32 in) to bf16 where asked, packs B, allocates C. nullptr on failure, with a
// sentence on stderr.
SK_BENCH_PEER void* gemm_peer_create(int64_t m, int64_t n, int64_t k, int bf16, const float* a,
                                     const float* b);
// From now on A lies there, in the type of the product and row after row; the caller keeps it.
SK_BENCH_PEER void gemm_peer_use_a(void* gemm, void* a);
// One product on the calling thread; returns when C is written.
SK_BENCH_PEER int gemm_peer_run(void* gemm);
SK_BENCH_PEER float* gemm_peer_out(void* gemm);
// Which library, version and kernel: "oneDNN 2.6.3 brg:avx512_core_bf16".
SK_BENCH_PEER const char* gemm_peer_info(void* gemm);
SK_BENCH_PEER void gemm_peer_free(void* gemm);

#endif  // SK_BENCH_PEERS_GEMM_PEER_H_
