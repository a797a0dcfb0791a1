// Fuzzes the merge engine: whatever ranks put out, in whatever order it comes and however it is cut
// and shown meanwhile, the end is the same, bounded, and what the events add up to.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>

#include "lib/control/log/cell_logs.h"
#include "lib/control/merge/blocks.h"
#include "lib/control/merge/engine.h"
#include "tests/fuzz/driver.h"

namespace sk::fuzz {
namespace {

using namespace sk::control;

// Bytes as choices; zeros when there are no more.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t next() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  std::string text(size_t length) {
    std::string out;
    while (length-- > 0 && left_ > 0) out += static_cast<char>(next());
    return out;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

struct Step {
  uint32_t rank;
  Record record;
  int64_t wait_ns;
};

struct Case {
  uint32_t ranks = 1;
  MergeOptions options;
  std::vector<Step> steps;
};

Case parse(Choices choices) {
  static constexpr const char* kWords[] = {"a\n",    "\r",  "\b",       "\x1b[A", "\x1b[2K",
                                           "line\n", "50%", "\xe6\x97", "\xa5",   "\x1b["};
  Case made;
  made.ranks = 1 + choices.next() % 4;
  made.options.style.tag = 1 + choices.next() % 4;
  made.options.style.limits.lines = 16 + choices.next();
  made.options.style.limits.bytes = 512 + 16 * choices.next();
  made.options.style.limits.displays = 16 + choices.next() % 32;
  while (!choices.empty()) {
    Step step;
    step.rank = choices.next() % made.ranks;
    step.wait_ns = int64_t(choices.next() % 16) * 20'000'000;
    const uint8_t what = choices.next();
    const std::string id = what % 3 == 0 ? "" : std::string(1, static_cast<char>('a' + what % 3));
    if (what < 120)
      step.record.body = StreamRecord{1u + what % 2, kWords[what % std::size(kWords)]};
    else if (what < 200)
      step.record.body = StreamRecord{1u + what % 2, choices.text(what - 100)};
    else if (what < 240)
      step.record.body = DisplayRecord{1u + what % 6, {{"text/plain", choices.text(4)}}, id, ""};
    else
      step.record.body = ErrorRecord{"E", choices.text(2), {"frame"}, what % 4u};
    made.steps.push_back(std::move(step));
  }
  return made;
}

class Reader {
 public:
  void read(const std::vector<Event>& events) {
    for (const Event& event : events) {
      const bool display = event.kind == SK_EVENT_DISPLAY;
      if (display && event.display == SK_DISPLAY_CLEAR_WAIT) {
        clears_ = true;
        continue;
      }
      if (clears_ || (display && event.display == SK_DISPLAY_CLEAR)) kept_.clear();
      clears_ = false;
      if (display && event.display == SK_DISPLAY_CLEAR) continue;
      append_event(kept_, event);
    }
  }
  // What a file keeps: text that was joined has no one set of ranks.
  std::vector<Event> kept() const {
    std::vector<Event> kept = kept_;
    for (Event& event : kept) {
      if (event.kind != SK_EVENT_STREAM) continue;
      event.ranks.clear();
      event.all_ranks = false;
    }
    return kept;
  }

