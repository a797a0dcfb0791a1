// Rule e: runs a plan on what bytes stand for instead of bytes, and looks at the outputs.
#ifndef SK_LIB_PLAN_CHECK_CONTENTS_H_
#define SK_LIB_PLAN_CHECK_CONTENTS_H_

#include <vector>

#include "lib/plan/check/footprint.h"
#include "lib/plan/check/stream.h"

namespace sk::check {

// What a task reads through one of its regions.
struct TaskInput {
  uint32_t region;
  Stream content;
};

// The contents of every cell.
class Contents {
 public:
  Contents(const Plan& plan, const Footprint& footprint, Budget& budget);

  // Run 0's task, in an order that the plan allows. Keeps the first failure; later calls do
  // nothing.
  void task(const Where& where);
  void end(uint32_t rank);
  Status take_status() { return std::move(status_); }

 private:
  Stream read(const Memory& memory, std::span<const Rect> rects) const;
  Status write(const Memory& memory, std::span<const Rect> rects, const Stream& stream,
               const Where& where);
  Status put_cell(uint32_t cell, Stream content, bool output, const Where& where);
  void fill(const Memory& memory);
  Status run_task(const Where& where);
  Status check_output(uint32_t rank);
  bool is_as_wanted(const Memory& memory, const Stream& expected) const;
  Status check_piecewise(const Memory& memory, const Stream& expected, uint32_t rank) const;

  const Plan& plan_;
  const Footprint& footprint_;
  Budget& budget_;
  Blobs blobs_;
  std::vector<Stream> cells_;
  std::vector<bool> written_;
  std::vector<TaskInput> inputs_;  // Of the task at hand.
  Status status_;
};

// What the caller has put into bytes [offset, offset + bytes) of a memory.
Stream initial(const Plan& plan, const Operands& operands, const Memory& memory, uint64_t offset,
               uint64_t bytes, Blobs& blobs);
// The same for the whole of an in-place vector.
Stream initial_operand(const Plan& plan, const Operands& operands, uint32_t rank);
// What must lie in rank `rank`'s output operand in the end.
Stream expected(const Plan& plan, const Operands& operands, uint32_t rank);

// What a task leaves in its outputs, given the contents of its inputs by access.
Result<Stream> task_result(const Plan& plan, const Where& where,
                           const std::vector<TaskInput>& inputs, Blobs& blobs, Budget& budget);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_CONTENTS_H_
