// Which kernel runs a plan: kernels say what they can do, tasks what they need. Nothing here knows
// of operations, only of their tiles.
#ifndef SK_CUDA_EXEC_KERNELS_H_
#define SK_CUDA_EXEC_KERNELS_H_

#include <optional>

#include "cuda/exec/views.h"
#include "cuda/kernel/image.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

struct TileNeeds {
  uint32_t ops = 0;         // Bits, by TaskOp.
  uint32_t types = 0;       // Of products, bits, by DType.
  uint32_t layouts = 0;     // Of B in products, bits, by LayoutB.
  bool wide_tiles = false;  // Products are cut into tiles of more columns than a narrow block has.

  bool multiplies() const { return types != 0; }
  bool operator==(const TileNeeds&) const = default;
};
TileNeeds needs_of(const Plan& plan);

// By how they multiply.
enum class Way : uint8_t {
  kAlone,   // Work warps load for themselves; or there is nothing to multiply.
  kBoxes,   // What the copy engine loads, in boxes,
  kNarrow,  // for blocks of fewer columns,
  kPairs,   // or for two blocks of a cluster, which serve one queue.
};

// In libsk_cuda.so, if not for every target.
struct KernelTraits {
  const char* name;
  uint32_t ops, types, layouts;  // As in TileNeeds: all that it can do.
  Way way;

  uint32_t queue_blocks() const { return way == Way::kPairs ? kPairBlocks : 1; }
  BoxShape shape() const;
};
const KernelTraits& traits_of(KernelId id);

// The smallest that can do all of it in this way.
std::optional<KernelId> find_kernel(const TileNeeds& needs, Way way);
// Boxes, wide ones where tiles are wide: narrow tiles are for products that would else be fewer
// than workers.
Way way_of_boxes(const TileNeeds& needs);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_KERNELS_H_