 private:
  std::vector<Event> kept_;
  bool clears_ = false;
};

std::vector<Event> play_live(const Case& made, size_t* messages) {
  MergeEngine engine(all_ranks(made.ranks), made.options);
  Reader reader;
  int64_t now = 0;
  for (const Step& step : made.steps) {
    now += step.wait_ns;
    engine.add(step.rank, step.record, now);
    const std::vector<Event> events = engine.live(now);
    *messages += events.size();
    reader.read(events);
  }
  reader.read(engine.finish({}, now));
  return reader.kept();
}

// Rank by rank, text byte by byte, nothing shown before the end.
std::vector<Event> play_apart(const Case& made) {
  MergeEngine engine(all_ranks(made.ranks), made.options);
  for (uint32_t rank = 0; rank < made.ranks; ++rank) {
    for (const Step& step : made.steps) {
      if (step.rank != rank) continue;
      const auto* stream = std::get_if<StreamRecord>(&step.record.body);
      if (stream == nullptr) engine.add(rank, step.record, 0);
      for (size_t i = 0; stream != nullptr && i < stream->text.size(); ++i)
        engine.add(rank, {0, StreamRecord{stream->stream, stream->text.substr(i, 1)}}, 0);
    }
  }
  Reader reader;
  reader.read(engine.finish({}, 0));
  return reader.kept();
}

// ---- the order of lines ------------------------------------------------------------------------

// Lists of lines from few words, aligned.
void check_blocks(Choices choices) {
  const uint32_t ranks = 1 + choices.next() % 6;
  std::deque<Item> items;
  std::vector<RankItems> lists;
  for (uint32_t rank = 0; rank < ranks; ++rank) lists.push_back({rank, {}});
  while (!choices.empty()) {
    Item& item = items.emplace_back();
    const uint8_t what = choices.next();
    item.text = std::string(1, static_cast<char>('a' + what % 7));
    item.stream = what < 200 ? SK_STREAM_STDOUT : SK_STREAM_STDERR;
    item.newline = true;
    item.bytes = 2;
    const uint8_t whose = choices.next();
    for (uint32_t rank = 0; rank < ranks; ++rank)
      if (whose >= 250 || (whose >> rank & 1) != 0) lists[rank].items.push_back(&item);
  }
  const RankSet all = all_ranks(ranks);
  const std::vector<Column> ordered = in_blocks(align(lists), all);
  std::vector<std::vector<const Item*>> said(ranks);
  for (const Column& column : ordered)
    for (const Group& group : column)
      for (const uint32_t rank : group.ranks) said[rank].push_back(group.item);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto& own = lists[rank].items;
    require(std::equal(own.begin(), own.end(), said[rank].begin(), said[rank].end(),
                       [](const Item* a, const Item* b) { return a->same_content(*b); }),
            "every rank's lines are there once and in their order");
  }
  std::vector<const Group*> section;  // Of one stream, between lines that all have.
  const auto check_section = [&] {
    size_t lines = 0;
    std::map<uint32_t, std::vector<size_t>> places;
    for (size_t i = 0; i < section.size(); ++i)
      for (const uint32_t rank : section[i]->ranks) places[rank].push_back(i), ++lines;
    for (const auto& [rank, at] : places)
      require(lines > 64 || at.back() - at.front() + 1 == at.size(),
              "each rank's lines stay together");
    section.clear();
  };
  for (const Column& column : ordered) {
    require(column.size() == 1, "lines come one by one");
    const Group& group = column[0];
    if (!section.empty() && section.back()->item->stream != group.item->stream) check_section();
    if (group.ranks == all) check_section();
    if (group.ranks != all) section.push_back(&group);
  }
  check_section();
}

void tell(const char* what, const Event& event, size_t index) {
  std::fprintf(stderr, "%s, event %zu: kind %u stream %u display %u id %s\n%s%s%s\n", what, index,
               event.kind, event.stream, event.display, event.display_id.c_str(),
               event.text.c_str(), event.mimes.empty() ? "" : event.mimes[0].data.c_str(),
               event.evalue.c_str());
}

// The first event in which two outcomes differ.
void tell_difference(const std::vector<Event>& live, const std::vector<Event>& apart) {
  const size_t common = std::min(live.size(), apart.size());
  const auto found =
      std::mismatch(live.begin(), live.begin() + static_cast<ptrdiff_t>(common), apart.begin());
  const auto index = static_cast<size_t>(found.first - live.begin());
  if (index < live.size()) tell("shown live", live[index], index);
  if (index < apart.size()) tell("rank by rank", apart[index], index);
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  uint64_t state = 1;
  for (size_t length : {8u, 40u, 200u, 1000u, 3000u}) {
    for (int kind = 0; kind < 4; ++kind) {
      std::string bytes;
      while (bytes.size() < length) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        bytes += static_cast<char>(state >> 33);
        // Kinds of mostly words, mostly text, mostly displays, anything.
        if (bytes.size() % 3 == 2 && kind < 3)
          bytes += static_cast<char>(kind == 0 ? (state >> 41) % 120
                                               : (kind == 1 ? 130 : 205) + (state >> 41) % 30);
      }
      out.push_back(std::move(bytes));
    }
  }
  return out;
}

std::vector<std::string> words() {
  return {"\n",     "\r",           "\b",      "\x1b[A",
          "\x1b[K", "\x1b[3A",      "\x1b[1K", "100%|##| 3.0it/s",
          "\xff",   "\xe6\x97\xa5", "[0] ",    std::string(80, 'x')};
}

}  // namespace sk::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sk::fuzz;
  const Case made = parse(Choices(data, size));
  size_t messages = 0;
  const std::vector<Event> live = play_live(made, &messages);
  const std::vector<Event> apart = play_apart(made);
  if (live != apart) tell_difference(live, apart);
  require(live == apart, "the end does not depend on arrival, pieces and live views");
  uint64_t bytes = 0;
  for (const Event& event : live)
    if (event.kind == SK_EVENT_STREAM) bytes += event.text.size();
  // Tags come on top of the text, and invalid bytes become three.
  require(bytes <= 64 * made.options.style.limits.bytes + 64 * made.options.style.limits.lines,
          "a view is bounded");
  check_blocks(Choices(data, size));
  return 0;
}
