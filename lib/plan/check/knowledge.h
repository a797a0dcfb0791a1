// What a task knows when it starts: which runs have begun, which tasks have finished, which puts
// have arrived. Exact, and as cheap as a vector clock where tasks are learnt of in order.
#ifndef SK_LIB_PLAN_CHECK_KNOWLEDGE_H_
#define SK_LIB_PLAN_CHECK_KNOWLEDGE_H_

#include <array>
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

// A run of lines, [first, last).
struct LineRange {
  uint32_t first = 0, last = 0;
};

// Lines by whom they concern: what all may ask of a rank, and what concerns a pair of ranks.
struct LineBlocks {
  uint32_t ranks = 0;
  std::vector<LineRange> general;  // By rank.
  std::vector<LineRange> pairs;    // By rank and the rank that it tells: from * ranks + to.
};

// How much a task tells those that wait for it.
enum class Telling : uint8_t {
  kAll,   // All that it knew: exact.
  kPair,  // What concerns the two ranks only. Nobody then knows anything that is not so, but news
          // of third ranks do not travel: what passes is sound, what fails is to be told all.
};

// All clocks of one replay. Handles are indices; kNone is no clock. What a task knew when it posted
// is kept as a note, for the rank that it posts to.
class Clocks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  Clocks(uint32_t line_count, const LineBlocks& blocks, Telling telling, Budget& budget)
      : line_count_(line_count), blocks_(blocks), telling_(telling), budget_(budget) {}

  uint32_t make();
  uint32_t share(uint32_t handle) { return ++clocks_[handle].owners, handle; }
  void drop(uint32_t handle);

  bool knows(uint32_t handle, uint32_t line, int32_t event) const {
    const Clock& clock = clocks_[handle];
    return event < clock.known[line] || (!clock.beyond.empty() && beyond(clock, line, event));
  }
  int32_t prefix(uint32_t handle, uint32_t line) const { return clocks_[handle].known[line]; }

  // These change `handle` in place, or replace it by a changed copy where it is shared.
  void raise(uint32_t& handle, uint32_t line, int32_t count);  // Knows at least `count` events.
  void learn(uint32_t& handle, uint32_t line, int32_t event);
  void merge(uint32_t& handle, uint32_t other);
  // Of `other`, what rank `from` tells rank `to`.
  void hear(uint32_t& handle, uint32_t other, uint32_t from, uint32_t to);

  uint32_t note(uint32_t handle, uint32_t from, uint32_t to);
  void hear_note(uint32_t& handle, uint32_t note, uint32_t from, uint32_t to);
  void drop_note(uint32_t note, uint32_t from, uint32_t to);

 private:
  // Within a rank, or where all is told, a note is a clock.
  bool whole(uint32_t from, uint32_t to) const { return telling_ == Telling::kAll || from == to; }
  std::array<LineRange, 4> told(uint32_t from, uint32_t to) const {
    return {blocks_.general[from], blocks_.pairs[from * blocks_.ranks + to],
            blocks_.pairs[to * blocks_.ranks + from], blocks_.general[to]};
  }
  Clock& own(uint32_t& handle);
  static bool beyond(const Clock& clock, uint32_t line, int32_t event);
  static void settle(Clock& clock);

  uint32_t line_count_;
  const LineBlocks& blocks_;
  Telling telling_;
  Budget& budget_;
  std::vector<Clock> clocks_;
  std::vector<uint32_t> free_;
  std::vector<int32_t> notes_;  // Lines of told(), one note after the other.
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_KNOWLEDGE_H_
