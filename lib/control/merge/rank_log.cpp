#include "lib/control/merge/rank_log.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr size_t kRowsKept = 64;        // How far up a cursor-up can go.
constexpr size_t kEscapeBytesMax = 64;  // A longer one is text.

// A line as what a terminal's cells hold: one character each, with the escape sequences before it
// (a last cell may hold sequences only).
std::vector<std::string> cells_of(std::string_view text) {
  std::vector<std::string> cells;
  std::string cell;
  for (size_t i = 0; i < text.size();) {
    size_t n = text[i] == '\x1b' ? escape_length(text.substr(i)) : 0;
    const bool is_escape = n != 0;
    if (!is_escape) {
      n = 1;
      while (i + n < text.size() && (static_cast<unsigned char>(text[i + n]) & 0xc0) == 0x80) ++n;
    }
    cell += text.substr(i, n);
    i += n;
    if (!is_escape) cells.push_back(std::exchange(cell, {}));
  }
  if (!cell.empty()) cells.push_back(std::move(cell));
  return cells;
}

std::string join(const std::vector<std::string>& cells) {
  std::string text;
  for (const std::string& cell : cells) text += cell;
  return text;
}

std::string_view without_newline(const std::string& text) {
  std::string_view view = text;
  if (!view.empty() && view.back() == '\n') view.remove_suffix(1);
  return view;
}

}  // namespace

void RankLog::add(const Record& record, int64_t now_ns) {
  if (const auto* stream = std::get_if<StreamRecord>(&record.body)) add_stream(*stream, now_ns);
  if (const auto* display = std::get_if<DisplayRecord>(&record.body)) add_display(*display, now_ns);
  if (const auto* failure = std::get_if<ErrorRecord>(&record.body))
    if (!error_) error_ = RankError{record.time_ns, *failure};
}

void RankLog::add_stream(const StreamRecord& stream, int64_t now_ns) {
  if (stream.text.empty()) return;
  if (clear_pending_) clear();
  if (bytes_ + stream.text.size() > bytes_max_) {
    elided_bytes_ += stream.text.size();
    elided_lines_ +=
        static_cast<uint64_t>(std::count(stream.text.begin(), stream.text.end(), '\n'));
    return;
  }
  bytes_ += stream.text.size();
  Cursor& cursor = cursors_[stream.stream == SK_STREAM_STDERR ? 1 : 0];
  if (cursor.pending.empty()) return feed(cursor, stream.stream, stream.text, now_ns);
  feed(cursor, stream.stream, std::exchange(cursor.pending, {}) + stream.text, now_ns);
}

void RankLog::feed(Cursor& cursor, uint32_t stream, std::string_view text, int64_t now_ns) {
  while (!text.empty()) {
    const size_t special = std::min(text.find_first_of("\n\r\b\x1b"), text.size());
    if (special > 0) write(cursor, stream, text.substr(0, special), now_ns);
    text.remove_prefix(special);
    if (text.empty()) return;
    size_t taken = 1;
    if (text[0] == '\n') {
      new_line(cursor, stream, now_ns);
    } else if (text[0] == '\r') {
      cursor.column = 0;
      cursor.at_end = cursor.row >= cursor.rows.size() ||
                      without_newline(items_[cursor.rows[cursor.row]].text).empty();
    } else if (text[0] == '\b') {
      backspace(cursor);
    } else {
      taken = escape_length(text);
      if (taken == 0 && text.size() < kEscapeBytesMax) {
        cursor.pending = text;
        return;
      }
      taken = std::max<size_t>(taken, 1);
      const bool moves = taken > 2 && (text[taken - 1] == 'A' || text[taken - 1] == 'K');
      if (moves) control(cursor, text.substr(0, taken));
      if (!moves) write(cursor, stream, text.substr(0, taken), now_ns);
    }
    text.remove_prefix(taken);
  }
}

// The item of the row where the cursor is; made when the cursor is below the last row.
size_t RankLog::line_of(Cursor& cursor, uint32_t stream, int64_t now_ns) {
  if (cursor.row < cursor.rows.size()) return cursor.rows[cursor.row];
  Item line;
  line.stream = stream;
  line.open = true;
  line.came_ns = now_ns;
  items_.push_back(std::move(line));
  cursor.rows.push_back(items_.size() - 1);
  if (cursor.rows.size() > kRowsKept) cursor.rows.erase(cursor.rows.begin());
  cursor.row = cursor.rows.size() - 1;
  cursor.at_end = true;
  return items_.size() - 1;
}

void RankLog::write(Cursor& cursor, uint32_t stream, std::string_view run, int64_t now_ns) {
  const size_t index = line_of(cursor, stream, now_ns);
  Item& line = items_[index];
  touch(index);
  if (!cursor.at_end) return overwrite(cursor, line, run);
  if (!line.text.empty() && line.text.back() == '\n') {
    line.text.insert(line.text.size() - 1, run);
  } else {
    line.text += run;
  }
}

void RankLog::overwrite(Cursor& cursor, Item& line, std::string_view run) {
  const bool newline = !line.text.empty() && line.text.back() == '\n';
  std::vector<std::string> cells = cells_of(without_newline(line.text));
  for (std::string& cell : cells_of(run)) {
    if (cursor.column >= cells.size()) cells.resize(cursor.column + 1, " ");
    cells[cursor.column++] = std::move(cell);
  }
  cursor.at_end = cursor.column >= cells.size();
  line.text = join(cells);
  if (newline) line.text += '\n';
}

