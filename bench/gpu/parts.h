// What is measured; each part prints its lines and throws a sentence when it cannot go on.
#ifndef SK_BENCH_GPU_PARTS_H_
#define SK_BENCH_GPU_PARTS_H_

#include "tests/gpu/machine.h"

namespace sk::cuda {

void measure_gemm(const Machine& machine);         // A plan's product, the bare one, cuBLASLt's.
void measure_pairs(const Machine& machine);        // Pairs of blocks beside single ones.
void measure_fused(const Machine& machine);        // sk_allreduce_gemm, and what it is made of.
void measure_collectives(const Machine& machine);  // Beside copies of as many bytes.
void measure_latency(const Machine& machine);      // A replayed launch; an abort.

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_PARTS_H_
