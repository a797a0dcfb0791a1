// Which bytes every task touches, cut into cells: the smallest pieces that any task tells apart.
//
// A memory that some regions address with one pitch is a grid of rows of that pitch, so that a
// strided tile is one rectangle; other memory is one row. Cuts at the borders of all regions make
// cells; every access covers whole cells.
#ifndef SK_LIB_PLAN_CHECK_FOOTPRINT_H_
#define SK_LIB_PLAN_CHECK_FOOTPRINT_H_

#include <span>
#include <vector>

#include "lib/plan/check/cast.h"
#include "lib/plan/check/operands.h"
#include "lib/plan/check/refuse.h"
#include "lib/plan/plan.h"

namespace sk::check {

// Rows [row0, row1) and columns [column0, column1) of a memory's cells.
struct Rect {
  uint32_t row0, row1, column0, column1;
};

struct Access {
  uint32_t memory;
  uint32_t first_rect, rect_count;  // In the order of the region's bytes.
  uint16_t region;                  // Index in the task.
  uint16_t entry;                   // Which of the region's buffers.
  bool write;
};

struct Memory {
  uint32_t owner = 0;
  uint32_t buffer = 0;  // The first id.
  BufferKind kind = BufferKind::kWorkspace;
  uint8_t operand = 0;
  uint8_t generations = 1;
  uint64_t bytes = 0;
  uint64_t pitch = 0;             // Bytes of a row; at least 1.
  std::vector<uint64_t> rows;     // Cuts, ascending, in rows.
  std::vector<uint64_t> columns;  // Cuts, ascending, in bytes.
  uint32_t first_cell = 0;
  // What the op defines of a caller's operand: rects in the order of its bytes.
  uint32_t first_rect = 0, rect_count = 0;

  uint32_t row_count() const { return rows.empty() ? 0 : uint32_t(rows.size() - 1); }
  uint32_t column_count() const { return columns.empty() ? 0 : uint32_t(columns.size() - 1); }
  uint32_t cell(uint32_t row, uint32_t column) const {
    return first_cell + row * column_count() + column;
  }
  uint32_t cell_count() const { return row_count() * column_count(); }
};

class Footprint {
 public:
  Footprint(const Plan& plan, const Cast& cast, Budget& budget)
      : plan_(plan), cast_(cast), operands_(operands_of(plan)), budget_(budget) {}
  Status build();

  const std::vector<Memory>& memories() const { return memories_; }
  uint32_t cell_count() const { return cell_count_; }
  const Operands& operands() const { return operands_; }
  // Of task `index` of rank `rank`; reads before writes in the order of its regions.
  std::span<const Access> accesses(uint32_t rank, uint32_t index) const {
    const uint32_t task = first_task_[rank] + index;
    return std::span(accesses_).subspan(first_access_[task],
                                        first_access_[task + 1] - first_access_[task]);
  }
  std::span<const Rect> rects(const Access& access) const {
    return std::span(rects_).subspan(access.first_rect, access.rect_count);
  }
  std::span<const Rect> operand_rects(const Memory& memory) const {
    return std::span(rects_).subspan(memory.first_rect, memory.rect_count);
  }
  uint32_t memory_of(uint32_t buffer) const { return memory_of_[buffer]; }

 private:
  struct ByteRect {
    uint64_t row0, row1, column0, column1;
  };
  void find_memories();
  void find_pitches();
  Status place_task(const RankPlan& part, uint32_t index);
  void place_operands();
  void place(uint32_t memory, const Region& region);
  void add_rect(uint32_t memory, const ByteRect& rect);
  void cut();

  const Plan& plan_;
  const Cast& cast_;
  const Operands operands_;
  Budget& budget_;
  std::vector<Memory> memories_;
  std::vector<uint32_t> memory_of_;
  std::vector<uint32_t> first_task_, first_access_;
  std::vector<Access> accesses_;
  std::vector<ByteRect> byte_rects_;
  std::vector<uint32_t> rect_memory_;
  std::vector<Rect> rects_;
  uint32_t cell_count_ = 0;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_FOOTPRINT_H_
