#include "cuda/exec/kernels.h"

#include <algorithm>

namespace sk::cuda {
namespace {

constexpr uint32_t bits() { return 0; }
template <typename Each, typename... Rest>
constexpr uint32_t bits(Each each, Rest... rest) {
  return 1u << uint32_t(each) | bits(rest...);
}

constexpr uint32_t kMoves = bits(TaskOp::kNop, TaskOp::kEnter, TaskOp::kAwait, TaskOp::kPut,
                                 TaskOp::kCopy, TaskOp::kReduce);
constexpr uint32_t kProducts = kMoves | bits(TaskOp::kPackB, TaskOp::kGemm, TaskOp::kGemmRaw);
constexpr uint32_t kBf16 = bits(DType::kBF16), kF16 = bits(DType::kF16);
constexpr uint32_t kColumns = bits(LayoutB::kColumns), kRows = bits(LayoutB::kRows);

// By KernelId, those that can do less before those that can do more.
constexpr KernelTraits kTraits[kKernelCount] = {
    {"sk_run_moves", kMoves, 0, 0, Way::kAlone},
    {"sk_run_gemms", kProducts, bits(DType::kF32) | kBf16 | kF16, kColumns | kRows, Way::kAlone},
    {"sk_run_boxes_bf16", kProducts, kBf16, kColumns, Way::kBoxes},
    {"sk_run_boxes_f16", kProducts, kF16, kColumns, Way::kBoxes},
    {"sk_run_narrow_bf16", kProducts, kBf16, kColumns, Way::kNarrow},
    {"sk_run_narrow_f16", kProducts, kF16, kColumns, Way::kNarrow},
    {"sk_run_pairs_bf16", kProducts, kBf16, kColumns, Way::kPairs},
    {"sk_run_pairs_f16", kProducts, kF16, kColumns, Way::kPairs},
    {"sk_run_boxes_kn_bf16", kProducts, kBf16, kRows, Way::kBoxes},
    {"sk_run_boxes_kn_f16", kProducts, kF16, kRows, Way::kBoxes},
    {"sk_run_narrow_kn_bf16", kProducts, kBf16, kRows, Way::kNarrow},
    {"sk_run_narrow_kn_f16", kProducts, kF16, kRows, Way::kNarrow},
    {"sk_run_pairs_kn_bf16", kProducts, kBf16, kRows, Way::kPairs},
    {"sk_run_pairs_kn_f16", kProducts, kF16, kRows, Way::kPairs}};

void note(const RankPlan& part, const Task& task, TileNeeds& needs) {
  constexpr uint32_t kUserTile = 31;  // No kernel has one.
  needs.ops |= 1u << std::min(uint32_t(task.op), kUserTile);
  if (!is_gemm(task.op)) return;
  const int64_t* params = part.params_of(task).data();
  needs.types |= bits(DType(params[kGemmDtype]));
  needs.layouts |= bits(layout_of_b(task.op, params));
}

}  // namespace

TileNeeds needs_of(const Plan& plan) {
  TileNeeds needs;
  needs.wide_tiles = plan.target.tile_n > kNarrowBoxRowsB;
  for (const RankPlan& part : plan.ranks)
    for (const Task& task : part.tasks) note(part, task, needs);
  return needs;
}

BoxShape KernelTraits::shape() const {
  const uint32_t columns = way == Way::kBoxes ? kBoxRowsB : kNarrowBoxRowsB;
  return {kBoxRowsA * queue_blocks(), layouts == kRows ? kBoxDepth : columns};
}

const KernelTraits& traits_of(KernelId id) { return kTraits[id]; }

std::optional<KernelId> find_kernel(const TileNeeds& needs, Way way) {
  for (uint32_t id = 0; id < kKernelCount; ++id) {
    const KernelTraits& each = kTraits[id];
    if (each.way == way && (needs.ops & ~each.ops) == 0 && (needs.types & ~each.types) == 0 &&
        (needs.layouts & ~each.layouts) == 0)
      return KernelId(id);
  }
  return std::nullopt;
}

Way way_of_boxes(const TileNeeds& needs) { return needs.wide_tiles ? Way::kBoxes : Way::kNarrow; }

}  // namespace sk::cuda
