#include "lib/algo/rows.h"

#include <algorithm>
#include <bit>

#include "lib/algo/planner.h"
#include "lib/op/extent.h"
#include "lib/op/schema.h"

namespace sk::algo {
namespace {

constexpr uint64_t kTaskBytes = 64 << 10;    // Stays in the second cache.
constexpr uint64_t kQueueBytes = 128 << 10;  // Less is not worth a second thread's waking up.
constexpr uint64_t kTasksMax = 64;           // Of a queue; plans are judged task by task.
// Above it a call takes so long (milliseconds) that making its plan (0.1 ms) is not felt.
constexpr uint64_t kRoomBytesMax = 16 << 20;

}  // namespace

Region RowsOperand::rows(uint64_t row, uint64_t count, RegionAccess access) const {
  if (count == 0) return {0, 0, 0, 1, buffer, 1, access};
  if (is_vector) return flat(buffer, row * row_bytes, count * row_bytes, access);
  const uint64_t apart = count == 1 ? row_bytes : pitch;
  return {row * pitch, row_bytes, apart, uint32_t(count), buffer, 1, access};
}

Region RowsOperand::block(uint64_t row, uint64_t count, uint64_t first, uint64_t bytes,
                          RegionAccess access) const {
  if (count == 0) return {0, 0, 0, 1, buffer, 1, access};
  const uint64_t apart = count == 1 ? bytes : pitch;
  return {row * pitch + first, bytes, apart, uint32_t(count), buffer, 1, access};
}

Region RowsOperand::columns(uint64_t first, uint64_t bytes, uint64_t count,
                            RegionAccess access) const {
  return block(0, count, first, bytes, access);
}

RowsOperand add_rows(Layout& layout, uint8_t number) {
  const OpDesc& op = layout.op();
  const Operands operands(op, 1, 0);
  const BufferKind kind = kind_of(operands, op, number);
  const Extent extent = operands.extent(number);
  RowsOperand out;
  out.row_bytes = extent.row_bytes;
  out.pitch = extent.stride;
  if (op.storage(number) == Storage::kDense) {
    out.is_vector = true;
    out.row_bytes = out.pitch = dtype_bytes(op.type(number));
  }
  out.buffer = layout.add_operand(kind, BufferAccess::kLocal, number, extent.bytes);
  return out;
}

Deal::Deal(const Target& target, uint64_t count, uint64_t row_bytes, uint64_t unit,
           uint64_t rows_least)
    : count_(count), unit_(unit), rows_least_(rows_least) {
  const uint64_t bytes = count * row_bytes, lumps = (count + unit - 1) / unit;
  // The last lump may be less than one.
  const uint64_t least = (rows_least + unit - 1) / unit + (count % unit != 0 ? 1 : 0);
  const uint64_t most =
      std::min<uint64_t>({target.workers, std::max(1u, target.edge_signals_max),
                          std::max<uint64_t>(1, rows_least > 0 ? lumps / least : lumps)});
  queues_ = uint32_t(std::clamp<uint64_t>(bytes / kQueueBytes, 1, std::max<uint64_t>(1, most)));
  const uint64_t each = (count + queues_ - 1) / queues_;
  const uint64_t near = rows_least > 0 ? rows_least : kTaskBytes / std::max<uint64_t>(1, row_bytes);
  rows_ = align_up(std::max<uint64_t>({1, near, (each + kTasksMax - 1) / kTasksMax}), unit);
}

}  // namespace sk::algo

namespace sk {

OpDesc with_room(OpDesc op, uint64_t* in_effect) {
  const Schema& schema = op.schema();
  *in_effect = UINT64_MAX;
  if (schema.free[0] == '\0') return op;
  const Field field = schema.field(schema.free);
  const uint64_t extent = uint64_t(op[field]);
  const Operands operands(op, 1, 0);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < schema.operands.size(); ++i)
    bytes = std::max(bytes, operands.extent(i).bytes);
  // What a call of no rows has may be too long a row to make room for, and of rows of nothing there
  // may be too many.
  if (extent == 0 || bytes == 0 || bytes > algo::kRoomBytesMax) return op;
  *in_effect = extent;
  // Workers that share rows have a piece each of what the plan was made for, the last what is left
  // of its piece: there room costs time.
  const uint64_t steps = bytes < 2 * algo::kQueueBytes ? 4 : 16;  // To the next power of two.
  const uint64_t step = std::max<uint64_t>(1, std::bit_floor(extent) / steps);
  op.set(field, int64_t((extent + step - 1) / step * step));
  return op;
}

}  // namespace sk
