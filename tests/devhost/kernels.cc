#include "tests/devhost/kernels.h"

#include "cuda/exec/kernels.h"
#include "cuda/kernel/kernels.cu"
#include "tests/devhost/machine.h"
#include "tests/support/worlds.h"

#if !SK_WATCH
void sk_begin_watch(sk::cuda::WatchArgs) {}  // Nobody asks kernels for it that are not watched.
#endif

namespace sk::devhost {

using WideOps = cuda::BoxOps<true, cuda::kBoxRowsB>;
using PairOps = cuda::BoxOps<true, cuda::kBoxRowsB, true>;
using NarrowOps = cuda::BoxOps<true, cuda::kNarrowBoxRowsB>;
// Where waits are watched (cuda/watch) that takes shared memory too, with what aligns the rest.
constexpr size_t kWatchBytes = SK_WATCH != 0 ? 2048 : 0;
static_assert(sizeof(cuda::BlockShared<WideOps>) + kWatchBytes <= 227 << 10, "of an SM of sm_90");
static_assert(sizeof(cuda::BlockShared<PairOps>) + kWatchBytes <= 227 << 10, "of an SM of sm_90");
static_assert(sizeof(cuda::BlockShared<NarrowOps>) + kWatchBytes <= 227 << 10, "of an SM of sm_90");
static_assert(sizeof(cuda::BlockShared<cuda::GemmOps>) + kWatchBytes <= 163 << 10,
              "of an SM of sm_80");

const bool kWatched = SK_WATCH != 0;

namespace {

void run_kernel(cuda::KernelId id, const cuda::BoxLaunchArgs& args) {
  switch (id) {
    case cuda::kRunMoves:
      return sk_run_moves(args.plan);
    case cuda::kRunGemms:
      return sk_run_gemms(args.plan);
    case cuda::kRunBoxesBf16:
      return sk_run_boxes_bf16(args);
    case cuda::kRunBoxesF16:
      return sk_run_boxes_f16(args);
    case cuda::kRunNarrowBf16:
      return sk_run_narrow_bf16(args);
    case cuda::kRunNarrowF16:
      return sk_run_narrow_f16(args);
    case cuda::kRunPairsBf16:
      return sk_run_pairs_bf16(args);
    case cuda::kRunPairsF16:
      return sk_run_pairs_f16(args);
    case cuda::kRunBoxesKnBf16:
      return sk_run_boxes_kn_bf16(args);
    case cuda::kRunBoxesKnF16:
      return sk_run_boxes_kn_f16(args);
    case cuda::kRunNarrowKnBf16:
      return sk_run_narrow_kn_bf16(args);
    case cuda::kRunNarrowKnF16:
      return sk_run_narrow_kn_f16(args);
    case cuda::kRunPairsKnBf16:
      return sk_run_pairs_kn_bf16(args);
    case cuda::kRunPairsKnF16:
      return sk_run_pairs_kn_f16(args);
    case cuda::kKernelCount:
      return;
  }
}

template <typename Ops>
bool can_do(TaskOp op, DType dtype, cuda::LayoutB layout) {
  cuda::FetchedTask task{};
  task.task.op = op;
  task.record.gemm.dtype = uint8_t(dtype);
  task.record.gemm.layout_b = layout;
  return Ops::can(task);
}

}  // namespace

bool can(cuda::KernelId id, TaskOp op, DType dtype, cuda::LayoutB layout) {
  using cuda::BoxOps, cuda::kBoxRowsB, cuda::kNarrowBoxRowsB, cuda::LayoutB;
  constexpr bool (*kCan[cuda::kKernelCount])(TaskOp, DType, LayoutB) = {
      can_do<cuda::MoveOps>,
      can_do<cuda::GemmOps>,
      can_do<BoxOps<true, kBoxRowsB>>,
      can_do<BoxOps<false, kBoxRowsB>>,
      can_do<BoxOps<true, kNarrowBoxRowsB>>,
      can_do<BoxOps<false, kNarrowBoxRowsB>>,
      can_do<BoxOps<true, kBoxRowsB, true>>,
      can_do<BoxOps<false, kBoxRowsB, true>>,
      can_do<BoxOps<true, kBoxRowsB, false, LayoutB::kRows>>,
      can_do<BoxOps<false, kBoxRowsB, false, LayoutB::kRows>>,
      can_do<BoxOps<true, kNarrowBoxRowsB, false, LayoutB::kRows>>,
      can_do<BoxOps<false, kNarrowBoxRowsB, false, LayoutB::kRows>>,
      can_do<BoxOps<true, kBoxRowsB, true, LayoutB::kRows>>,
      can_do<BoxOps<false, kBoxRowsB, true, LayoutB::kRows>>};
  return kCan[id](op, dtype, layout);
}

Kernel kernel_for(const Plan& plan, bool boxes, bool pairs) {
  const cuda::TileNeeds needs = cuda::needs_of(plan);
  return [=](const cuda::BoxLaunchArgs& args, bool have_boxes) {
    cuda::Way way = cuda::Way::kAlone;
    if (boxes && have_boxes) way = cuda::way_of_boxes(needs);
    if (pairs && (have_boxes || !needs.multiplies())) way = cuda::Way::kPairs;
    run_kernel(cuda::find_kernel(needs, way).value(), args);
  };
}

std::string run(const Plan& plan, World& world, const Options& options, bool boxes) {
  DeviceWorld device(plan, kernel_for(plan, boxes, options.pairs), options);
  const Status status = device.run(world);
  return status.ok() ? testing_support::first_difference(plan, world) : status.message();
}

std::string run_bare(int64_t m, int64_t n, int64_t k, const Bare& bare) {
  std::mt19937_64 random(bare.seed);
  const auto fill = [&](Aligned& matrix) {
    for (size_t i = 0; i < matrix.size / 2; ++i) {
      const uint16_t bits = f32_to_bf16(float(int(random() % 9) - 4));
      std::memcpy(matrix.data() + 2 * i, &bits, 2);
    }
  };
  const auto at = [](Aligned& matrix, int64_t i) {
    uint16_t bits;
    std::memcpy(&bits, matrix.data() + 2 * i, 2);
    return bf16_to_f32(bits);
  };
  Aligned a(size_t(m * k) * 2), b(size_t(n * k) * 2), c(size_t(m * n) * 2, std::byte{0xab});
  fill(a);
  fill(b);
  cuda::BareGemm gemm{};
  gemm.a = a.data();
  gemm.b = b.data();
  gemm.c = c.data();
  gemm.a_pitch = uint64_t(k) * 2;
  gemm.packed_bytes = uint64_t(n * k) * 2;
  gemm.c_pitch = uint64_t(n) * 2;
  gemm.m = uint32_t(m);
  gemm.n = uint32_t(n);
  gemm.k = uint32_t(k);
  gemm.band_rows = bare.band_rows;
  gemm.dtype = gemm.out_dtype = uint32_t(DType::kBF16);
  gemm.views[0] = map_of({reinterpret_cast<uint64_t>(a.data()), uint64_t(m), uint64_t(k),
                          gemm.a_pitch, DType::kBF16, cuda::kBoxRowsA});
  gemm.views[1] =
      map_of({reinterpret_cast<uint64_t>(b.data()), uint64_t(n), uint64_t(k), gemm.a_pitch,
              DType::kBF16, bare.pairs ? cuda::kNarrowBoxRowsB : cuda::kBoxRowsB});
  const bool ended = launch(
      bare.blocks, cuda::kBlockThreads, sizeof(cuda::BlockShared<PairOps>),
      [&] { bare.pairs ? sk_bare_pairs_bf16(gemm) : sk_bare_boxes_bf16(gemm); },
      bare.pairs ? cuda::kPairBlocks : 1);
  if (!ended) return "the kernel has trapped";
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += at(a, row * k + i) * at(b, column * k + i);
      if (at(c, row * n + column) != bf16_to_f32(f32_to_bf16(sum)))
        return fmt::format("row {}, column {} differs", row, column);
    }
  }
  return "";
}

}  // namespace sk::devhost
