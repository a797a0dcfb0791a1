#include "lib/control/merge/line_editor.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr size_t kEscapeBytesMax = 64;  // A longer one is text.
constexpr size_t kCellsMax = 1024;      // A longer line is not edited.

size_t character_length(std::string_view text, size_t at) {
  size_t n = 1;
  while (at + n < text.size() && (static_cast<unsigned char>(text[at + n]) & 0xc0) == 0x80) ++n;
  return n;
}

// A last cell may hold escape sequences only.
std::vector<std::string> cells_of(std::string_view text) {
  std::vector<std::string> cells;
  std::string cell;
  for (size_t i = 0; i < text.size();) {
    size_t n = text[i] == '\x1b' ? escape_length(text.substr(i, kEscapeBytesMax)) : 0;
    const bool is_escape = n != 0;
    if (!is_escape) n = character_length(text, i);
    cell += text.substr(i, n);
    i += n;
    if (!is_escape) cells.push_back(std::exchange(cell, {}));
  }
  if (cells.empty() && !cell.empty())
    cells.push_back(std::move(cell));
  else if (!cell.empty())
    cells.back() += cell;
  return cells;
}

}  // namespace

void LineEditor::note(Changes& changes, size_t index, bool was_bar) {
  if (was_bar)
    changes.bars = true;
  else
    changes.lowest = std::min(changes.lowest, index);
}

void LineEditor::feed(std::string_view text, ItemList& items, int64_t now_ns, Changes& changes) {
  std::string joined;
  if (!pending_.empty()) text = joined = std::exchange(pending_, {}).append(text);
  while (!text.empty()) {
    const size_t special = std::min(text.find_first_of("\n\r\b\x1b"), text.size());
    if (special > 0) write(text.substr(0, special), false, items, now_ns, changes);
    text.remove_prefix(special);
    if (text.empty()) return;
    size_t taken = 1;
    if (text[0] == '\n') {
      new_line(items, now_ns, changes);
    } else if (text[0] == '\r') {
      carriage_return(items);
    } else if (text[0] == '\b') {
      backspace(items);
    } else {
      taken = escape_length(text.substr(0, kEscapeBytesMax));
      if (taken == 0 && text.size() < kEscapeBytesMax) {
        pending_ = text;
        return;
      }
      const bool is_escape = taken > 0;
      taken = std::max<size_t>(taken, 1);
      const bool moves = taken > 2 && (text[taken - 1] == 'A' || text[taken - 1] == 'K');
      if (moves)
        control(text.substr(0, taken), items, changes);
      else
        write(text.substr(0, taken), is_escape, items, now_ns, changes);
    }
    text.remove_prefix(taken);
  }
}

LineEditor::Row& LineEditor::row_for_writing(ItemList& items, int64_t now_ns) {
  if (row_ < rows_.size()) return rows_[row_];
  Item line;
  line.stream = stream_;
  line.open = true;
  line.came_ns = now_ns;
  open_item_ = items.push(std::move(line));
  rows_.push_back({.item = open_item_});
  if (rows_.size() > ItemList::kEditable) {
    settle_row(rows_.front(), SIZE_MAX, items);
    rows_.pop_front();
  }
  row_ = rows_.size() - 1;
  at_end_ = true;
  return rows_.back();
}

void LineEditor::write(std::string_view run, bool is_escape, ItemList& items, int64_t now_ns,
                       Changes& changes) {
  Row& row = row_for_writing(items, now_ns);
  Item* const item = items.find(row.item);
  if (item == nullptr) return;  // Left out of the view since; the log has it.
  const bool was_bar = item->bar;
  item->bar = item->bar || (!is_escape && (returned_ || !at_end_));
  if (!is_escape) returned_ = false;
  note(changes, row.item, was_bar);
  if (row.frozen || (at_end_ && !row.edited)) return append(row, *item, run, items);
  if (!row.edited) edit(row, items);
  if (row.frozen) return append(row, *item, run, items);
  row.dirty = true;
  if (at_end_) column_ = row.cells.size();
  if (is_escape) {
    if (escapes_.size() < kCellsMax) escapes_ += run;
    return;
  }
  for (size_t i = 0; i < run.size();) {
    const size_t n = character_length(run, i);
    put_cell(row, std::exchange(escapes_, {}).append(run.substr(i, n)), items);
    i += n;
    if (row.frozen) return append(row, *item, run.substr(i), items);
  }
  at_end_ = column_ >= row.cells.size();
}

// At the end of a row that is a plain string.
void LineEditor::append(Row& row, Item& item, std::string_view run, ItemList& items) {
  const uint64_t room = item.cut > 0 ? 0 : kLineBytesMax - std::min(kLineBytesMax, item.bytes);
  std::string_view kept = run.substr(0, std::min<uint64_t>(room, run.size()));
  if (kept.size() < run.size()) kept.remove_suffix(utf8_open_tail(kept));
  item.text += kept;
  item.cut += run.size() - kept.size();
  items.change_bytes(row.item, static_cast<int64_t>(kept.size()));
}

void LineEditor::put_cell(Row& row, std::string cell, ItemList& items) {
  const size_t had = row.cells.size();
  const Item* const item = items.find(row.item);
  if (item == nullptr || item->bytes + cell.size() > kLineBytesMax) return;  // Escapes, no text.
  int64_t grown = static_cast<int64_t>(cell.size());
  if (column_ >= had) {
    row.cells.resize(column_ + 1, " ");
    grown += static_cast<int64_t>(column_ - had);
  } else {
    grown -= static_cast<int64_t>(row.cells[column_].size());
  }
  row.cells[column_++] = std::move(cell);
  items.change_bytes(row.item, grown);
  if (row.cells.size() < kCellsMax) return;
  settle_row(row, SIZE_MAX, items);
  row.frozen = true;
  row.edited = false;
  row.cells.clear();
  at_end_ = true;
}

