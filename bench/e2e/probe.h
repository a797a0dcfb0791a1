// What this core can do right now: read beside every measurement, because clocks move.
//
// Clocks follow temperature, neighbours and instruction mix; a figure as a share of the peak read
// beside it survives that, a figure in GFLOP/s does not. Rates are the best of a few short windows.
#ifndef SK_BENCH_E2E_PROBE_H_
#define SK_BENCH_E2E_PROBE_H_

#include <cstddef>

#include "bench/e2e/place.h"

namespace sk_bench {

// Nanoseconds of one step of a chain of dependent fused multiply-adds: a fixed number of cycles (4
// on all cores seen), so its inverse follows the clock. Chains of adds are folded by some cores.
double fma_latency_ns();

// GFLOP/s of independent f32 fused multiply-adds in the widest vectors of this CPU.
double f32_peak_gflops();

// GFLOP/s of bf16 products summed in f32: AMX tiles, else AVX-512 BF16; 0 without either.
double bf16_peak_gflops();

// "amx", "avx512_bf16" or "none": what bf16_peak_gflops() measured.
const char* bf16_unit();

// GB/s, read and written bytes counted, of a copy of `bytes` with stores that bypass the cache.
double copy_gbs(char* dst, const char* src, size_t bytes);

// Where two cores lie to each other (place.h), threads pinned to both. Virtual cores that the host
// moves show up here: two hyper-threads of one core, two cores of one die and two dies differ
// severalfold, and so does every collective. Zeros where the other core did not answer.
bench_place place_of(int core_a, int core_b);

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_PROBE_H_
