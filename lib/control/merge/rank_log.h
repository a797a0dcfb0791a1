// What one rank put out in one cell, as the ordered list of items that a reader would see.
//
// Streams are assembled into lines as a terminal would. Updates of a display that this cell made
// are applied in place; a clear removes what came before it. The list is bounded. It depends on
// the rank's records only, never on when they came or how its text was cut into pieces.
#ifndef SK_LIB_CONTROL_MERGE_RANK_LOG_H_
#define SK_LIB_CONTROL_MERGE_RANK_LOG_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/merge/line_editor.h"
#include "lib/control/message.h"

namespace sk::control {

// A rank's error and when it happened by the rank's clock.
struct RankError {
  int64_t time_ns = 0;
  ErrorRecord error;
};

class RankLog {
 public:
  explicit RankLog(const ViewLimits& limits) : limits_(limits), items_(limits) {}

  void add(const Record& record, int64_t now_ns);

  // No record follows: open lines are closed.
  void finish(int64_t now_ns);

  // Leaves out the last text on stderr from the line on that begins with `first`: it is told
  // elsewhere.
  void drop_stderr_from(std::string_view first, int64_t now_ns);

  // Writes what was edited into the items; call it before items are read.
  void settle();
  // Items [begin, end), as far as they are there; the note about those that are not stands in
  // their place. `indices`, if wanted, gets their numbers.
  std::vector<const Item*> items(size_t begin, size_t end, bool with_bars,
                                 std::vector<size_t>* indices = nullptr) const;
  size_t size() const { return items_.size(); }
  bool ends_in_open_line() const;
  // The last `count` of those that are bars.
  std::vector<const Item*> bars(size_t count) const;

  const std::vector<DisplayRecord>& results() const { return results_; }
  const std::optional<DisplayRecord>& page() const { return page_; }
  const std::optional<RankError>& error() const { return error_; }
  uint32_t clears() const { return clears_; }
  bool finished() const { return finished_; }

  // Items [0, published()) were shown; altered() says that one of those changed since.
  size_t published() const { return published_; }
  bool altered() const { return altered_; }
  bool bars_changed() const { return bars_changed_; }
  void set_published(size_t count) { published_ = count; }
  void forget_changes() { altered_ = bars_changed_ = false; }
  // When the first item that was not shown came; INT64_MAX when there is none.
  int64_t oldest_unpublished_ns() const;
  // How many items behind published() can no longer grow, up to the first that can (bars count as
  // such if they are shown as lines).
  size_t closed_unpublished(bool with_bars) const;

 private:
  void add_stream(const StreamRecord& stream, int64_t now_ns);
  void add_display(const DisplayRecord& display, int64_t now_ns);
  bool update(const DisplayRecord& display);
  void close_lines(int64_t now_ns);
  void clear();
  void take(const Changes& changes);

  const ViewLimits limits_;
  ItemList items_;
  std::multimap<std::string, size_t> by_display_id_;
  std::vector<DisplayRecord> results_;
  std::optional<DisplayRecord> page_;  // The last one: a pager shows one text.
  std::optional<RankError> error_;
  LineEditor editors_[2] = {LineEditor(SK_STREAM_STDOUT), LineEditor(SK_STREAM_STDERR)};
  std::string pending_[2];  // Of each stream: bytes of a character whose end has not come.
  uint32_t clears_ = 0;
  bool clear_pending_ = false;
  bool finished_ = false;
  size_t published_ = 0;
  bool altered_ = false;
  bool bars_changed_ = false;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_RANK_LOG_H_
