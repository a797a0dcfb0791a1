// One stream's text as lines: what a terminal's cursor would have made of it.
//
// \r, \b, cursor-up and erase-line rewrite the last rows. A row that is only appended to stays a
// string; one that is edited becomes cells, so that every control character takes constant time,
// whatever the text is. The outcome depends on the bytes, never on the pieces in which they came.
#ifndef SK_LIB_CONTROL_MERGE_LINE_EDITOR_H_
#define SK_LIB_CONTROL_MERGE_LINE_EDITOR_H_

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lib/control/merge/item_list.h"

namespace sk::control {

inline constexpr uint64_t kLineBytesMax = 256 * 1024;  // Kept of one line.

// Which items were altered by an edit.
struct Changes {
  size_t lowest = SIZE_MAX;  // The first one that is no bar, or only just became one.
  bool bars = false;         // A line that already was a bar changed.
};

class LineEditor {
 public:
  explicit LineEditor(uint32_t stream) : stream_(stream) {}

  // `text` is UTF-8 that ends with a whole character.
  void feed(std::string_view text, ItemList& items, int64_t now_ns, Changes& changes);
  // What follows begins below all rows so far. An escape sequence without its end is text.
  void close(ItemList& items, int64_t now_ns, Changes& changes);
  // Writes the edited rows' text into their items.
  void settle(ItemList& items);
  // The item that may still grow; SIZE_MAX when there is none.
  size_t open_item() const { return open_item_; }

 private:
  struct Row {
    size_t item;
    bool edited = false;               // `cells` hold the text.
    bool frozen = false;               // Too long to be edited: text is appended only.
    bool dirty = false;                // The item's text is older than `cells`.
    std::vector<std::string> cells{};  // A character each, with the escape sequences before it.
  };

  Row* here() { return row_ < rows_.size() ? &rows_[row_] : nullptr; }
  Row& row_for_writing(ItemList& items, int64_t now_ns);
  void write(std::string_view run, bool is_escape, ItemList& items, int64_t now_ns,
             Changes& changes);
  void append(Row& row, Item& item, std::string_view run, ItemList& items);
  void settle_row(Row& row, size_t cursor, ItemList& items);
  void put_cell(Row& row, std::string cell, ItemList& items);
  void edit(Row& row, ItemList& items);
  void leave_cell(ItemList& items);
  void new_line(ItemList& items, int64_t now_ns, Changes& changes);
  void carriage_return(ItemList& items);
  void backspace(ItemList& items);
  void control(std::string_view sequence, ItemList& items, Changes& changes);
  void erase(Row& row, unsigned what, ItemList& items, Changes& changes);
  static void note(Changes& changes, size_t index, bool was_bar);

  uint32_t stream_;
  std::deque<Row> rows_;  // Those that a cursor-up can still reach.
  size_t row_ = 0;        // rows_.size(): below the last, where no line exists yet.
  size_t column_ = 0;     // Meaningful when not at_end_.
  bool at_end_ = true;
  bool returned_ = false;  // A \r came since the line began, and nothing after it.
  std::string escapes_;    // Written at the cursor in an edited row, before the next character.
  std::string pending_;    // An escape sequence whose end has not come.
  size_t open_item_ = SIZE_MAX;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MERGE_LINE_EDITOR_H_
