// The CPU executor: plans as threads.
#ifndef SK_LIB_EXEC_CPU_EXECUTOR_H_
#define SK_LIB_EXEC_CPU_EXECUTOR_H_

#include "lib/exec/executor.h"

namespace sk::cpu {

struct CpuExecutorConfig {
  uint32_t workers = 1;  // Threads, the caller's included.
  // Ranks outnumber their host's cores: yield early. The same at all ranks.
  bool shared_cores = false;
};

std::unique_ptr<Executor> make_cpu_executor(Endpoint& endpoint, Ledger& ledger,
                                            const CpuExecutorConfig& config);

// SK_ERR_INVALID_ARGUMENT where SK_CPU_ISA names nothing.
Status check_environment();

// Finds out which tile kernels this machine runs, which is else a first call's to do.
void choose_kernels();

// Bytes of workspace that the segment must reserve beside what plans ask for.
uint64_t staging_bytes();

// The CpuIsa whose tile kernels this process uses, as a number.
uint32_t kernel_set();

// What the tile kernels of all these sets, as bits, take of a GEMM's plan.
struct GemmTarget {
  uint32_t tile_m, tile_n;
  uint64_t packed_bytes;
};
GemmTarget gemm_target(DType dtype, int64_t m, int64_t n, int64_t k, uint32_t parts,
                       uint32_t kernel_sets);

// Packs all of B, [k, n] or transposed [n, k], with leading stride `ldb`.
void pack_weights(DType dtype, const void* b, int64_t ldb, bool transpose_b, int64_t k, int64_t n,
                  void* packed);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_EXECUTOR_H_
