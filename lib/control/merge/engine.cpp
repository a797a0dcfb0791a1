#include "lib/control/merge/engine.h"

#include <algorithm>

namespace sk::control {
namespace {

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

}  // namespace

std::vector<Event> canonical_view(const std::map<uint32_t, RankLog>& logs, const RankSet& target) {
  std::vector<RankItems> items;
  for (const auto& [rank, log] : logs) items.push_back({rank, log.items()});
  std::vector<Event> view;
  for (Event& event : render_columns(align(items), target)) append_event(view, std::move(event));
  size_t results = 0;
  for (const auto& [rank, log] : logs) results = std::max(results, log.results().size());
  for (size_t i = 0; i < results; ++i) {
    std::vector<RankResult> row;
    for (const auto& [rank, log] : logs)
      if (i < log.results().size()) row.push_back({rank, &log.results()[i]});
    append_event(view, render_result(row, target));
  }
  return view;
}

MergeEngine::MergeEngine(RankSet target, MergeOptions options)
    : target_(std::move(target)), options_(options) {
  for (uint32_t rank : target_) logs_.emplace(rank, RankLog(options_.rank_bytes_max));
}

void MergeEngine::add(uint32_t rank, const Record& record, int64_t now_ns) {
  const auto log = logs_.find(rank);
  if (log != logs_.end() && !log->second.finished()) log->second.add(record, now_ns);
}

void MergeEngine::end_rank(uint32_t rank) { ended_.insert(rank); }

bool MergeEngine::has_error() const {
  return std::any_of(logs_.begin(), logs_.end(),
                     [](const auto& log) { return log.second.error().has_value(); });
}

bool MergeEngine::altered() const {
  return std::any_of(logs_.begin(), logs_.end(),
                     [](const auto& log) { return log.second.altered(); });
}

// A rank that has ended holds nobody back; a line that may still grow waits for its hold time.
MergeEngine::Ready MergeEngine::ready() const {
  Ready ready;
  size_t least = SIZE_MAX;
  for (const auto& [rank, log] : logs_) {
    const size_t fresh = log.items().size() - log.published();
    if (fresh > 0)
      ready.oldest_ns = std::min(ready.oldest_ns, log.items()[log.published()].came_ns);
    size_t closed = 0;
    while (closed < fresh && !log.items()[log.published() + closed].open) ++closed;
    if (fresh > 0 || !ended_.contains(rank)) least = std::min(least, closed);
  }
  ready.rows = least == SIZE_MAX ? 0 : least;
  return ready;
}

int64_t MergeEngine::deadline_ns() const {
  if (altered()) return next_live_ns_;
  const Ready now = ready();
  if (now.oldest_ns == kNoDeadline) return kNoDeadline;
  return std::max(next_live_ns_, now.oldest_ns + (now.rows > 0 ? kSettleNs : kHoldNs));
}

std::vector<Event> MergeEngine::live(int64_t now_ns) {
  std::vector<Event> out;
  if (now_ns < deadline_ns()) return out;
  int64_t gap = kLiveGapNs;
  if (altered()) {
    const std::vector<Event> wanted = canonical_view(logs_, target_);
    for (auto& [rank, log] : logs_) log.set_published(log.items().size());
    if (auto rest = difference(shown_, wanted)) {
      show(std::move(*rest), out);
    } else {
      redraw(wanted, out);
      gap = kRedrawGapNs;
    }
  } else {
    append_batch(ready(), now_ns, out);
  }
  const int64_t pace =
      static_cast<int64_t>(size_of(out) * 1'000'000'000 / options_.live_bytes_per_second);
  next_live_ns_ = now_ns + std::max(gap, pace);
  return out;
}

// Shows what all ranks have; once the oldest item has waited its time, all that there is.
void MergeEngine::append_batch(const Ready& ready, int64_t now_ns, std::vector<Event>& out) {
  const bool everything = now_ns >= ready.oldest_ns + kHoldNs;
  std::vector<RankItems> batch;
  for (auto& [rank, log] : logs_) {
    const size_t fresh = log.items().size() - log.published();
    const size_t count = everything ? fresh : std::min(fresh, ready.rows);
    batch.push_back({rank, std::span(log.items()).subspan(log.published(), count)});
  }
  std::vector<Event> events = render_columns(align(batch), target_);
  for (size_t i = 0; auto& [rank, log] : logs_)
    log.set_published(log.published() + batch[i++].items.size());
  show(std::move(events), out);
}

void MergeEngine::show(std::vector<Event> events, std::vector<Event>& out) {
  for (Event& event : events) {
    append_event(shown_, event);
    out.push_back(std::move(event));
  }
}

void MergeEngine::redraw(const std::vector<Event>& wanted, std::vector<Event>& out) {
  out.push_back(clear_event(SK_DISPLAY_CLEAR_WAIT));
  // A clear that waits takes effect with the next output; if none follows, it must not wait.
  if (wanted.empty()) out.back().display = SK_DISPLAY_CLEAR;
  ++clears_shown_;
  shown_.clear();
  show(wanted, out);
}

std::vector<Event> MergeEngine::finish(const std::vector<RankFailure>& extra, int64_t now_ns) {
  std::vector<Event> out;
  for (auto& [rank, log] : logs_) log.finish(now_ns);
  const std::vector<Event> wanted = canonical_view(logs_, target_);
  // The user's own clear is shown even if there was nothing to clear, as a plain kernel does.
  const bool all_cleared = std::all_of(logs_.begin(), logs_.end(),
                                       [](const auto& log) { return log.second.clears() > 0; });
  const bool owes_clear = all_cleared && clears_shown_ == 0;
  auto rest = difference(shown_, wanted);
  if (rest && !owes_clear)
    show(std::move(*rest), out);
  else
    redraw(wanted, out);
  std::vector<RankResult> pages;
  for (const auto& [rank, log] : logs_)
    if (log.page()) pages.push_back({rank, &*log.page()});
  if (!pages.empty()) {
    out.push_back(render_result(pages, target_));
    out.back().display = SK_DISPLAY_PAGE;
  }
  std::vector<RankFailure> failures = extra;
  for (const auto& [rank, log] : logs_)
    if (log.error()) failures.push_back({rank, *log.error()});
  if (!failures.empty()) out.push_back(render_errors(failures, target_));
  return out;
}

}  // namespace sk::control
