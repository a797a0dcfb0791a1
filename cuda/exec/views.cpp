#include "cuda/exec/views.h"

#include <algorithm>
#include <compare>
#include <map>

#include "cuda/exec/image.h"
#include "lib/plan/packed.h"

namespace sk::cuda {
namespace {

constexpr uint64_t kUnit = 16;                   // Bytes: what the copy engine reads whole.
constexpr uint64_t kElementBytes = 2;            // Of the types that it is asked for.
constexpr uint64_t kCoordinateMax = 1ull << 31;  // Coordinates are signed.
constexpr uint64_t kPitchMax = 1ull << 40;

// Rows that lie equally far apart in a buffer, as many as there may be.
struct Rows {
  uint32_t buffer = 0;
  uint64_t offset = 0, pitch = 0, columns = 0;
  DType dtype = DType::kBF16;
  uint32_t box_rows = 0;

  auto operator<=>(const Rows&) const = default;
};

// Some of them, from `first` on.
struct Strip {
  Rows rows;
  uint64_t first = 0, count = 0;

  uint64_t end() const { return first + count; }
};

bool is_readable(const Strip& strip) {
  const Rows& rows = strip.rows;
  return (rows.offset | rows.pitch) % kUnit == 0 && rows.columns > 0 &&
         rows.columns < kCoordinateMax && strip.end() < kCoordinateMax && rows.pitch < kPitchMax;
}

// A matrix as it lies. A single row may have any pitch, so it gets one that can be read.
std::optional<Strip> strip_of(const Region& is, uint64_t rows, uint64_t columns, DType dtype,
                              uint32_t box_rows) {
  if (is.buffer_count != 1) return {};
  if (is.rows != rows || is.row_bytes != columns * kElementBytes) return {};
  const bool is_row = is.rows == 1 && (is.pitch < is.row_bytes || is.pitch % kUnit != 0);
  const uint64_t pitch = is_row ? align_up(std::max(is.row_bytes, kUnit), kUnit) : is.pitch;
  if (pitch < std::max<uint64_t>(is.row_bytes, 1)) return {};
  const uint64_t offset = is_row ? is.offset : is.offset % pitch;
  return Strip{
      {is.buffer, offset, pitch, columns, dtype, box_rows}, (is.offset - offset) / pitch, rows};
}

// Of a tile, its rows of A.
std::optional<Strip> strip_of_a(const Region& a, const int64_t* params) {
  if (params[kGemmTransposeA] != 0) return {};
  return strip_of(a, uint64_t(params[kGemmRows]), uint64_t(params[kGemmK]),
                  DType(params[kGemmDtype]), kBoxRowsA);
}

// All of B, whichever columns the tile takes. Packed B turned: rows of k, one for each column of B.
std::optional<Strip> strip_of_b(TaskOp op, const Region& b, const int64_t* params,
                                uint32_t box_rows) {
  const auto k = uint64_t(params[kGemmK]), n = uint64_t(params[kGemmN]);
  if (op == TaskOp::kGemmRaw) {
    const bool by_rows = layout_of_b(op, params) == LayoutB::kRows;
    return strip_of(b, by_rows ? k : n, by_rows ? n : k, DType(params[kGemmDtype]), box_rows);
  }
  if (b.buffer_count != 1 || b.rows != 1) return {};
  const uint64_t pitch = packed_pitch(k, n, kElementBytes, b.row_bytes);
  return Strip{{b.buffer, b.offset, pitch, k, DType(params[kGemmDtype]), box_rows}, 0, n};
}

// Collects strips, then finds a view for each of them.
class Table {
 public:
  Table(const Plan& plan, const BoxShape& shape) : plan_(plan), shape_(shape) {}

  void note(const Strip& strip) {
    uint64_t& end = ends_[strip.rows];
    end = std::max(end, strip.end());
  }

