#include "lib/plan/check/callers.h"

#include <algorithm>

#include "lib/op/scope.h"

namespace sk::check {

using effect::append;
using effect::kPieceSteps;
using effect::Piece;
using effect::Stream;

namespace {

constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

uint32_t Callers::find(Role role, uint32_t home, uint32_t rank) const {
  const std::span<const OperandSchema> all = plan_.op.schema().operands;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].role == role && operands_.home(i) == home && operands_.window(i, rank).count > 0) {
      return i;
    }
  }
  return kNone;
}

Callers::Given Callers::given(uint32_t home, uint32_t rank) const {
  Given out;
  out.work = &work_;
  const uint32_t operand = find(Role::kIn, home, rank);
  if (operand == kNone) return out;
  const effect::ArrayInfo& array = meaning_.array(operand + 1);
  out.window = operands_.window(operand, rank);
  out.term = {.array = uint8_t(operand + 1), .dtype = array.dtype, .first = rank, .last = rank + 1};
  if (plan_.op.storage(operand) == Storage::kPackedB) {
    out.row_bytes = out.stride = out.window.count;
    out.term = blocks_.lay_out(out.term, {&effect::layouts::kPackedB,
                                          operand + 1,
                                          {0, array.rows, 0, array.cols},
                                          out.window.count});
    return out;
  }
  out.term.turned = flag(plan_.op, plan_.op.schema().operands[operand].turned_by);
  out.row_bytes = (out.term.turned ? array.rows : array.cols) * dtype_bytes(array.dtype);
  const bool strided = plan_.op.storage(operand) == Storage::kRows;
  out.stride = strided ? operands_.extent(operand).stride : out.row_bytes;
  return out;
}

void Callers::Given::bytes(uint64_t offset, uint64_t bytes, Stream* out) const {
  if (term.is_nothing() || offset < window.first || offset + bytes > window.first + window.count) {
    return append(*out, {.bytes = bytes});  // Cells do not cross the borders of windows.
  }
  offset -= window.first;
  while (bytes > 0 && !work->exhausted()) {
    const uint64_t row = offset / stride, column = offset % stride;
    if (stride == row_bytes && column == 0 && bytes >= stride) {  // Whole rows, side by side.
      const uint64_t rows = bytes / stride;
      append(*out, {.term = term, .rows = rows, .bytes = stride, .row = row});
      offset += rows * stride;
      bytes -= rows * stride;
      continue;
    }
    work->spend(kPieceSteps);
    const bool gap = column >= row_bytes;
    const uint64_t size = std::min(bytes, (gap ? stride : row_bytes) - column);
    append(*out, gap ? Piece{.bytes = size}
                     : Piece{.term = term, .bytes = size, .row = row, .column = column});
    offset += size;
    bytes -= size;
  }
}

Stream Callers::behind(uint32_t home, uint32_t rank) const {
  const Extent extent = operands_.extent(home);
  const Given before = given(home, rank);
  const uint32_t operand = find(Role::kOut, home, rank);
  // Of rows that are apart the bytes between them are nobody's.
  const uint64_t end = extent.rows * extent.row_bytes;
  Stream out;
  if (operand == kNone) {
    before.bytes(0, end, &out);
    return out;
  }
  const effect::ArrayInfo& array = meaning_.array(operand + 1);
  const Window window = operands_.window(operand, rank);
  if (window.first > 0) before.bytes(0, window.first, &out);
  meaning_.hold(operand + 1, rank, {0, array.rows, 0, array.cols}, &out);
  const uint64_t last = window.first + window.count;
  if (last < end) before.bytes(last, end - last, &out);
  return out;
}

bool Callers::has_results(uint32_t home, uint32_t rank) const {
  return find(Role::kOut, home, rank) != kNone;
}

}  // namespace sk::check
