#include "tests/unit/cuda/host_kernels.h"

#include <cstring>

// Defined by tests/devhost/kernels.cc.
void sk_run_moves(sk::cuda::LaunchArgs args);
void sk_run_gemms(sk::cuda::LaunchArgs args);
void sk_run_boxes_bf16(sk::cuda::BoxLaunchArgs args);
void sk_run_boxes_f16(sk::cuda::BoxLaunchArgs args);
void sk_run_narrow_bf16(sk::cuda::BoxLaunchArgs args);
void sk_run_narrow_f16(sk::cuda::BoxLaunchArgs args);
void sk_run_pairs_bf16(sk::cuda::BoxLaunchArgs args);
void sk_run_pairs_f16(sk::cuda::BoxLaunchArgs args);
void sk_run_boxes_kn_bf16(sk::cuda::BoxLaunchArgs args);
void sk_run_boxes_kn_f16(sk::cuda::BoxLaunchArgs args);
void sk_run_narrow_kn_bf16(sk::cuda::BoxLaunchArgs args);
void sk_run_narrow_kn_f16(sk::cuda::BoxLaunchArgs args);
void sk_run_pairs_kn_bf16(sk::cuda::BoxLaunchArgs args);
void sk_run_pairs_kn_f16(sk::cuda::BoxLaunchArgs args);
void sk_bare_boxes_bf16(sk::cuda::BareGemm gemm);
void sk_pack_weights(sk::cuda::BareWeights args);
void sk_bare_pairs_bf16(sk::cuda::BareGemm gemm);
void sk_tell_needs(sk::cuda::NeedsArgs args);
void sk_tell_time(sk::cuda::ClockArgs args);
void sk_begin_watch(sk::cuda::WatchArgs args);  // Sets nothing where they are not watched.

namespace sk::cuda {
namespace {

template <typename Args, void (*kernel)(Args)>
HostKernel host_kernel(const char* name, bool cooperative, uint32_t cluster_blocks = 1) {
  const auto run = [](const std::byte* bytes) {
    Args args;
    std::memcpy(&args, bytes, sizeof args);
    kernel(args);
  };
  return {name, run, sizeof(Args), cooperative, cluster_blocks};
}

}  // namespace

const HostKernel* find_host_kernel(const std::string& name) {
  static const HostKernel kernels[] = {
      host_kernel<LaunchArgs, sk_run_moves>("sk_run_moves", true),
      host_kernel<LaunchArgs, sk_run_gemms>("sk_run_gemms", true),
      host_kernel<BoxLaunchArgs, sk_run_boxes_bf16>("sk_run_boxes_bf16", true),
      host_kernel<BoxLaunchArgs, sk_run_boxes_f16>("sk_run_boxes_f16", true),
      host_kernel<BoxLaunchArgs, sk_run_narrow_bf16>("sk_run_narrow_bf16", true),
      host_kernel<BoxLaunchArgs, sk_run_narrow_f16>("sk_run_narrow_f16", true),
      host_kernel<BoxLaunchArgs, sk_run_pairs_bf16>("sk_run_pairs_bf16", true, kPairBlocks),
      host_kernel<BoxLaunchArgs, sk_run_pairs_f16>("sk_run_pairs_f16", true, kPairBlocks),
      host_kernel<BoxLaunchArgs, sk_run_boxes_kn_bf16>("sk_run_boxes_kn_bf16", true),
      host_kernel<BoxLaunchArgs, sk_run_boxes_kn_f16>("sk_run_boxes_kn_f16", true),
      host_kernel<BoxLaunchArgs, sk_run_narrow_kn_bf16>("sk_run_narrow_kn_bf16", true),
      host_kernel<BoxLaunchArgs, sk_run_narrow_kn_f16>("sk_run_narrow_kn_f16", true),
      host_kernel<BoxLaunchArgs, sk_run_pairs_kn_bf16>("sk_run_pairs_kn_bf16", true, kPairBlocks),
      host_kernel<BoxLaunchArgs, sk_run_pairs_kn_f16>("sk_run_pairs_kn_f16", true, kPairBlocks),
      host_kernel<BareGemm, sk_bare_boxes_bf16>("sk_bare_boxes_bf16", false),
      host_kernel<BareWeights, sk_pack_weights>("sk_pack_weights", false),
      host_kernel<BareGemm, sk_bare_pairs_bf16>("sk_bare_pairs_bf16", false, kPairBlocks),
      host_kernel<NeedsArgs, sk_tell_needs>("sk_tell_needs", false),
      host_kernel<ClockArgs, sk_tell_time>("sk_tell_time", false),
      host_kernel<WatchArgs, sk_begin_watch>("sk_begin_watch", false),
  };
  for (const HostKernel& kernel : kernels)
    if (kernel.name == name) return &kernel;
  return nullptr;
}

}  // namespace sk::cuda