void RankLog::new_line(Cursor& cursor, uint32_t stream, int64_t now_ns) {
  const size_t index = line_of(cursor, stream, now_ns);
  Item& line = items_[index];
  if (line.text.empty() || line.text.back() != '\n') {
    line.text += '\n';
    line.open = false;
    touch(index);
  }
  ++cursor.row;
  cursor.column = 0;
  cursor.at_end = cursor.row >= cursor.rows.size() ||
                  without_newline(items_[cursor.rows[cursor.row]].text).empty();
}

void RankLog::backspace(Cursor& cursor) {
  if (cursor.row >= cursor.rows.size()) return;
  if (cursor.at_end)
    cursor.column = cells_of(without_newline(items_[cursor.rows[cursor.row]].text)).size();
  if (cursor.column == 0) return;
  --cursor.column;
  cursor.at_end = false;
}

// CSI n A (up) and CSI n K (erase in line).
void RankLog::control(Cursor& cursor, std::string_view sequence) {
  unsigned n = 0;
  std::from_chars(sequence.data() + 2, sequence.data() + sequence.size() - 1, n);
  if (sequence.back() == 'A') {
    const size_t up = std::max(1u, n);
    if (cursor.at_end && cursor.row < cursor.rows.size())
      cursor.column = cells_of(without_newline(items_[cursor.rows[cursor.row]].text)).size();
    cursor.row -= std::min<size_t>(up, cursor.row);
    cursor.at_end = cursor.rows.empty();
    return;
  }
  if (cursor.row >= cursor.rows.size()) return;
  const size_t index = cursor.rows[cursor.row];
  Item& line = items_[index];
  const bool newline = !line.text.empty() && line.text.back() == '\n';
  std::vector<std::string> cells = cells_of(without_newline(line.text));
  if (n == 2) std::fill(cells.begin(), cells.end(), " ");
  if (n == 1)
    std::fill_n(cells.begin(), std::min(cells.size(), cursor.column + 1), std::string(" "));
  if (n == 0 && !cursor.at_end) cells.resize(std::min(cells.size(), cursor.column));
  while (n == 2 && !cells.empty()) cells.pop_back();
  line.text = join(cells) + (newline ? "\n" : "");
  if (!cursor.at_end) cursor.at_end = cursor.column == cells.size();
  touch(index);
}

void RankLog::add_display(const DisplayRecord& display, int64_t now_ns) {
  if (display.kind == SK_DISPLAY_CLEAR_WAIT) {
    clear_pending_ = true;
    return;
  }
  if (display.kind == SK_DISPLAY_CLEAR) return clear();
  if (display.kind == SK_DISPLAY_PAGE) {
    page_ = display;
    return;
  }
  if (clear_pending_) clear();
  if (display.kind == SK_DISPLAY_RESULT) {
    results_.push_back(display);
    return;
  }
  bool replaced = false;
  for (size_t i = 0; display.kind == SK_DISPLAY_UPDATE && i < items_.size(); ++i) {
    if (items_[i].kind != Item::Kind::kDisplay || items_[i].display_id != display.display_id)
      continue;
    items_[i].mimes = display.mimes;
    items_[i].metadata = display.metadata;
    touch(i);
    replaced = true;
  }
  for (DisplayRecord& result : results_) {
    if (display.kind != SK_DISPLAY_UPDATE || result.display_id != display.display_id) continue;
    result.mimes = display.mimes;
    result.metadata = display.metadata;
    replaced = true;
  }
  if (replaced) return;
  close_lines();  // Text after a display is below it.
  Item item;
  item.kind = display.kind == SK_DISPLAY_UPDATE ? Item::Kind::kUpdate : Item::Kind::kDisplay;
  item.came_ns = now_ns;
  item.mimes = display.mimes;
  item.display_id = display.display_id;
  item.metadata = display.metadata;
  items_.push_back(std::move(item));
}

void RankLog::close_lines() {
  for (Cursor& cursor : cursors_) {
    for (size_t row : cursor.rows) items_[row].open = false;
    cursor = Cursor{};
  }
}

void RankLog::clear() {
  clear_pending_ = false;
  ++clears_;
  touch(items_.empty() ? published_ : 0);
  items_.clear();
  published_ = 0;
  bytes_ = 0;
  for (Cursor& cursor : cursors_) cursor = Cursor{};
}

void RankLog::finish(int64_t now_ns) {
  if (finished_) return;
  finished_ = true;
  for (uint32_t i = 0; i < 2; ++i)
    if (!cursors_[i].pending.empty())
      write(cursors_[i], i == 0 ? SK_STREAM_STDOUT : SK_STREAM_STDERR,
            std::exchange(cursors_[i].pending, {}), now_ns);
  close_lines();
  // A line that was erased to nothing is nothing.
  for (size_t i = items_.size(); i-- > 0;) {
    if (items_[i].kind != Item::Kind::kLine || !items_[i].text.empty()) continue;
    touch(i);
    if (i < published_) --published_;
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (elided_bytes_ == 0) return;
  Item note;
  note.stream = SK_STREAM_STDERR;
  note.came_ns = now_ns;
  note.text = "… " + std::to_string(elided_lines_) + " lines (" + std::to_string(elided_bytes_) +
              " bytes) elided: over the limit of " + std::to_string(bytes_max_) +
              " bytes for one rank and cell\n";
  items_.push_back(std::move(note));
}

}  // namespace sk::control
