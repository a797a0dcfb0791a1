// The kernels of libsk_cuda, by the set of operations that a plan has.
#include "cuda/kernel/bare_source.cuh"
#include "cuda/kernel/clock.cuh"
#include "cuda/kernel/plan_source.cuh"

SK_KERNEL(sk_run_moves, sk::cuda::kBlockThreads, sk::cuda::LaunchArgs) {
  sk::cuda::run_plan<sk::cuda::MoveOps>(args);
}

SK_KERNEL(sk_run_gemms, sk::cuda::kBlockThreads, sk::cuda::LaunchArgs) {
  sk::cuda::run_plan<sk::cuda::GemmOps>(args);
}

#if SK_HAS_WGMMA
SK_KERNEL(sk_run_boxes_bf16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<true, sk::cuda::kBoxRowsB>>(args);
}

SK_KERNEL(sk_run_boxes_f16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<false, sk::cuda::kBoxRowsB>>(args);
}

SK_KERNEL(sk_run_narrow_bf16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<true, sk::cuda::kNarrowBoxRowsB>>(args);
}

SK_KERNEL(sk_run_narrow_f16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<false, sk::cuda::kNarrowBoxRowsB>>(args);
}

// In clusters of kPairBlocks blocks.
SK_KERNEL(sk_run_pairs_bf16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<true, sk::cuda::kBoxRowsB, true>>(args);
}

SK_KERNEL(sk_run_pairs_f16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<false, sk::cuda::kBoxRowsB, true>>(args);
}

// And those of a B [k, n] that nobody has packed.
SK_KERNEL(sk_run_boxes_kn_bf16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<true, sk::cuda::kBoxRowsB, false, sk::cuda::LayoutB::kRows>>(
      args);
}

SK_KERNEL(sk_run_boxes_kn_f16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<false, sk::cuda::kBoxRowsB, false, sk::cuda::LayoutB::kRows>>(
      args);
}

SK_KERNEL(sk_run_narrow_kn_bf16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<
      sk::cuda::BoxOps<true, sk::cuda::kNarrowBoxRowsB, false, sk::cuda::LayoutB::kRows>>(args);
}

SK_KERNEL(sk_run_narrow_kn_f16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<
      sk::cuda::BoxOps<false, sk::cuda::kNarrowBoxRowsB, false, sk::cuda::LayoutB::kRows>>(args);
}

SK_KERNEL(sk_run_pairs_kn_bf16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<true, sk::cuda::kBoxRowsB, true, sk::cuda::LayoutB::kRows>>(
      args);
}

SK_KERNEL(sk_run_pairs_kn_f16, sk::cuda::kBlockThreads, sk::cuda::BoxLaunchArgs) {
  sk::cuda::run_plan<sk::cuda::BoxOps<false, sk::cuda::kBoxRowsB, true, sk::cuda::LayoutB::kRows>>(
      args);
}

SK_KERNEL(sk_bare_boxes_bf16, sk::cuda::kBlockThreads, sk::cuda::BareGemm) {
  sk::cuda::run_bare<sk::cuda::BoxOps<true, sk::cuda::kBoxRowsB>>(args);
}

SK_KERNEL(sk_bare_pairs_bf16, sk::cuda::kBlockThreads, sk::cuda::BareGemm) {
  sk::cuda::run_bare<sk::cuda::BoxOps<true, sk::cuda::kBoxRowsB, true>>(args);
}
#endif

SK_KERNEL(sk_tell_needs, sk::cuda::ptx::kLanes, sk::cuda::NeedsArgs) {
  using namespace sk::cuda;
  if (!ptx::one_lane()) return;
  args.out[kRunMoves] = {kBlockThreads, sizeof(BlockShared<MoveOps>)};
  args.out[kRunGemms] = {kBlockThreads, sizeof(BlockShared<GemmOps>)};
#if SK_HAS_WGMMA
  args.out[kRunBoxesBf16] = {kBlockThreads, sizeof(BlockShared<BoxOps<true, kBoxRowsB>>)};
  args.out[kRunBoxesF16] = {kBlockThreads, sizeof(BlockShared<BoxOps<false, kBoxRowsB>>)};
  args.out[kRunNarrowBf16] = {kBlockThreads, sizeof(BlockShared<BoxOps<true, kNarrowBoxRowsB>>)};
  args.out[kRunNarrowF16] = {kBlockThreads, sizeof(BlockShared<BoxOps<false, kNarrowBoxRowsB>>)};
  args.out[kRunPairsBf16] = {kBlockThreads, sizeof(BlockShared<BoxOps<true, kBoxRowsB, true>>)};
  args.out[kRunPairsF16] = {kBlockThreads, sizeof(BlockShared<BoxOps<false, kBoxRowsB, true>>)};
  // How B lies changes nothing of it.
  args.out[kRunBoxesKnBf16] = args.out[kRunBoxesBf16];
  args.out[kRunBoxesKnF16] = args.out[kRunBoxesF16];
  args.out[kRunNarrowKnBf16] = args.out[kRunNarrowBf16];
  args.out[kRunNarrowKnF16] = args.out[kRunNarrowF16];
  args.out[kRunPairsKnBf16] = args.out[kRunPairsBf16];
  args.out[kRunPairsKnF16] = args.out[kRunPairsF16];
#endif
}

SK_KERNEL(sk_pack_weights, sk::cuda::kPackThreads, sk::cuda::BareWeights) {
  sk::cuda::pack_weights(args);
}

#if SK_WATCH
SK_KERNEL(sk_begin_watch, sk::cuda::ptx::kLanes, sk::cuda::WatchArgs) {
  if (sk::cuda::ptx::one_lane()) sk::cuda::sk_watch = args.watch;
}
#endif

SK_KERNEL(sk_tell_time, sk::cuda::ptx::kLanes, sk::cuda::ClockArgs) {
  if (sk::cuda::ptx::one_lane()) *args.out = sk::cuda::read_clock();
}
