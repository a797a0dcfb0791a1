#include "lib/control/late.h"

#include <algorithm>

#include "lib/control/merge/errors.h"
#include "lib/control/merge/render.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr int64_t kGatherNs = 10'000'000;      // Text of several writes goes out together.
constexpr int64_t kLineNs = 100'000'000;       // So long a line waits for its end,
constexpr size_t kOpenBytesMax = 4096;         // if it is not longer.
constexpr int64_t kMessageGapNs = 50'000'000;  // At most 20 messages a second,
constexpr uint64_t kBytesPerSecond = 500'000;  // and so many bytes.
constexpr uint64_t kPendingBytesMax = 64 * 1024;
constexpr size_t kEntriesMax = 32;
constexpr size_t kPlacesMax = 1024;
constexpr int64_t kPeersNs = 100'000'000;  // So long a display waits for those of other ranks.

uint64_t size_of(const Event& event) {
  uint64_t bytes = event.text.size();
  for (const Mime& mime : event.mimes) bytes += mime.data.size();
  return bytes;
}

}  // namespace

bool LateOutput::Entry::has(uint32_t rank) const {
  return lines.contains(rank) || std::binary_search(ranks.begin(), ranks.end(), rank);
}

bool LateOutput::Entry::names(uint32_t rank, const std::string& id) const {
  return display && !id.empty() && display->display_id == id && has(rank);
}

void LateOutput::add(uint64_t cell, uint32_t rank, const Record& record, const RankSet& world,
                     const ViewStyle& style, int64_t now_ns) {
  now_ns_ = now_ns;
  if (pending_.empty() && !frames_.has_news()) next_ns_ = std::max(next_ns_, now_ns + kGatherNs);
  const auto* stream = std::get_if<StreamRecord>(&record.body);
  const auto* display = std::get_if<DisplayRecord>(&record.body);
  const auto* error = std::get_if<ErrorRecord>(&record.body);
  if (clears(cell, rank, record)) start_frames(cell, rank, world, style);
  const bool is_page = display != nullptr && display->kind == SK_DISPLAY_PAGE;
  if (frames_.has(cell) && error == nullptr && !is_page)
    return frames_.add(cell, rank, record, world, style, now_ns);
  if (display != nullptr && display->kind == SK_DISPLAY_CLEAR_WAIT) return;
  const bool all = world.size() == 1;
  if (stream != nullptr) {
    const bool tagged = is_tagged(style, {rank}, world);
    return add_text({cell, stream->stream}, rank,
                    {stream->text, now_ns, style, tagged, all, world.back()});
  }
  put_open_of(cell, rank);
  if (display != nullptr && !is_page) return add_display(cell, rank, *display, world, style);
  if (pending_.size() >= kPlacesMax) {
    Cut& cut = cut_[cell];
    cut.style = style;
    ++cut.displays;
    return;
  }
  Event event;
  if (is_page) {
    event = display_event(display->kind, display->mimes, {rank}, all);
    event.metadata = display->metadata;
  } else {
    event.kind = SK_EVENT_ERROR;
    event.ranks = format_ranks({rank});
    event.all_ranks = all;
    event.ename = error->ename;
    event.evalue = error->evalue;
    if (!all) event.evalue += (event.evalue.empty() ? "[" : " [") + name_ranks({rank}) + "]";
    event.traceback = error->traceback;
    event.errors = errors_by_rank({{rank, {0, *error}}});
  }
  event.cell = cell;
  pending_.push_back({std::move(event), {rank}});
}

// ---- clears ------------------------------------------------------------------------------------

// Whether with this record the cell is cleared for the first time.
bool LateOutput::clears(uint64_t cell, uint32_t rank, const Record& record) {
  if (frames_.has(cell) || std::holds_alternative<ErrorRecord>(record.body)) return false;
  const auto* display = std::get_if<DisplayRecord>(&record.body);
  const uint32_t kind = display == nullptr ? 0u : display->kind;
  if (kind == SK_DISPLAY_CLEAR_WAIT) {
    if (clear_next_.size() > kPlacesMax) clear_next_.clear();
    clear_next_.insert({cell, rank});
  }
  if (kind == SK_DISPLAY_CLEAR_WAIT || kind == SK_DISPLAY_PAGE) return false;
  return clear_next_.erase({cell, rank}) > 0 || kind == SK_DISPLAY_CLEAR;
}

