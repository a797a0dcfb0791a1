#include "lib/control/late.h"

#include <algorithm>

#include "lib/control/merge/render.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr int64_t kGatherNs = 10'000'000;      // Text of several writes goes out together.
constexpr int64_t kLineNs = 100'000'000;       // So long a line waits for its end,
constexpr size_t kLineBytesMax = 4096;         // if it is not longer.
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
  const bool all = world.size() == 1;
  if (const auto* stream = std::get_if<StreamRecord>(&record.body)) {
    const bool tagged = is_tagged(style, {rank}, world);
    return add_text({cell, stream->stream}, rank,
                    {stream->text, now_ns, style, tagged, all, world.back()});
  }
  put_open_of(cell, rank);
  if (pending_.size() >= kEntriesMax) return;  // The log has it.
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

void LateOutput::add_text(Place place, uint32_t rank, OpenLine line) {
  if (open_.size() > kPlacesMax) open_.clear();
  if (mid_line_.size() > kPlacesMax) mid_line_.clear();
  if (cut_short_.size() > kPlacesMax) cut_short_.clear();
  const auto before = open_.find({place, rank});
  if (before != open_.end()) {
    line.text.insert(0, before->second.text);
    line.since_ns = std::min(line.since_ns, before->second.since_ns);
    open_.erase(before);
  }
  OpenLine rest = line;
  const size_t whole = line.text.rfind('\n') + 1;  // 0 where there is none.
  if (whole > 0) {
    line.text.resize(whole);
    rest.text.erase(0, whole);
    rest.since_ns = now_ns_;
    put_text(place, rank, line);
  }
  if (rest.text.empty()) return;
  const auto open = open_.emplace(std::pair(place, rank), std::move(rest)).first;
  if (open->second.text.size() > kLineBytesMax) put_open(open);
}

// All of it but the beginning of a character.
void LateOutput::put_open(OpenLines::iterator line) {
  const auto [place, rank] = line->first;
  OpenLine put = line->second;
  const size_t size = put.text.size() - utf8_open_tail(put.text);
  line->second.text.erase(0, size);
  line->second.since_ns = INT64_MAX - kLineNs;  // Nothing to show before more comes.
  if (line->second.text.empty()) open_.erase(line);
  put.text.resize(size);
  if (size > 0) put_text(place, rank, put);
}

void LateOutput::put_open_of(uint64_t cell, uint32_t rank) {
  for (auto line = open_.begin(); line != open_.end();) {
    const auto& [place, whose] = line->first;
    const auto each = line++;
    if (place.first == cell && whose == rank) put_open(each);
  }
}

void LateOutput::put_text(Place place, uint32_t rank, const OpenLine& line) {
  Entry* const entry = text_entry(place);
  if (entry == nullptr) return;
  entry->event.all_ranks = line.all_ranks;
  if (pending_bytes_ + line.text.size() > kPendingBytesMax) {
    entry->cut_lines += static_cast<uint64_t>(std::count(line.text.begin(), line.text.end(), '\n'));
    entry->note = elision(line.style, entry->cut_lines, 0);
    return;
  }
  pending_bytes_ += line.text.size();
  std::string text = std::move(entry->lines[rank].text) + line.text;
  entry->lines[rank] = line;
  entry->lines[rank].text = std::move(text);
}

void LateOutput::write(Place place, uint32_t rank, const OpenLine& line, std::string& out) {
  const auto mid = mid_line_.find(place);
  bool in_line = mid != mid_line_.end() && mid->second == rank;
  if (mid != mid_line_.end() && !in_line) {
    out += '\n';
    cut_short_.insert({place, mid->second});
  }
  const size_t width = column_of_tags(line.style, {{line.last_rank}});
  const std::string tag = line.tagged ? tag_of(line.style, {rank}, width) : "";
  std::string text = utf8_clean(line.text);
  if (cut_short_.erase({place, rank}) > 0 && text.front() == '\n') text.erase(0, 1);
  for (char c : text) {
    if (!in_line) out += tag;
    out += c;
    in_line = c != '\n';
  }
  if (in_line)
    mid_line_[place] = rank;
  else
    mid_line_.erase(place);
}

int64_t LateOutput::deadline_ns() const {
  if (!pending_.empty()) return next_ns_;
  int64_t deadline = INT64_MAX;
  for (const auto& [whose, line] : open_) deadline = std::min(deadline, line.since_ns + kLineNs);
  return deadline == INT64_MAX ? deadline : std::max(deadline, next_ns_);
}

std::vector<Event> LateOutput::due(int64_t now_ns) {
  now_ns_ = now_ns;
  if (now_ns < deadline_ns()) return {};
  put_open_since(now_ns - kLineNs);
  return take_pending();
}

std::vector<Event> LateOutput::flush() {
  put_open_since(INT64_MAX);
  return take_pending();
}

void LateOutput::put_open_since(int64_t latest_ns) {
  for (auto line = open_.begin(); line != open_.end();) {
    const auto each = line++;
    if (each->second.since_ns <= latest_ns) put_open(each);
  }
}

std::vector<Event> LateOutput::take_pending() {
  std::vector<Event> out;
  uint64_t bytes = 0;
  pending_bytes_ = 0;
  for (Entry& entry : std::exchange(pending_, {})) {
    Event& event = entry.event;
    const Place place{event.cell, event.stream};
    // First whoever goes on with a line that is shown already.
    const auto mid = mid_line_.find(place);
    const auto first = mid == mid_line_.end() ? entry.lines.end() : entry.lines.find(mid->second);
    if (first != entry.lines.end()) write(place, first->first, first->second, event.text);
    for (auto line = entry.lines.begin(); line != entry.lines.end(); ++line) {
      if (line != first) write(place, line->first, line->second, event.text);
      entry.ranks.push_back(line->first);
    }
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
