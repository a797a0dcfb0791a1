// Rule c: who touched each cell last, and whether the next one knows that it is over.
#ifndef SK_LIB_PLAN_CHECK_CELLS_H_
#define SK_LIB_PLAN_CHECK_CELLS_H_

#include <vector>

#include "lib/plan/check/events.h"
#include "lib/plan/check/footprint.h"

namespace sk::check {

// Something that touches memory and may be over or not.
struct Toucher {
  enum Kind : uint8_t { kNobody, kTask, kPutArrival, kCaller, kOtherPlan };
  Kind kind = kNobody;
  int32_t run = 0;
  uint32_t id = 0;  // An event, or the rank of a caller or of another plan's run.
};

class Cells {
 public:
  Cells(const Plan& plan, const Events& events, const Footprint& footprint, Clocks& clocks,
        Budget& budget);

  // All accesses of `event`, which starts with what `clock` knows.
  Status touch(uint32_t event, uint32_t clock, int32_t run);
  // Whoever comes on `rank` between two runs: its caller may read and write all its buffers,
  // another plan's run its workspace (a call between two ranks awaits nobody else). `run` begins.
  Status touch_between(uint32_t rank, uint32_t clock, int32_t run);

 private:
  struct Cell {
    Toucher writer;
    // Since the last write, but for those that a later one knew of: the first, then the others.
    Toucher reader;
    std::vector<Toucher> more_readers;
  };
  bool over(const Toucher& toucher, uint32_t clock) const;
  Status race(const Toucher& first, bool first_writes, uint32_t event, const Access& access) const;
  Status end_race(const Toucher& first, uint32_t rank, const Memory& memory) const;
  std::string name(const Toucher& toucher) const;
  Status read(Cell& cell, const Toucher& self, uint32_t clock, const Access& access);
  Status write(Cell& cell, const Toucher& self, uint32_t clock, const Access& access);
  Cell* cells_of(const Memory& memory, int32_t run) {
    return cells_.data() + (memory.generations > 1 && run % 2 ? cells_.size() / 2 : 0);
  }

  const Plan& plan_;
  const Events& events_;
  const Footprint& footprint_;
  Clocks& clocks_;
  Budget& budget_;
  std::vector<Cell> cells_;                     // Of even runs, then those of odd ones.
  std::vector<std::vector<uint32_t>> between_;  // By rank, what it has of one generation.
};

// Regions of one task must not overlap where one is written, but for reductions in place.
Status check_aliases(const Plan& plan, const Footprint& footprint, const Events& events,
                     Budget& budget);

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_CELLS_H_
