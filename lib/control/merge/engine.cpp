#include "lib/control/merge/engine.h"

#include <algorithm>
#include <utility>

#include "lib/control/merge/live_row.h"

namespace sk::control {
namespace {

// Live text that the end may have to show again. Beyond, only what would be shown at the end as it
// is shown now is appended, so that a reader gets at most half as much again as there is.
constexpr uint64_t kUnsureBytesMax = 64 * 1024;
constexpr size_t kBatchEventsMax = 16;
constexpr uint64_t kBatchBytesMax = 24 * 1024;  // A twentieth of a second's.
constexpr uint64_t kCountedItemsMax = 512;
constexpr uint64_t kRedrawItemsMax = 20'000;  // More are not merged again while the cell runs.
constexpr uint64_t kItemsMax = 1'000'000;     // Of all ranks together, about.
constexpr uint64_t kBytesMax = 64ull << 20;
constexpr uint64_t kDisplayBytesMax = 512ull << 20;

uint64_t size_of(const Record& record) {
  if (const auto* stream = std::get_if<StreamRecord>(&record.body)) return stream->text.size();
  uint64_t bytes = 0;
  if (const auto* display = std::get_if<DisplayRecord>(&record.body))
    for (const Mime& mime : display->mimes) bytes += mime.data.size();
  return bytes;
}

uint64_t size_of(const std::vector<Event>& events) {
  uint64_t bytes = 0;
  for (const Event& event : events) {
    bytes += event.text.size() + 64;
    for (const Mime& mime : event.mimes) bytes += mime.data.size();
  }
  return bytes;
}

Event clear_event(uint32_t kind) {
  Event event;
  event.kind = SK_EVENT_DISPLAY;
  event.display = kind;
  return event;
}

// One rank's part of what a view may hold: the view's own, as long as all ranks' parts together
// fit into memory.
ViewLimits rank_limits(const ViewLimits& view, uint64_t ranks) {
  return {
      std::clamp<uint64_t>(kItemsMax / ranks, std::min<uint64_t>(1000, view.lines), view.lines),
      std::clamp<uint64_t>(kBytesMax / ranks, std::min<uint64_t>(65'536, view.bytes), view.bytes),
      view.displays,
      std::clamp<uint64_t>(kDisplayBytesMax / ranks,
                           std::min<uint64_t>(4u << 20, view.display_bytes), view.display_bytes)};
}

}  // namespace

MergeEngine::MergeEngine(RankSet target, MergeOptions options)
    : target_(std::move(target)), options_(std::move(options)), bars_in_row_(target_.size() > 1) {
  const ViewLimits limits = rank_limits(options_.style.limits, target_.size());
  for (uint32_t rank : target_) logs_.emplace(rank, RankLog(limits));
}

void MergeEngine::add(uint32_t rank, const Record& record, int64_t now_ns) {
  const auto log = logs_.find(rank);
  if (log == logs_.end() || log->second.finished()) return;
  payload_bytes_ += size_of(record);
  const uint32_t clears = log->second.clears();
  log->second.add(record, now_ns);
  if (log->second.clears() != clears) {  // There is room again.
    full_ = false;
    appended_ = {};
    unsure_bytes_ = 0;
  }
  row_stale_ = row_stale_ || full_;
}

void MergeEngine::end_rank(uint32_t rank) { ended_.insert(rank); }

void MergeEngine::drop_stderr_from(uint32_t rank, std::string_view first, int64_t now_ns) {
  if (const auto log = logs_.find(rank); log != logs_.end())
    log->second.drop_stderr_from(first, now_ns);
}

bool MergeEngine::has_error() const {
  return std::any_of(logs_.begin(), logs_.end(),
                     [](const auto& log) { return log.second.error().has_value(); });
}

bool MergeEngine::altered() const {
  return std::any_of(logs_.begin(), logs_.end(), [&](const auto& log) {
    return log.second.altered() || (!bars_in_row_ && log.second.bars_changed());
  });
}

bool MergeEngine::row_is_stale() const {
  return row_stale_ ||
         (bars_in_row_ && std::any_of(logs_.begin(), logs_.end(),
                                      [](const auto& log) { return log.second.bars_changed(); }));
}

uint64_t MergeEngine::item_count() const {
  uint64_t count = 0;
  for (const auto& [rank, log] : logs_) count += log.size();
  return count;
}

void MergeEngine::settle() {
  for (auto& [rank, log] : logs_) log.settle();
}

void MergeEngine::publish_all() {
  for (auto& [rank, log] : logs_) log.set_published(log.size());
}

// A rank that has ended holds nobody back; a line that may still grow waits for its hold time.
MergeEngine::Ready MergeEngine::ready() const {
  Ready ready;
  size_t least = SIZE_MAX;
  for (const auto& [rank, log] : logs_) {
    ready.oldest_ns = std::min(ready.oldest_ns, log.oldest_unpublished_ns());
    const size_t closed = log.closed_unpublished(!bars_in_row_);
    if (log.size() > log.published() || !ended_.contains(rank)) least = std::min(least, closed);
  }
  ready.rows = least == SIZE_MAX ? 0 : least;
  return ready;
}

int64_t MergeEngine::deadline_ns() const {
  int64_t deadline = kNoDeadline;
  if (row_is_stale()) deadline = std::max(next_live_ns_, next_row_ns_);
  if (full_) return deadline;
  if (altered()) return next_live_ns_;
  const Ready now = ready();
  if (now.oldest_ns == kNoDeadline) return deadline;
  return std::min(deadline,
                  std::max(next_live_ns_, now.oldest_ns + (now.rows > 0 ? kSettleNs : kHoldNs)));
}

std::vector<Event> MergeEngine::live(int64_t now_ns) {
  std::vector<Event> out;
  if (now_ns < deadline_ns()) return out;
  settle();
  int64_t gap = kMessageGapNs;
  if (altered() && !full_) {
    if (show_altered(out)) gap = kRedrawGapNs;
  } else if (!full_) {
    append_batch(ready(), now_ns, out);
  }
  if (row_is_stale() && now_ns >= next_row_ns_) {
    show_row(out);
    next_row_ns_ = now_ns + kRowGapNs;
  }
  const auto count = static_cast<int64_t>(std::max<size_t>(1, out.size()));
  const auto pace =
      static_cast<int64_t>(size_of(out) * 1'000'000'000 / options_.live_bytes_per_second);
  next_live_ns_ = now_ns + std::max({gap, count * kMessageGapNs, pace});
  return out;
}

// A redraw sends again what was sent: only as long as that stays little beside what there is. A
// cell that clears its output itself is an animation, whose frames are all payload.
bool MergeEngine::may_redraw(uint64_t bytes) const {
  const bool clears = std::any_of(logs_.begin(), logs_.end(),
                                  [](const auto& log) { return log.second.clears() > 0; });
  return redrawn_bytes_ + bytes <= kUnsureBytesMax + payload_bytes_ / (clears ? 1 : 3);
}

// True when the whole view was drawn anew.
bool MergeEngine::show_altered(std::vector<Event>& out) {
  bool drawn = false;
  if (item_count() <= kRedrawItemsMax) {
    std::vector<Event> wanted =
        canonical_view(logs_, target_, options_.style, !bars_in_row_, &tags_);
    // The row is no part of it, and is drawn below it again.
    bool returned = false;
    auto rest =
        row_shown_ ? std::nullopt : difference(shown_, wanted, target_.size() == 1, &returned);
    if (rest) {
      returned_ = returned_ || returned;
      for (Event& event : *rest) out.push_back(std::move(event));
      shown_ = std::move(wanted);
    } else if (may_redraw(size_of(wanted))) {
      redrawn_bytes_ += size_of(wanted);
      redraw(std::move(wanted), out);
      drawn = true;
    } else {
      bars_in_row_ = true;
    }
  }
  identical_ = identical_ && target_.size() == 1;
  for (auto& [rank, log] : logs_) log.forget_changes();
  row_stale_ = true;
  publish_all();
  return drawn;
}

// Shows what is published as the end would, if it were now. False: that costs too much.
bool MergeEngine::put_in_order(std::vector<Event>& out) {
  if (row_shown_ || returned_ || item_count() > kRedrawItemsMax) return false;
  std::vector<RankItems> items;
  for (const auto& [rank, log] : logs_)
    items.push_back({rank, log.items(0, log.published(), !bars_in_row_)});
  const std::vector<Column> columns =
      reading_order(arrange(items, options_.style), target_, options_.style);
  std::vector<Event> view;
  for (Event& event : render_columns(columns, target_, options_.style))
    append_event(view, std::move(event));
  const auto rest = difference(shown_, view);
  if (!rest || !rest->empty()) {
    if (!may_redraw(size_of(view))) return false;
    redrawn_bytes_ += size_of(view);
    redraw(std::move(view), out);
    tags_ = tag_columns(columns, target_, options_.style);
  }
  unsure_bytes_ = 0;
  return true;
}

bool MergeEngine::shows(uint32_t stream) const {
  return std::any_of(shown_.begin(), shown_.end(), [&](const Event& event) {
    return event.kind == SK_EVENT_STREAM && event.stream == stream;
  });
}

// Shows what all ranks have; once the oldest item has waited its time, all that there is. As many
// places as one batch may have, and none beyond what the view holds.
void MergeEngine::append_batch(const Ready& ready, int64_t now_ns, std::vector<Event>& out) {
  if (unsure_bytes_ > kUnsureBytesMax / 2) put_in_order(out);
  const bool everything = ready.oldest_ns != kNoDeadline && now_ns >= ready.oldest_ns + kHoldNs;
  std::vector<RankItems> batch;
  std::map<uint32_t, std::vector<size_t>> numbers;
  for (const auto& [rank, log] : logs_) {
    const size_t end = everything ? log.size() : std::min(log.size(), log.published() + ready.rows);
    batch.push_back({rank, log.items(log.published(), end, !bars_in_row_, &numbers[rank])});
  }
  std::vector<Column> columns = arrange(batch, options_.style);
  const ViewLimits limits = head_part(options_.style.limits);
  std::map<uint32_t, size_t> used;
  size_t count = 0;
  Weight weight;
  for (size_t events = 0; count < columns.size() && events < kBatchEventsMax; ++count) {
    const Column& column = columns[count];
    const bool alike = column.size() == 1 && column[0].ranks == target_;
    const bool sure = (identical_ && alike) || target_.size() == 1;
    const Weight own = weight_of(column);
    Weight next = appended_;
    next.add(own);
    const uint64_t unsure = unsure_bytes_ + (sure ? 0 : own.bytes);
    full_ = has_elided(column) || !next.within(limits) || unsure > kUnsureBytesMax;
    identical_ = identical_ && (sure || !full_);
    weight.add(own);
    if (full_ || (count > 0 && weight.bytes + weight.display_bytes > kBatchBytesMax)) break;
    appended_ = next;
    unsure_bytes_ = unsure;
    identical_ = sure;
    const bool line = column[0].item->kind == Item::Kind::kLine;
    events += line ? (count == 0 || columns[count - 1][0].item->stream != column[0].item->stream)
                   : 2 * column.size();
    for (const Group& group : column)
      for (uint32_t rank : group.ranks) ++used[rank];
  }
  const bool whole = count == columns.size();
  columns.resize(count);
  columns = reading_order(std::move(columns), target_, options_.style);
  // Text above stands in a narrower column of tags.
  const TagColumns tags = tag_columns(columns, target_, options_.style);
  const bool moves = (tags.width[0] > tags_.width[0] && shows(SK_STREAM_STDOUT)) ||
                     (tags.width[1] > tags_.width[1] && shows(SK_STREAM_STDERR));
  tags_.widen(tags);
  row_stale_ = row_stale_ || full_;
  if (full_) {
    show(render_columns(columns, target_, options_.style, tags_), out);
    return publish_all();
  }
  for (auto& [rank, log] : logs_) {
    const size_t n = used[rank];
    if (whole)
      log.set_published(everything ? log.size()
                                   : std::min(log.size(), log.published() + ready.rows));
    else if (n > 0)
      log.set_published(numbers[rank][n - 1] + 1);
  }
  if (!moves || !put_in_order(out))
    show(render_columns(columns, target_, options_.style, tags_), out);
}

// How many lines the end would show, as far as they have ended. Of many, ranks that print alike by
// turns are counted each.
uint64_t MergeEngine::count_lines() const {
  uint64_t lines = 0;
  if (identical_ || item_count() > kCountedItemsMax) {
    for (const auto& [rank, log] : logs_) {
      const uint64_t ended = log.size() - (log.ends_in_open_line() ? 1 : 0);
      lines = identical_ ? std::max(lines, ended) : lines + ended;
    }
    return lines;
  }
  std::vector<RankItems> items;
  for (const auto& [rank, log] : logs_)
    items.push_back({rank, log.items(0, log.size(), /*with_bars=*/true)});
  for (const Column& column : arrange(items, options_.style))
    for (const Group& group : column)
      lines += group.item->kind == Item::Kind::kElided ? group.item->lines : group.item->newline;
  return lines;
}

void MergeEngine::show_row(std::vector<Event>& out) {
  row_stale_ = false;
  for (auto& [rank, log] : logs_) log.forget_changes();
  std::string text = bars_in_row_ ? describe_bars(logs_, target_, options_.style) : "";
  if (full_) {
    const uint64_t all = count_lines(), lines = all - std::min(all, appended_.lines);
    const bool none_ended =
        lines == 0 && std::any_of(logs_.begin(), logs_.end(),
                                  [](const auto& log) { return log.second.ends_in_open_line(); });
    text += (text.empty() ? "" : "\n") +
            (none_ended ? growing_line(options_.style) : elision(options_.style, lines, 0)) + "\n" +
            describe_tail(logs_, target_, options_.style);
  }
  if (text.empty() && !row_shown_) return;
  Event row = display_event(row_shown_ ? SK_DISPLAY_UPDATE : SK_DISPLAY_DATA,
                            {{"text/plain", std::move(text)}}, target_, true);
  row.display_id = options_.style.live_id;
  row_shown_ = true;
  std::vector<Event> events;
  events.push_back(std::move(row));
  show(std::move(events), out);
}

void MergeEngine::show(std::vector<Event> events, std::vector<Event>& out) {
  for (Event& event : events) {
    append_event(shown_, event);
    out.push_back(std::move(event));
  }
}

void MergeEngine::redraw(std::vector<Event> wanted, std::vector<Event>& out) {
  out.push_back(clear_event(SK_DISPLAY_CLEAR_WAIT));
  // A clear that waits takes effect with the next output; if none follows, it must not wait.
  if (wanted.empty()) out.back().display = SK_DISPLAY_CLEAR;
  ++clears_shown_;
  shown_.clear();
  row_shown_ = false;
  show(std::move(wanted), out);
}

std::vector<Event> MergeEngine::finish(const std::vector<RankFailure>& extra, int64_t now_ns) {
  std::vector<Event> out;
  for (auto& [rank, log] : logs_) log.finish(now_ns);
  std::vector<Event> wanted = canonical_view(logs_, target_, options_.style);
  // The user's own clear is shown even if there was nothing to clear, as a plain kernel does.
  const bool all_cleared = std::all_of(logs_.begin(), logs_.end(),
                                       [](const auto& log) { return log.second.clears() > 0; });
  const bool owes_clear = all_cleared && clears_shown_ == 0;
  auto rest = difference(shown_, wanted);
  if (rest && !owes_clear && !returned_)
    show(std::move(*rest), out);
  else
    redraw(std::move(wanted), out);
  std::vector<RankResult> pages;
  for (const auto& [rank, log] : logs_)
    if (log.page()) pages.push_back({rank, &*log.page()});
  if (!pages.empty()) {
    out.push_back(render_result(pages, target_, options_.style));
    out.back().display = SK_DISPLAY_PAGE;
  }
  std::vector<RankFailure> failures = extra;
  for (const auto& [rank, log] : logs_)
    if (log.error()) failures.push_back({rank, *log.error()});
  if (!failures.empty()) out.push_back(render_errors(failures, target_));
  return out;
}

}  // namespace sk::control
