#include "lib/control/late.h"

#include <algorithm>

#include "lib/control/merge/render.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr int64_t kGatherNs = 10'000'000;      // Text of several writes goes out together.
constexpr int64_t kMessageGapNs = 50'000'000;  // At most 20 messages a second,
constexpr uint64_t kBytesPerSecond = 500'000;  // and so many bytes.
constexpr uint64_t kPendingBytesMax = 64 * 1024;
constexpr size_t kEntriesMax = 32;
constexpr size_t kPlacesMax = 1024;

uint64_t size_of(const Event& event) {
  uint64_t bytes = event.text.size();
  for (const Mime& mime : event.mimes) bytes += mime.data.size();
  return bytes;
}

}  // namespace

void LateOutput::add(uint64_t cell, uint32_t rank, const Record& record, const RankSet& world,
                     const ViewStyle& style, int64_t now_ns) {
  now_ns_ = now_ns;
  if (pending_.empty()) next_ns_ = std::max(next_ns_, now_ns + kGatherNs);
  if (const auto* stream = std::get_if<StreamRecord>(&record.body))
    return add_text({cell, stream->stream}, rank, stream->text, world, style);
  if (pending_.size() >= kEntriesMax) return;  // The log has it.
  const bool all = world.size() == 1;
  Event event;
  if (const auto* display = std::get_if<DisplayRecord>(&record.body)) {
    event = display_event(display->kind, display->mimes, {rank}, all);
    event.metadata = display->metadata;
    event.display_id = shown_id(display->display_id, {rank}, all);
  } else if (const auto* error = std::get_if<ErrorRecord>(&record.body)) {
    event.kind = SK_EVENT_ERROR;
    event.ranks = format_ranks({rank});
    event.all_ranks = all;
    event.ename = error->ename;
    event.evalue = error->evalue;
    if (!all) event.evalue += (event.evalue.empty() ? "[" : " [") + name_ranks({rank}) + "]";
    event.traceback = error->traceback;
  }
  event.cell = cell;
  pending_.push_back({std::move(event), {rank}});
}

// The one to append to: the last, or, when there are many, any of this stream. Null: there is no
// room.
LateOutput::Entry* LateOutput::text_entry(Place place) {
  const auto fits = [&](const Entry& entry) {
    return entry.event.kind == SK_EVENT_STREAM &&
           Place{entry.event.cell, entry.event.stream} == place;
  };
  if (!pending_.empty() && fits(pending_.back())) return &pending_.back();
  if (pending_.size() >= kEntriesMax) {
    const auto found = std::find_if(pending_.begin(), pending_.end(), fits);
    return found == pending_.end() ? nullptr : &*found;
  }
  Event event;
  event.kind = SK_EVENT_STREAM;
  event.cell = place.first;
  event.stream = place.second;
  event.all_ranks = true;
  pending_.push_back({std::move(event), {}});
  return &pending_.back();
}

void LateOutput::add_text(Place place, uint32_t rank, const std::string& text, const RankSet& world,
                          const ViewStyle& style) {
  if (open_.size() > kPlacesMax) open_.clear();
  if (mid_line_.size() > kPlacesMax) mid_line_.clear();
  std::string& open = open_[{rank, place.second}];
  std::string whole = std::exchange(open, {}) + text;
  open = whole.substr(whole.size() - utf8_open_tail(whole));
  whole.resize(whole.size() - open.size());
  Entry* const entry = whole.empty() ? nullptr : text_entry(place);
  if (entry == nullptr) return;
  entry->ranks = merge_sets(entry->ranks, {rank});
  entry->event.all_ranks = world.size() == 1;
  if (pending_bytes_ + whole.size() > kPendingBytesMax) {
    entry->cut_lines += static_cast<uint64_t>(std::count(whole.begin(), whole.end(), '\n'));
    entry->note = elision(style, entry->cut_lines, 0);
    return;
  }
  pending_bytes_ += whole.size();
  std::string& out = entry->event.text;
  const std::string tag = is_tagged(style, {rank}, world) ? tag_of(style, {rank}) : "";
  const auto mid = mid_line_.find(place);
  bool in_line = mid != mid_line_.end() && mid->second == rank;
  if (mid != mid_line_.end() && !in_line) out += '\n';
  for (char c : utf8_clean(whole)) {
    if (!in_line) out += tag;
    out += c;
    in_line = c != '\n';
  }
  if (in_line)
    mid_line_[place] = rank;
  else
    mid_line_.erase(place);
}

std::vector<Event> LateOutput::due(int64_t now_ns) {
  now_ns_ = now_ns;
  return now_ns < deadline_ns() ? std::vector<Event>() : flush();
}

std::vector<Event> LateOutput::flush() {
  std::vector<Event> out;
  uint64_t bytes = 0;
  pending_bytes_ = 0;
  for (Entry& entry : std::exchange(pending_, {})) {
    Event& event = entry.event;
    event.ranks = format_ranks(entry.ranks);
    if (entry.cut_lines > 0) {
      if (!event.text.empty() && event.text.back() != '\n') event.text += '\n';
      event.text += entry.note + "\n";
      mid_line_.erase({event.cell, event.stream});
    }
    if (event.kind == SK_EVENT_STREAM && event.text.empty()) continue;
    bytes += size_of(event);
    out.push_back(std::move(event));
  }
  if (!out.empty())
    next_ns_ = now_ns_ + std::max(static_cast<int64_t>(out.size()) * kMessageGapNs,
                                  static_cast<int64_t>(bytes * 1'000'000'000 / kBytesPerSecond));
  return out;
}

}  // namespace sk::control
