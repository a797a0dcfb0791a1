// What one rank put out in one cell, as the ordered list of items that a reader would see.
//
// Streams are assembled into lines as a terminal would: \r, \b, cursor-up and erase-line rewrite
// what is there. Updates of a display that this cell made are applied in place; a clear removes
// what came before it. So the list depends on the rank's records only, never on when they came.
#ifndef SK_LIB_CONTROL_MERGE_RANK_LOG_H_
#define SK_LIB_CONTROL_MERGE_RANK_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/control/message.h"

namespace sk::control {

// One line of a stream (with its '\n' once it has one), a display, or an update of a display that
// an earlier cell made.
struct Item {
  enum class Kind : uint8_t { kLine, kDisplay, kUpdate };
  Kind kind = Kind::kLine;
  bool open = false;  // A line that may still grow.
  uint32_t stream = 0;
  int64_t came_ns = 0;  // When the engine first saw it.
  std::string text;
  std::vector<Mime> mimes;
  std::string display_id;
  std::string metadata;

  bool same_content(const Item& other) const {
    return kind == other.kind && stream == other.stream && text == other.text &&
           mimes == other.mimes && display_id == other.display_id && metadata == other.metadata;
  }
};

// A rank's error and when it happened by the rank's clock.
struct RankError {
  int64_t time_ns = 0;
  ErrorRecord error;
};

class RankLog {
 public:
  // Beyond `bytes_max` of lines, text is counted instead of kept.
  explicit RankLog(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  void add(const Record& record, int64_t now_ns);

  // No record follows: open lines are closed, what was elided is said.
  void finish(int64_t now_ns);

  const std::vector<Item>& items() const { return items_; }
  const std::vector<DisplayRecord>& results() const { return results_; }
  const std::optional<DisplayRecord>& page() const { return page_; }
  const std::optional<RankError>& error() const { return error_; }
  uint32_t clears() const { return clears_; }
  bool finished() const { return finished_; }

  // Items [0, published()) were shown; altered() says that one of those changed since.
  size_t published() const { return published_; }
  bool altered() const { return altered_; }
  void set_published(size_t count) {
    published_ = count;
    altered_ = false;
  }

 private:
  // The cursor of one stream: which of its rows it is in, and where.
  struct Cursor {
    std::vector<size_t> rows;  // Items of the rows that a cursor-up can still reach.
    size_t row = 0;            // rows.size(): below the last, where no line exists yet.
    size_t column = 0;         // In characters; meaningful when not at_end.
    bool at_end = true;
    std::string pending;  // An escape sequence whose end has not come.
  };

  void add_stream(const StreamRecord& stream, int64_t now_ns);
  void add_display(const DisplayRecord& display, int64_t now_ns);
  void feed(Cursor& cursor, uint32_t stream, std::string_view text, int64_t now_ns);
  void write(Cursor& cursor, uint32_t stream, std::string_view run, int64_t now_ns);
  void overwrite(Cursor& cursor, Item& line, std::string_view run);
  void new_line(Cursor& cursor, uint32_t stream, int64_t now_ns);
  void backspace(Cursor& cursor);
  void control(Cursor& cursor, std::string_view sequence);
  size_t line_of(Cursor& cursor, uint32_t stream, int64_t now_ns);
  void close_lines();
  void clear();
  void touch(size_t item) { altered_ = altered_ || item < published_; }

  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  uint64_t elided_bytes_ = 0;
  uint64_t elided_lines_ = 0;
  std::vector<Item> items_;
  std::vector<DisplayRecord> results_;
  std::optional<DisplayRecord> page_;  // The last one: a pager shows one text.
  std::optional<RankError> error_;
  Cursor cursors_[2];
  uint32_t clears_ = 0;
  bool clear_pending_ = false;
  bool finished_ = false;
  size_t published_ = 0;
  bool altered_ = false;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_RANK_LOG_H_
