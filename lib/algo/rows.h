// Rows dealt over the workers of one rank, for operations whose rows do not know each other.
#ifndef SK_LIB_ALGO_ROWS_H_
#define SK_LIB_ALGO_ROWS_H_

#include "lib/algo/layout.h"

namespace sk::algo {

// An operand whose rows lie `pitch` bytes apart, or a vector: its elements are then rows.
struct RowsOperand {
  uint32_t buffer = 0;  // Rank 0's.
  uint64_t row_bytes = 0, pitch = 0;
  bool is_vector = false;

  // Rows [row, row + count).
  Region rows(uint64_t row, uint64_t count, RegionAccess access) const;
  // Of those rows the bytes [first, first + bytes).
  Region block(uint64_t row, uint64_t count, uint64_t first, uint64_t bytes,
               RegionAccess access) const;
  // Of all `count` rows the bytes [first, first + bytes).
  Region columns(uint64_t first, uint64_t bytes, uint64_t count, RegionAccess access) const;
};

// Adds the buffer of an operand that the call has, in memory of its own or in another's.
RowsOperand add_rows(Layout& layout, uint8_t operand);

// How `count` rows of `row_bytes` are dealt: each queue has an equal part, in tasks that are large
// enough not to be felt. Both are cut between lumps of `unit` rows.
class Deal {
 public:
  // Every task has `rows_least` at least where the deal has as many.
  Deal(const Target& target, uint64_t count, uint64_t row_bytes, uint64_t unit = 1,
       uint64_t rows_least = 0);

  uint32_t queues() const { return queues_; }
  uint32_t tasks(uint32_t queue) const {
    uint32_t tasks = 0;
    for (uint64_t left = slice_of(count_, queues_, queue, unit_).count; left > 0; ++tasks) {
      left -= next(left);
    }
    return tasks;
  }
  // `visit(queue, first, count)`, queue after queue.
  template <typename Visitor>
  void for_each(Visitor&& visit) const {
    for (uint32_t queue = 0; queue < queues_; ++queue) {
      const Slice part = slice_of(count_, queues_, queue, unit_);
      for (uint64_t at = 0; at < part.count;) {
        const uint64_t rows = next(part.count - at);
        visit(queue, part.begin + at, rows);
        at += rows;
      }
    }
  }

 private:
  // Of so many that are left: those of the next task.
  uint64_t next(uint64_t left) const { return left < rows_ + rows_least_ ? left : rows_; }

  uint64_t count_, unit_, rows_least_, rows_;
  uint32_t queues_;
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_ROWS_H_