// What waits of the cell's other ranks is shown beside the frames of this one.
void LateOutput::start_frames(uint64_t cell, uint32_t rank, const RankSet& world,
                              const ViewStyle& style) {
  frames_.start(cell);
  const auto keep = [&](uint32_t whose, const Record& record) {
    if (whose != rank) frames_.add(cell, whose, record, world, style, now_ns_);
  };
  for (Entry& entry : std::exchange(pending_, {})) {
    const bool is_text = entry.event.kind == SK_EVENT_STREAM;
    if (entry.event.cell != cell || (!is_text && !entry.display)) {
      pending_.push_back(std::move(entry));
      continue;
    }
    for (const auto& [whose, line] : entry.lines)
      keep(whose, {now_ns_, StreamRecord{entry.event.stream, line.text}});
    for (uint32_t whose : entry.ranks)
      if (entry.display) keep(whose, {now_ns_, *entry.display});
  }
  for (auto open = open_.begin(); open != open_.end();) {
    const auto& [place, whose] = open->first;
    if (place.first != cell) {
      ++open;
      continue;
    }
    keep(whose, {now_ns_, StreamRecord{place.second, open->second.text}});
    open = open_.erase(open);
  }
  std::erase_if(mid_line_, [&](const auto& mid) { return mid.first.first == cell; });
  std::erase_if(cut_short_, [&](const auto& cut) { return cut.first.first == cell; });
  cut_.erase(cell);
}

// ---- displays ----------------------------------------------------------------------------------

void LateOutput::add_display(uint64_t cell, uint32_t rank, DisplayRecord display,
                             const RankSet& world, const ViewStyle& style) {
  if (!waits_for_peers()) hold_ns_ = now_ns_ + kPeersNs;
  if (display.kind == SK_DISPLAY_UPDATE) {
    if (replace(rank, display)) return;
    if (left_out_.erase({rank, display.display_id}) > 0) display.kind = SK_DISPLAY_DATA;
  }
  if (join(behind(rank), cell, rank, display)) return;
  const uint32_t kind = display.kind;
  Event event;
  event.cell = cell;
  event.kind = SK_EVENT_DISPLAY;
  pending_.push_back({.event = std::move(event),
                      .ranks = {rank},
                      .display = std::make_shared<DisplayRecord>(std::move(display)),
                      .world = world,
                      .style = style});
  // Of updates there is one for each display; every rank has room for one display.
  leave_out(kind, kind == SK_DISPLAY_UPDATE ? kPlacesMax : std::max(kEntriesMax, world.size()));
}

// What waits of this rank under the update's id becomes the newest, in its place. False: nothing
// does.
bool LateOutput::replace(uint32_t rank, const DisplayRecord& update) {
  bool found = false;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (!pending_[i].names(rank, update.display_id)) continue;
    found = true;
    DisplayRecord newest = update;
    newest.kind = pending_[i].display->kind;
    if (newest == *pending_[i].display) continue;
    // Peers' may be as new already, or follow.
    std::erase(pending_[i].ranks, rank);
    const bool alone = pending_[i].ranks.empty();
    if (join(i, pending_[i].event.cell, rank, newest)) {
      if (alone) pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(i--));
      continue;
    }
    Entry entry = pending_[i];
    entry.ranks = {rank};
    entry.display = std::make_shared<DisplayRecord>(std::move(newest));
    if (alone)
      pending_[i] = std::move(entry);
    else
      pending_.insert(pending_.begin() + static_cast<ptrdiff_t>(++i), std::move(entry));
  }
  return found;
}

// The place behind all that waits of a rank.
size_t LateOutput::behind(uint32_t rank) const {
  size_t place = pending_.size();
  while (place > 0 && !pending_[place - 1].has(rank)) --place;
  return place;
}

// Whether a peer's display there, or below, is alike: then it is one of both.
bool LateOutput::join(size_t from, uint64_t cell, uint32_t rank, const DisplayRecord& display) {
  for (size_t i = from; i < pending_.size(); ++i) {
    Entry& entry = pending_[i];
    if (!entry.display || entry.event.cell != cell || entry.has(rank)) continue;
    if (*entry.display != display) continue;
    entry.ranks = merge_sets(entry.ranks, {rank});
    return true;
  }
  return false;
}