void LineEditor::edit(Row& row, ItemList& items) {
  Item* const item = items.find(row.item);
  if (row.edited || row.frozen || item == nullptr) return;
  if (item->text.size() >= kCellsMax) {
    row.frozen = true;
    at_end_ = true;
    return;
  }
  row.cells = cells_of(item->text);
  row.edited = item->edited = true;
  if (at_end_) column_ = row.cells.size();
}

// Escape sequences that no character followed stay behind the cell before the cursor.
void LineEditor::leave_cell(ItemList& items) {
  Row* const row = here();
  if (row == nullptr || escapes_.empty()) return;
  const Item* const item = items.find(row->item);
  if (row->edited && item != nullptr && item->bytes + escapes_.size() <= kLineBytesMax) {
    if (row->cells.empty()) row->cells.emplace_back();
    const size_t before = std::min(column_, row->cells.size());
    std::string& cell = row->cells[std::max<size_t>(before, 1) - 1];
    cell.insert(before == 0 ? 0 : cell.size(), escapes_);
    row->dirty = true;
    items.change_bytes(row->item, static_cast<int64_t>(escapes_.size()));
  }
  escapes_.clear();
}

void LineEditor::settle(ItemList& items) {
  for (size_t r = 0; r < rows_.size(); ++r)
    settle_row(rows_[r], r == row_ ? column_ : SIZE_MAX, items);
}

// `cursor`: the cell before which the cursor's escape sequences stand; SIZE_MAX: it is elsewhere.
void LineEditor::settle_row(Row& row, size_t cursor, ItemList& items) {
  if (!row.dirty) return;
  row.dirty = false;
  Item* const item = items.find(row.item);
  if (item == nullptr) return;
  item->text.clear();
  for (size_t i = 0; i < row.cells.size(); ++i) {
    if (i == cursor) item->text += escapes_;
    item->text += row.cells[i];
  }
  if (cursor != SIZE_MAX && cursor >= row.cells.size()) item->text += escapes_;
}

void LineEditor::new_line(ItemList& items, int64_t now_ns, Changes& changes) {
  leave_cell(items);
  Row& row = row_for_writing(items, now_ns);
  Item* const item = items.find(row.item);
  if (item != nullptr && !item->newline) {
    item->newline = true;
    item->open = false;
    items.change_bytes(row.item, 1);
    note(changes, row.item, item->bar);
  }
  if (open_item_ == row.item) open_item_ = SIZE_MAX;
  ++row_;
  carriage_return(items);
  returned_ = false;
}

void LineEditor::carriage_return(ItemList& items) {
  leave_cell(items);
  column_ = 0;
  returned_ = true;
  const Row* const row = here();
  const Item* const item = row == nullptr ? nullptr : items.find(row->item);
  at_end_ =
      item == nullptr || row->frozen || (row->edited ? row->cells.empty() : item->text.empty());
}

void LineEditor::backspace(ItemList& items) {
  leave_cell(items);
  Row* const row = here();
  if (row == nullptr) return;
  if (at_end_) {
    edit(*row, items);
    if (!row->edited) return;
    column_ = row->cells.size();
  }
  if (column_ == 0) return;
  --column_;
  at_end_ = false;
}

// CSI n A (up) and CSI n K (erase in line).
void LineEditor::control(std::string_view sequence, ItemList& items, Changes& changes) {
  leave_cell(items);
  unsigned n = 0;
  std::from_chars(sequence.data() + 2, sequence.data() + sequence.size() - 1, n);
  Row* const row = here();
  if (sequence.back() == 'K') {
    if (row != nullptr) erase(*row, n, items, changes);
    return;
  }
  if (row == nullptr) {
    column_ = 0;
  } else if (at_end_) {
    edit(*row, items);
    column_ = row->edited ? row->cells.size() : 0;
  }
  row_ -= std::min<size_t>(std::max(1u, n), row_);
  at_end_ = rows_.empty() || rows_[row_].frozen;
}

void LineEditor::erase(Row& row, unsigned what, ItemList& items, Changes& changes) {
  edit(row, items);
  const Item* const item = items.find(row.item);
  if (!row.edited || item == nullptr) return;
  const size_t column = at_end_ ? row.cells.size() : column_;
  int64_t before = 0, after = 0;
  for (const std::string& cell : row.cells) before += static_cast<int64_t>(cell.size());
  if (what == 0) row.cells.resize(std::min(row.cells.size(), column));
  if (what == 1) std::fill_n(row.cells.begin(), std::min(row.cells.size(), column + 1), " ");
  if (what == 2) row.cells.clear();
  for (const std::string& cell : row.cells) after += static_cast<int64_t>(cell.size());
  items.change_bytes(row.item, after - before);
  column_ = column;
  at_end_ = column_ == row.cells.size();
  row.dirty = true;
  note(changes, row.item, item->bar);
}

void LineEditor::close(ItemList& items, int64_t now_ns, Changes& changes) {
  if (!pending_.empty()) write(std::exchange(pending_, {}), false, items, now_ns, changes);
  leave_cell(items);
  settle(items);
  Item* const last = open_item_ == SIZE_MAX ? nullptr : items.find(open_item_);
  if (last != nullptr) last->open = false;
  open_item_ = SIZE_MAX;
  rows_.clear();
  row_ = column_ = 0;
  at_end_ = true;
  returned_ = false;
}

}  // namespace sk::control
