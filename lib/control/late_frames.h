// Cells whose output a thread or task clears after their end: animations, most likely.
//
// A clear empties the cell in the notebook, whoever shows something there. So from the first one on
// what each rank has put out since its own last clear is kept here, bounded as a cell's view is,
// and what the cell shows is made of that: one rank's frame never takes away another's.
#ifndef SK_LIB_CONTROL_LATE_FRAMES_H_
#define SK_LIB_CONTROL_LATE_FRAMES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "lib/control/merge/view.h"

namespace sk::control {

class LateFrames {
 public:
  bool has(uint64_t cell) const { return cells_.contains(cell); }
  // A rank has cleared `cell`. The oldest one beyond the limit is forgotten: what comes there is
  // shown below what it has until the next clear.
  void start(uint64_t cell);
  // Of a cell that it has. The style is that of now.
  void add(uint64_t cell, uint32_t rank, const Record& record, const RankSet& world,
           const ViewStyle& style, int64_t now_ns);

  // Something came that take() has not looked at.
  bool has_news() const;
  // What makes a reader see the newest frames: added to what there is where that is enough.
  std::vector<Event> take();

 private:
  struct Frames {
    RankLogs logs;
    RankSet world;
    ViewStyle style;
    std::vector<Event> shown;
    bool cleared = false;  // In the notebook.
    bool news = false;
  };
  static void take_of(uint64_t cell, Frames& frames, std::vector<Event>& out);

  std::map<uint64_t, Frames> cells_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_LATE_FRAMES_H_
