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
constexpr uint32_t kProducts = kMoves | bits(TaskOp::kPackB, TaskOp::kGemm);
constexpr uint32_t kBf16 = bits(DType::kBF16), kF16 = bits(DType::kF16);

// By KernelId, those that can do less before those that can do more.
constexpr KernelTraits kTraits[kKernelCount] = {
    {"sk_run_moves", kMoves, 0, Way::kAlone},
    {"sk_run_gemms", kProducts, bits(DType::kF32) | kBf16 | kF16, Way::kAlone},
    {"sk_run_boxes_bf16", kProducts, kBf16, Way::kBoxes},
    {"sk_run_boxes_f16", kProducts, kF16, Way::kBoxes},
    {"sk_run_narrow_bf16", kProducts, kBf16, Way::kNarrow},
    {"sk_run_narrow_f16", kProducts, kF16, Way::kNarrow},
    {"sk_run_pairs_bf16", kProducts, kBf16, Way::kPairs},
    {"sk_run_pairs_f16", kProducts, kF16, Way::kPairs}};

void note(const RankPlan& part, const Task& task, TileNeeds& needs) {
  constexpr uint32_t kUserTile = 31;  // No kernel has one.
  needs.ops |= 1u << std::min(uint32_t(task.op), kUserTile);
  if (task.op != TaskOp::kGemm) return;
  needs.types |= bits(DType(part.params_of(task)[kGemmDtype]));
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
  const bool wide = way == Way::kBoxes;
  return {kBoxRowsA * queue_blocks(), wide ? kBoxRowsB : kNarrowBoxRowsB};
}

const KernelTraits& traits_of(KernelId id) { return kTraits[id]; }

std::optional<KernelId> find_kernel(const TileNeeds& needs, Way way) {
  for (uint32_t id = 0; id < kKernelCount; ++id) {
    const KernelTraits& each = kTraits[id];
    if (each.way == way && (needs.ops & ~each.ops) == 0 && (needs.types & ~each.types) == 0)
      return KernelId(id);
  }
  return std::nullopt;
}

Way way_of_boxes(const TileNeeds& needs) { return needs.wide_tiles ? Way::kBoxes : Way::kNarrow; }

}  // namespace sk::cuda
