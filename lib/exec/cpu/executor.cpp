#include "lib/exec/cpu/executor.h"

#include <algorithm>
#include <bit>

#include "lib/exec/cpu/program.h"
#include "lib/exec/cpu/tile/copy.h"
#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/exec/cpu/tile/gemm.h"
#include "lib/exec/cpu/tile/reduce.h"
#include "lib/exec/cpu/waiter.h"

namespace sk::cpu {
namespace {

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(Endpoint& endpoint, Ledger& ledger, const CpuExecutorConfig& config)
      : workers_(
            std::max(1u, config.workers),
            [](void* own) { wake_driver(*static_cast<Endpoint*>(own)); }, &endpoint),
        shared_{endpoint, ledger, workers_, config.shared_cores ? kSpinsShared : kSpinsAlone,
                EntryTree(endpoint, config.shared_cores ? kArityShared : kArityAlone)} {}

  const char* name() const override { return "cpu"; }
  Result<std::unique_ptr<Program>> prepare(std::shared_ptr<const Plan> plan,
                                           uint64_t fingerprint) override {
    return CpuProgram::lower(std::move(plan), fingerprint, shared_);
  }
  void set_trace(TraceBuffer* trace) override { shared_.trace = trace; }
  void set_hosts(std::span<const uint32_t> host_of) override { shared_.tree.follow_hosts(host_of); }
  void set_waiting(const Waiting& waiting) override { shared_.waiting = waiting; }
  void set_awaited(std::atomic<uint32_t>* awaited) override { shared_.awaited = awaited; }
  void set_still_waiting(const StillWaiting& told) override { shared_.still_waiting = told; }

 private:
  // A look and a pause take 15 to 60 ns. Alone: about 50 us, longer than most hand-offs. Shared:
  // the peer may be waiting for this core, so no longer than a hand-off between running ranks (ten
  // instead of a hundred looks: 4 ranks on 2 cores at 512 B 5.6 instead of 6.9 us).
  static constexpr uint32_t kSpinsAlone = 2000;
  static constexpr uint32_t kSpinsShared = 10;

  Workers workers_;
  Shared shared_;
};

}  // namespace

std::unique_ptr<Executor> make_cpu_executor(Endpoint& endpoint, Ledger& ledger,
                                            const CpuExecutorConfig& config) {
  return std::make_unique<CpuExecutor>(endpoint, ledger, config);
}

Status check_environment() { return cpu_isa_status().clone(); }

void choose_kernels() {
  (void)cpu_isa();
  choose_copies();
  choose_reductions();
}

uint64_t staging_bytes() { return kStagingAreas * kStagingBytes; }

uint32_t kernel_set() { return uint32_t(cpu_isa()); }

// Any tile suits any kernel; the size is what suits the plainest. B is packed by each rank for
// itself, but plans have one place of one size for it.
GemmTarget gemm_target(DType dtype, int64_t m, int64_t n, int64_t k, uint32_t parts,
                       uint32_t kernel_sets) {
  const auto plainest = CpuIsa(std::countr_zero(kernel_sets));
  const GemmTiling tiling = gemm_tiling(select_gemm(dtype, plainest), m, n, k, int(parts));
  GemmTarget target{uint32_t(std::max<int64_t>(1, tiling.m)),
                    uint32_t(std::max<int64_t>(1, tiling.n)), 0};
  for (uint32_t sets = kernel_sets; sets != 0; sets &= sets - 1) {
    const GemmKernel* kernel = select_gemm(dtype, CpuIsa(std::countr_zero(sets)));
    target.packed_bytes = std::max<uint64_t>(target.packed_bytes, packed_bytes(kernel, k, n));
  }
  return target;
}

void pack_weights(DType dtype, const void* b, int64_t ldb, bool transpose_b, int64_t k, int64_t n,
                  void* packed) {
  pack_b(select_gemm(dtype), b, ldb, transpose_b, k, n, packed, 0, n);
}

}  // namespace sk::cpu
