// What a task knows when it starts: which runs have begun, which tasks have finished, which puts
// have arrived. Exact, and as cheap as a vector clock where tasks are learnt of in order.
#ifndef SK_LIB_PLAN_CHECK_KNOWLEDGE_H_
#define SK_LIB_PLAN_CHECK_KNOWLEDGE_H_

#include <cstdint>
#include <vector>

#include "lib/plan/check/refuse.h"

namespace sk::check {

// Entry i of a Clock means: the first clock[i] events of line i are known. Single events beyond
// that are kept as ranges.
struct Beyond {
  uint32_t line;
  int32_t first, last;  // [first, last)
};

struct Clock {
  uint32_t owners = 0;  // Handles to it; shared ones are copied before they change.
  std::vector<int32_t> known;
  std::vector<Beyond> beyond;  // Ascending by line, then first; ranges do not touch.
};

// All clocks of one replay. Handles are indices; kNone is no clock.
class Clocks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  Clocks(uint32_t line_count, Budget& budget) : line_count_(line_count), budget_(budget) {}

  uint32_t make();
  uint32_t share(uint32_t handle) { return ++clocks_[handle].owners, handle; }
  void drop(uint32_t handle);

  bool knows(uint32_t handle, uint32_t line, int32_t event) const;
  int32_t prefix(uint32_t handle, uint32_t line) const { return clocks_[handle].known[line]; }

  // These change `handle` in place, or replace it by a changed copy where it is shared.
  void raise(uint32_t& handle, uint32_t line, int32_t count);  // Knows at least `count` events.
  void learn(uint32_t& handle, uint32_t line, int32_t event);
  void merge(uint32_t& handle, uint32_t other);

 private:
  Clock& own(uint32_t& handle);
  static void settle(Clock& clock);

  uint32_t line_count_;
  Budget& budget_;
  std::vector<Clock> clocks_;
  std::vector<uint32_t> free_;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_KNOWLEDGE_H_