// The oldest of a kind, where there are more: the newest are what a reader waits for.
void LateOutput::leave_out(uint32_t kind, size_t most) {
  const auto is_one = [&](const Entry& entry) { return entry.shows(kind); };
  if (static_cast<size_t>(std::count_if(pending_.begin(), pending_.end(), is_one)) <= most) return;
  const auto oldest = std::find_if(pending_.begin(), pending_.end(), is_one);
  if (left_out_.size() > kPlacesMax) left_out_.clear();
  if (kind != SK_DISPLAY_UPDATE && !oldest->display->display_id.empty())
    for (uint32_t rank : oldest->ranks) left_out_.insert({rank, oldest->display->display_id});
  Cut& cut = cut_[oldest->event.cell];
  cut.style = oldest->style;
  ++cut.displays;
  pending_.erase(oldest);
}

bool LateOutput::waits_for_peers() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const Entry& entry) {
    return entry.display && entry.ranks != entry.world;
  });
}

// ---- text --------------------------------------------------------------------------------------

// The one to append to: of this stream, behind all else of the rank. Where there are many, any of
// this stream.
LateOutput::Entry* LateOutput::text_entry(Place place, uint32_t rank) {
  const auto fits = [&](const Entry& entry) {
    return entry.event.kind == SK_EVENT_STREAM &&
           Place{entry.event.cell, entry.event.stream} == place;
  };
  const size_t last = behind(rank);  // Its own last may be what fits.
  const auto from = pending_.begin() + static_cast<ptrdiff_t>(last == 0 ? 0 : last - 1);
  auto found = std::find_if(from, pending_.end(), fits);
  if (found == pending_.end() && pending_.size() >= kEntriesMax)
    found = std::find_if(pending_.begin(), pending_.end(), fits);
  if (found != pending_.end()) return &*found;
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
  if (open->second.text.size() > kOpenBytesMax) put_open(open);
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
  Entry* const entry = text_entry(place, rank);
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
  if (!pending_.empty() || frames_.has_news())
    return waits_for_peers() ? std::max(next_ns_, hold_ns_) : next_ns_;
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

void LateOutput::render_text(Entry& entry) {
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
  if (entry.cut_lines == 0) return;
  if (!event.text.empty() && event.text.back() != '\n') event.text += '\n';
  event.text += entry.note + "\n";
  mid_line_.erase(place);
}

std::vector<Event> LateOutput::render(Entry& entry) {
  if (!entry.display) {
    if (entry.event.kind == SK_EVENT_STREAM) render_text(entry);
    const bool is_nothing = entry.event.kind == SK_EVENT_STREAM && entry.event.text.empty();
    return is_nothing ? std::vector<Event>{} : std::vector<Event>{std::move(entry.event)};
  }
  Item item;
  item.kind = entry.shows(SK_DISPLAY_UPDATE) ? Item::Kind::kUpdate : Item::Kind::kDisplay;
  item.display = entry.display;
  std::vector<Event> out = render_columns({{{&item, entry.ranks}}}, entry.world, entry.style);
  for (Event& event : out) event.cell = entry.event.cell;
  if (entry.shows(SK_DISPLAY_RESULT)) out.back().display = SK_DISPLAY_RESULT;
  return out;
}

std::vector<Event> LateOutput::take_pending() {
  std::vector<Event> out;
  pending_bytes_ = 0;
  for (const auto& [cell, cut] : std::exchange(cut_, {})) {  // They were the oldest.
    out.push_back(display_event(SK_DISPLAY_DATA,
                                {{"text/plain", elision(cut.style, 0, cut.displays)}}, {}, true));
    out.back().cell = cell;
  }
  for (Entry& entry : std::exchange(pending_, {}))
    for (Event& event : render(entry)) out.push_back(std::move(event));
  for (Event& event : frames_.take()) out.push_back(std::move(event));
  uint64_t bytes = 0;
  for (const Event& event : out) bytes += size_of(event);
  if (!out.empty())
    next_ns_ = now_ns_ + std::max(static_cast<int64_t>(out.size()) * kMessageGapNs,
                                  static_cast<int64_t>(bytes * 1'000'000'000 / kBytesPerSecond));
  return out;
}

}  // namespace sk::control
