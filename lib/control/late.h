// Output beside the running cell: of threads and children that outlived theirs, and of handlers of
// comm messages. Shown under its own cell, in order, at a pace.
//
// Pure as the merge engine is. Text is put out line by line with the rank's tag; what comes faster
// than a notebook can take is counted.
#ifndef SK_LIB_CONTROL_LATE_H_
#define SK_LIB_CONTROL_LATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

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
  int64_t deadline_ns() const { return pending_.empty() ? INT64_MAX : next_ns_; }
  // All at once: something is about to be shown that belongs below it.
  std::vector<Event> flush();

 private:
  struct Entry {
    Event event;
    RankSet ranks;
    uint64_t cut_lines = 0;
    std::string note{};  // Says so.
  };
  using Place = std::pair<uint64_t, uint32_t>;  // Cell and stream.
  Entry* text_entry(Place place);
  void add_text(Place place, uint32_t rank, const std::string& text, const RankSet& world,
                const ViewStyle& style);

  std::vector<Entry> pending_;
  uint64_t pending_bytes_ = 0;
  std::map<Place, uint32_t> mid_line_;  // Whose text ended without a newline.
  std::map<std::pair<uint32_t, uint32_t>, std::string> open_;  // By rank and stream: bytes of a
                                                               // character without its end.
  int64_t now_ns_ = 0;                                         // When it was told the time last.
  int64_t next_ns_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_LATE_H_
