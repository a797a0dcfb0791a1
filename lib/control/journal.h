// What the session was told of its cells and has not acknowledged: a front end that comes after a
// lost one is told it anew.
//
// Pure. Bounded: a cell's stream keeps its beginning and its end, with the count of what is
// between.
#ifndef SK_LIB_CONTROL_JOURNAL_H_
#define SK_LIB_CONTROL_JOURNAL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/message.h"

namespace sk::control {

class Journal {
 public:
  static constexpr uint64_t kStreamKept = 1u << 20;        // At each end of one stream.
  static constexpr uint64_t kDisplayBytesMax = 64u << 20;  // Of one cell.

  // A cell was queued.
  void begin(uint64_t cell, std::string tag);
  // An event was emitted; `heard` when a front end was there to hear it.
  void add(const Event& event, bool heard);
  // The front end keeps this cell's end itself.
  void acknowledge(uint64_t cell);

  // The events that bring a new front end to where the last one was, cell by cell: its start with
  // the tag, a clear of what was shown, what is to be shown, its end if it has ended.
  std::vector<Event> replay();

 private:
  struct Entry {
    std::string tag;
    std::optional<Event> start;
    std::vector<Event> view;
    std::map<size_t, uint64_t> elided;  // Bytes left out of the stream at this place of the view.
    uint64_t display_bytes = 0;
    uint64_t displays_elided = 0;
    std::optional<Event> done;
    bool loose = false;  // Late text of a cell that was acknowledged: shown as it is.
  };

  static void add_to_view(Entry& entry, const Event& event);
  static std::vector<Event> view_of(const Entry& entry);

  std::map<uint64_t, Entry> entries_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_JOURNAL_H_
