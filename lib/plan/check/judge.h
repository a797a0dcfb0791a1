// Rule e: runs a plan on what bytes stand for instead of bytes, and looks at the outputs.
#ifndef SK_LIB_PLAN_CHECK_JUDGE_H_
#define SK_LIB_PLAN_CHECK_JUDGE_H_

#include <vector>

#include "lib/effect/run.h"
#include "lib/plan/check/callers.h"
#include "lib/plan/check/footprint.h"

namespace sk::check {

// The contents of every cell.
class Judge {
 public:
  Judge(const Plan& plan, const Cast& cast, const Footprint& footprint,
        const effect::Meaning& meaning, Budget& budget);

  // Run 0's task, in an order that the plan allows. Keeps the first failure; later calls do
  // nothing.
  void task(const Where& where);
  void end(uint32_t rank);
  // In place of task(): of a task of which only what it leaves where it writes is known.
  void leave(const Where& where, const effect::Stream& content);
  // What lies where a task of one written region has written.
  effect::Stream left_by(const Where& where) const;
  bool failed() const { return !status_.ok(); }
  Status take_status() { return std::move(status_); }

 private:
  effect::Stream read(const Memory& memory, std::span<const Rect> rects) const;
  Status write(const Memory& memory, std::span<const Rect> rects, const effect::Stream& stream,
               const Where& where);
  Status put_cell(uint32_t cell, effect::Stream content, bool output, const Where& where);
  void fill(const Memory& memory);
  Status run_task(const Where& where);
  Status check_output(uint32_t rank);
  Status check_untouched(const Memory& memory);
  bool is_as_wanted(const Memory& memory, const effect::Stream& wanted) const;
  Status check_piecewise(const Memory& memory, const effect::Stream& wanted, uint32_t rank) const;

  const Plan& plan_;
  const Cast& cast_;
  const Footprint& footprint_;
  Budget& budget_;
  const effect::Meaning& meaning_;
  effect::Blocks blocks_;
  Callers callers_;
  std::vector<effect::Stream> cells_;
  std::vector<bool> written_;
  std::vector<effect::TileInput> inputs_;  // Of the task at hand.
  Status status_;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_JUDGE_H_
