// The kernels of libsk_cuda, by the set of operations that a plan has.
#include "cuda/kernel/interpreter.cuh"

SK_KERNEL(sk_run_moves, sk::cuda::kBlockThreads, sk::cuda::LaunchArgs) {
  sk::cuda::run_block<sk::cuda::MoveOps>(args);
}

SK_KERNEL(sk_run_gemms, sk::cuda::kBlockThreads, sk::cuda::LaunchArgs) {
  sk::cuda::run_block<sk::cuda::GemmOps>(args);
}

#if SK_HAS_WGMMA
SK_KERNEL(sk_run_boxes_bf16, sk::cuda::kBlockThreads, sk::cuda::LaunchArgs) {
  sk::cuda::run_block<sk::cuda::BoxOps<true>>(args);
}

SK_KERNEL(sk_run_boxes_f16, sk::cuda::kBlockThreads, sk::cuda::LaunchArgs) {
  sk::cuda::run_block<sk::cuda::BoxOps<false>>(args);
}
#endif
