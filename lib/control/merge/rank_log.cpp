#include "lib/control/merge/rank_log.h"

#include <algorithm>
#include <utility>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr size_t kResultsMax = 64;  // A cell has one; some shells show several.
constexpr size_t kDisplayIdsMax = 1024;

uint64_t size_of(const DisplayRecord& display) {
  uint64_t bytes = display.display_id.size() + display.metadata.size();
  for (const Mime& mime : display.mimes) bytes += mime.type.size() + mime.data.size();
  return bytes;
}

size_t which(uint32_t stream) { return stream == SK_STREAM_STDERR ? 1 : 0; }

}  // namespace

void RankLog::add(const Record& record, int64_t now_ns) {
  if (const auto* stream = std::get_if<StreamRecord>(&record.body)) add_stream(*stream, now_ns);
  if (const auto* display = std::get_if<DisplayRecord>(&record.body)) add_display(*display, now_ns);
  if (const auto* failure = std::get_if<ErrorRecord>(&record.body))
    if (!error_) error_ = RankError{record.time_ns, *failure};
}

// An item that was shown and changes alters the view; a bar that changes is only drawn again.
void RankLog::take(const Changes& changes) {
  altered_ = altered_ || changes.lowest < published_;
  bars_changed_ = bars_changed_ || changes.bars || changes.lowest < published_;
}

void RankLog::add_stream(const StreamRecord& stream, int64_t now_ns) {
  if (stream.text.empty()) return;
  if (clear_pending_) clear();
  // A character that the rank's pipe cut in two is put together before anything looks at it.
  std::string& pending = pending_[which(stream.stream)];
  const std::string text = std::exchange(pending, {}) + stream.text;
  const size_t open = utf8_open_tail(text);
  pending = text.substr(text.size() - open);
  Changes changes;
  editors_[which(stream.stream)].feed(
      utf8_clean(std::string_view(text).substr(0, text.size() - open)), items_, now_ns, changes);
  take(changes);
}

bool RankLog::update(const DisplayRecord& display) {
  bool replaced = false;
  const auto [begin, end] = by_display_id_.equal_range(display.display_id);
  for (auto it = begin; it != end; ++it) {
    Item* const item = items_.find(it->second);
    if (item == nullptr) continue;
    auto content = std::make_shared<DisplayRecord>(display);
    content->kind = item->display->kind;
    items_.change_bytes(it->second,
                        static_cast<int64_t>(size_of(display)) - static_cast<int64_t>(item->bytes));
    item->display = std::move(content);
    altered_ = altered_ || it->second < published_;
    replaced = true;
  }
  for (DisplayRecord& result : results_) {
    if (result.display_id != display.display_id) continue;
    result.mimes = display.mimes;
    result.metadata = display.metadata;
    replaced = true;
  }
  return replaced || begin != end;
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
    if (results_.size() == kResultsMax) results_.pop_back();
    results_.push_back(display);
    return;
  }
  const bool is_update = display.kind == SK_DISPLAY_UPDATE;
  if (is_update && update(display)) return;
  close_lines(now_ns);  // Text after a display is below it.
  Item item;
  item.kind = is_update ? Item::Kind::kUpdate : Item::Kind::kDisplay;
  item.came_ns = now_ns;
  item.bytes = size_of(display);
  item.display = std::make_shared<DisplayRecord>(display);
  const size_t index = items_.push(std::move(item));
  if (!display.display_id.empty() && by_display_id_.size() < kDisplayIdsMax)
    by_display_id_.emplace(display.display_id, index);
}

void RankLog::close_lines(int64_t now_ns) {
  Changes changes;
  for (size_t i = 0; i < 2; ++i) {
    if (!pending_[i].empty())
      editors_[i].feed(utf8_clean(std::exchange(pending_[i], {})), items_, now_ns, changes);
    editors_[i].close(items_, now_ns, changes);
  }
  take(changes);
}

void RankLog::clear() {
  clear_pending_ = false;
  ++clears_;
  altered_ = altered_ || published_ > 0;
  bars_changed_ = true;
  items_ = ItemList(limits_);
  by_display_id_.clear();
  published_ = 0;
  for (std::string& pending : pending_) pending.clear();
  editors_[0] = LineEditor(SK_STREAM_STDOUT);
  editors_[1] = LineEditor(SK_STREAM_STDERR);
}

void RankLog::finish(int64_t now_ns) {
  if (finished_) return;
  finished_ = true;
  close_lines(now_ns);
}

void RankLog::drop_stderr_from(std::string_view first, int64_t now_ns) {
  close_lines(now_ns);
  settle();
  const auto is_error_text = [](const Item* item) {
    return item != nullptr && item->kind == Item::Kind::kLine && item->stream == SK_STREAM_STDERR;
  };
  size_t begin = items_.size();
  while (begin > 0) {
    const Item* const item = items_.find(--begin);
    if (item == nullptr) return;  // Left out anyway.
    if (is_error_text(item) && item->text.starts_with(first)) break;
    if (begin == 0) return;
  }
  for (size_t i = begin; i < items_.size(); ++i) {
    Item* const item = items_.find(i);
    if (!is_error_text(item)) continue;
    items_.change_bytes(i, -static_cast<int64_t>(item->text.size()));
    item->text.clear();
    item->newline = false;
    item->cut = 0;
    altered_ = altered_ || i < published_;
  }
}

void RankLog::settle() {
  for (LineEditor& editor : editors_) editor.settle(items_);
}

std::vector<const Item*> RankLog::items(size_t begin, size_t end, bool with_bars,
                                        std::vector<size_t>* indices) const {
  std::vector<const Item*> out;
  const auto take_item = [&](const Item* item, size_t index) {
    out.push_back(item);
    if (indices != nullptr) indices->push_back(index);
  };
  const size_t gap = items_.head_size(), gap_end = gap + items_.elided();
  for (size_t i = begin; i < std::min(end, items_.size()); ++i) {
    if (i >= gap && i < gap_end) {  // One note for all of them.
      take_item(&items_.note(), gap_end - 1);
      i = gap_end - 1;
      continue;
    }
    const Item* const item = items_.find(i);
    if (!item->is_nothing() && (with_bars || !item->bar)) take_item(item, i);
  }
  return out;
}

bool RankLog::ends_in_open_line() const {
  const Item* const last = items_.size() > 0 ? items_.find(items_.size() - 1) : nullptr;
  return last != nullptr && last->kind == Item::Kind::kLine && !last->newline;
}

std::vector<const Item*> RankLog::bars(size_t count) const {
  std::vector<const Item*> out;
  const size_t end = items_.size();
  // Bars are drawn at the end of a rank's output; far behind it none is live.
  const size_t begin = end - std::min(end, 4 * ItemList::kEditable);
  for (size_t i = end; i-- > begin && out.size() < count;) {
    const Item* const item = items_.find(i);
    if (item != nullptr && item->bar && !item->text.empty()) out.push_back(item);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

int64_t RankLog::oldest_unpublished_ns() const {
  if (published_ >= items_.size()) return INT64_MAX;
  const Item* const item = items_.find(published_);
  return item == nullptr ? 0 : item->came_ns;
}

size_t RankLog::closed_unpublished(bool with_bars) const {
  size_t end = items_.size();
  for (const LineEditor& editor : editors_) {
    const Item* const open = editor.open_item() < end ? items_.find(editor.open_item()) : nullptr;
    if (open != nullptr && (with_bars || !open->bar)) end = editor.open_item();
  }
  return end - std::min(end, published_);
}

}  // namespace sk::control