  // Boxes read past the rows of a tile, up to the end of the view. That does no harm where nobody
  // writes there, so all tiles of an input have one view. Where others may write meanwhile, a tile
  // whose last block is not whole gets a view that ends with it.
  uint32_t find(const Strip& strip) {
    const bool is_written = plan_.buffers[strip.rows.buffer].kind != BufferKind::kInput;
    const bool is_ragged = is_written && strip.count % shape_.block_rows != 0;
    const uint64_t end = is_ragged ? strip.end() : ends_.at(strip.rows);
    const auto [place, is_new] = places_.try_emplace({strip.rows, end}, uint32_t(views_.size()));
    if (is_new) {
      const Rows& rows = strip.rows;
      views_.push_back(
          {rows.buffer, rows.offset, end, rows.columns, rows.pitch, rows.dtype, rows.box_rows});
    }
    return place->second;
  }

  std::vector<View> take() { return std::move(views_); }

 private:
  const Plan& plan_;
  const BoxShape shape_;
  std::map<Rows, uint64_t> ends_;
  std::map<std::pair<Rows, uint64_t>, uint32_t> places_;
  std::vector<View> views_;
};

// What the copy engine reads of a product: both operands, and from which column of B on.
struct Factors {
  Strip a, b;
  uint32_t column = 0;
};

// What lies in a staging area is elsewhere in each second run, and a graph repeats its views.
bool stays(const Plan& plan, const Region& region) {
  return plan.buffers[region.buffer].generations == 1;
}

std::optional<Factors> factors_of(const Plan& plan, const RankPlan& part, const Task& task,
                                  const BoxShape& shape) {
  const int64_t* params = part.params_of(task).data();
  const DType dtype = DType(params[kGemmDtype]);
  if (dtype != DType::kBF16 && dtype != DType::kF16) return {};
  const Region &a = part.regions_of(task)[0], &b = part.regions_of(task)[1];
  if (!stays(plan, a) || !stays(plan, b)) return {};
  const std::optional<Strip> strip_a = strip_of_a(a, params);
  const std::optional<Strip> strip_b = strip_of_b(task.op, b, params, shape.rows_b);
  if (!strip_a || !strip_b || !is_readable(*strip_a) || !is_readable(*strip_b)) return {};
  return Factors{*strip_a, *strip_b, uint32_t(params[kGemmCol0])};
}

}  // namespace

LayoutB layout_of_b(TaskOp op, const int64_t* params) {
  const bool by_rows = op == TaskOp::kGemmRaw && params[kGemmRawTransposeB] == 0;
  return by_rows ? LayoutB::kRows : LayoutB::kColumns;
}

std::optional<ViewTable> views_of(const Plan& plan, const BoxShape& shape) {
  Table found(plan, shape);
  std::vector<std::vector<std::optional<Factors>>> all;
  for (const RankPlan& part : plan.ranks) {
    auto& factors = all.emplace_back(part.tasks.size());
    for (size_t i = 0; i < part.tasks.size(); ++i) {
      if (!is_gemm(part.tasks[i].op)) continue;
      factors[i] = factors_of(plan, part, part.tasks[i], shape);
      if (!factors[i]) return {};
      found.note(factors[i]->a);
      found.note(factors[i]->b);
    }
  }
  ViewTable table;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::vector<ProductViews>& tasks = table.tasks.emplace_back(all[rank].size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (!all[rank][i]) continue;
      const auto& [a, b, column] = *all[rank][i];
      tasks[i] = {uint16_t(found.find(a)), uint16_t(found.find(b)), uint32_t(a.first), column};
    }
  }
  table.views = found.take();
  if (table.views.empty() || table.views.size() > kViewsMax) return {};
  return table;
}

std::optional<std::vector<BoxView>> place_views(const Plan& plan, const ViewTable& table,
                                                std::span<const uint64_t> ranks,
                                                std::span<const RankOperands> operands) {
  std::vector<BoxView> placed;
  for (const View& view : table.views) {
    const Buffer& buffer = plan.buffers[view.buffer];
    const uint64_t base =
        buffer.kind == BufferKind::kWorkspace
            ? ranks[buffer.owner] + rank_memory(plan, buffer.owner).workspace + buffer.offset
            : reinterpret_cast<uint64_t>(operands[buffer.owner][buffer.operand]);
    const uint64_t address = base + view.offset;
    if (address % kUnit != 0) return {};
    placed.push_back({address, view.rows, view.columns, view.pitch, view.dtype, view.box_rows});
  }
  return placed;
}

}  // namespace sk::cuda
