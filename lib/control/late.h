// Output beside the running cell: of threads and children that outlived theirs, and of handlers of
// comm messages. Shown under its own cell, in order, at a pace.
//
// Pure as the merge engine is. Text is put out line by line with the rank's tag: ranks write the
// parts of a line at the same time, so a line waits a moment for its end. What goes out together is
// in order of ranks. What comes faster than a notebook can take is counted.
#ifndef SK_LIB_CONTROL_LATE_H_
#define SK_LIB_CONTROL_LATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/late_frames.h"
#include "lib/control/merge/style.h"
#include "lib/control/message.h"

namespace sk::control {

class LateOutput {
 public:
  // `world`: all ranks of the session. The style is that of now.
  void add(uint64_t cell, uint32_t rank, const Record& record, const RankSet& world,
           const ViewStyle& style, int64_t now_ns);

  // What is due. Call it at deadline_ns() or later.
  std::vector<Event> due(int64_t now_ns);
  int64_t deadline_ns() const;
  // All at once: something is about to be shown that belongs below it.
  std::vector<Event> flush();
  // Whether what this cell shows is drawn anew from time to time, as a rank has cleared it.
  bool redraws(uint64_t cell) const { return frames_.has(cell); }

 private:
  using Place = std::pair<uint64_t, uint32_t>;  // Cell and stream.
  // What a rank has written of a line, or of a character, whose end is not there yet.
  struct OpenLine {
    std::string text{};
    int64_t since_ns = 0;
    ViewStyle style{};  // That of the line's end.
    bool tagged = false;
    bool all_ranks = false;
    uint32_t last_rank = 0;  // Of the session.
  };
  struct Entry {
    Event event;
    RankSet ranks;
    std::map<uint32_t, OpenLine> lines{};  // Of each rank, in its order.
    uint64_t cut_lines = 0;
    std::string note{};                              // Says so.
    std::shared_ptr<const DisplayRecord> display{};  // Of `ranks`; the event has the cell alone.
    RankSet world{};
    ViewStyle style{};

    bool has(uint32_t rank) const;
    bool shows(uint32_t kind) const { return display && display->kind == kind; }
    bool names(uint32_t rank, const std::string& id) const;
  };
  // What was left out of a cell since the last batch.
  struct Cut {
    uint64_t displays = 0;
    ViewStyle style{};
  };
  using OpenLines = std::map<std::pair<Place, uint32_t>, OpenLine>;
  bool clears(uint64_t cell, uint32_t rank, const Record& record);
  void start_frames(uint64_t cell, uint32_t rank, const RankSet& world, const ViewStyle& style);
  void add_display(uint64_t cell, uint32_t rank, DisplayRecord display, const RankSet& world,
                   const ViewStyle& style);
  bool replace(uint32_t rank, const DisplayRecord& update);
  bool join(size_t from, uint64_t cell, uint32_t rank, const DisplayRecord& display);
  void leave_out(uint32_t kind, size_t most);
  size_t behind(uint32_t rank) const;
  bool waits_for_peers() const;
  Entry* text_entry(Place place, uint32_t rank);
  void add_text(Place place, uint32_t rank, OpenLine line);
  void put_text(Place place, uint32_t rank, const OpenLine& line);
  void write(Place place, uint32_t rank, const OpenLine& line, std::string& out);
  void put_open(OpenLines::iterator line);
  void put_open_of(uint64_t cell, uint32_t rank);
  void put_open_since(int64_t latest_ns);
  void render_text(Entry& entry);
  std::vector<Event> render(Entry& entry);
  std::vector<Event> take_pending();

  std::vector<Entry> pending_;
  uint64_t pending_bytes_ = 0;
  OpenLines open_;
  std::map<Place, uint32_t> mid_line_;              // Whose text ended without a newline.
  std::set<std::pair<Place, uint32_t>> cut_short_;  // Whose line another rank's text has ended.
  LateFrames frames_;
  std::set<std::pair<uint64_t, uint32_t>> clear_next_;  // With what this rank puts out next.
  std::map<uint64_t, Cut> cut_;
  std::set<std::pair<uint32_t, std::string>> left_out_;  // Displays that updates may name.
  int64_t now_ns_ = 0;                                   // When it was told the time last.
  int64_t next_ns_ = 0;
  int64_t hold_ns_ = 0;  // Until then displays wait for their peers.
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_LATE_H_
