// What the copy engine reads of a plan: a table of matrices, from the regions and parameters of the
// tasks that multiply. Each matrix is in it once, however many tasks of however many ranks multiply
// parts of it, and a task names its two by their places in the table.
#ifndef SK_CUDA_EXEC_VIEWS_H_
#define SK_CUDA_EXEC_VIEWS_H_

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "cuda/kernel/image.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

// One rank's memory for one run, by operand; null where the plan has none.
using RankOperands = std::array<void*, kOperandMax>;

// How kernels of boxes cut what they multiply.
struct BoxShape {
  uint32_t block_rows = kBoxRowsA;  // Of a tile, those that the blocks of one queue take at once.
  uint32_t rows_b = kBoxRowsB;      // Of a box of B: columns of C, or of a B [k, n] rows of it.
};

// How the B of such a product lies.
LayoutB layout_of_b(TaskOp op, const int64_t* params);

// Rows of 16-bit elements in a buffer of the plan.
struct View {
  uint32_t buffer = 0;
  uint64_t offset = 0;             // Of the first row.
  uint64_t rows = 0, columns = 0;  // Columns are neighbours in memory.
  uint64_t pitch = 0;              // Bytes.
  DType dtype = DType::kBF16;
  uint32_t box_rows = 0;
};

struct ViewTable {
  std::vector<View> views;
  std::vector<std::vector<ProductViews>> tasks;  // By rank, then by task.
};

// Of all ranks' parts. Nothing: a product of the plan has operands that the copy engine cannot read
// wherever they lie (types, an A that is turned, strides that are no multiples of 16 bytes, no k),
// or there are more views than a launch carries. Kernels that load by themselves can.
std::optional<ViewTable> views_of(const Plan& plan, const BoxShape& shape);

// A view in memory.
struct BoxView {
  uint64_t address = 0;
  uint64_t rows = 0, columns = 0;
  uint64_t pitch = 0;
  DType dtype = DType::kBF16;
  uint32_t box_rows = 0;
};

// Where the views of `table` are in a run of these operands; `ranks`: where each rank's memory
// begins. Nothing: an address is no multiple of 16.
std::optional<std::vector<BoxView>> place_views(const Plan& plan, const ViewTable& table,
                                                std::span<const uint64_t> ranks,
                                                std::span<const RankOperands> operands);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_VIEWS_H_
