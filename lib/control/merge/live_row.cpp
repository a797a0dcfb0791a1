#include "lib/control/merge/live_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr size_t kBarsMax = 8;
constexpr size_t kTailItems = 5;  // Of each rank.
constexpr size_t kTailLines = 10;
constexpr size_t kTailLineBytes = 400;

// What a progress bar says.
struct Bar {
  uint32_t rank = 0;
  std::string text;
  std::string label;  // What stands before its percentage.
  double percent = -1;
  std::string rate;  // "12.1"
  std::string unit;  // "it/s"
};

bool is_number(char c) { return (c >= '0' && c <= '9') || c == '.'; }

// The number that ends right before `end`.
std::string_view number_before(std::string_view text, size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && is_number(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

Bar parse(uint32_t rank, const std::string& raw) {
  Bar bar;
  bar.rank = rank;
  bar.text = strip_ansi(raw);
  const std::string_view text = bar.text;
  const size_t sign = text.find('%');
  if (sign != std::string_view::npos) {
    const std::string_view number = number_before(text, sign);
    const auto [end, failure] =
        std::from_chars(number.data(), number.data() + number.size(), bar.percent);
    if (failure != std::errc() || number.empty()) bar.percent = -1;
    if (bar.percent >= 0)
      bar.label = text.substr(0, static_cast<size_t>(number.data() - text.data()));
    while (bar.label.ends_with(' ')) bar.label.pop_back();
  }
  const size_t slash = text.rfind("/s");  // "12.1it/s", "3.4 MB/s"
  if (slash == std::string_view::npos) return bar;
  size_t unit = slash;
  while (unit > 0 && std::isalpha(static_cast<unsigned char>(text[unit - 1]))) --unit;
  bar.rate = number_before(text, unit);
  bar.unit = text.substr(unit, slash + 2 - unit);
  return bar;
}

// What a long line is of stands at its beginning, and so does its tag.
std::string with_short_lines(std::string_view text) {
  std::string out;
  for (size_t end; !text.empty(); text.remove_prefix(std::min(text.size(), end + 1))) {
    end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    if (line.size() > kTailLineBytes) {
      line.resize(kTailLineBytes);
      line.resize(line.size() - utf8_open_tail(line));
      line += "…";
    }
    out += (out.empty() ? "" : "\n") + line;
  }
  return utf8_clean(out);
}

std::string percentage(double percent) { return fmt::format("{:.0f} %", percent); }

RankSet ranks_of(const std::vector<Bar>& bars) {
  RankSet ranks;
  for (const Bar& bar : bars) ranks.push_back(bar.rank);
  return ranks;
}

// Bars that were begun at the same point, in order of ranks.
std::string describe_group(const std::vector<Bar>& bars, const RankSet& target,
                           const ViewStyle& style, size_t width) {
  const RankSet ranks = ranks_of(bars);
  const std::string tag =
      is_tagged(style, ranks, target) ? tag_of(style, ranks, width) : std::string(width, ' ');
  const bool same = std::all_of(bars.begin(), bars.end(),
                                [&](const Bar& bar) { return bar.text == bars[0].text; });
  if (same) return tag + bars[0].text;
  const bool measured =
      std::all_of(bars.begin(), bars.end(), [](const Bar& bar) { return bar.percent >= 0; });
  if (!measured)
    return fmt::format("{}{} … (rank {} of {})", tag, bars[0].text, bars[0].rank, bars.size());
  const auto by_percent = [](const Bar& a, const Bar& b) { return a.percent < b.percent; };
  const Bar& least = *std::min_element(bars.begin(), bars.end(), by_percent);
  const Bar& most = *std::max_element(bars.begin(), bars.end(), by_percent);
  std::string line = tag + bars[0].label + (bars[0].label.empty() ? "" : " ");
  line += fmt::format("min {} (rank {}) … max {}", percentage(least.percent), least.rank,
                      percentage(most.percent));
  const auto value = [](const Bar& bar) {
    double rate = -1;
    std::from_chars(bar.rate.data(), bar.rate.data() + bar.rate.size(), rate);
    return rate;
  };
  const auto by_rate = [&](const Bar& a, const Bar& b) { return value(a) < value(b); };
  const Bar& slowest = *std::min_element(bars.begin(), bars.end(), by_rate);
  const Bar& fastest = *std::max_element(bars.begin(), bars.end(), by_rate);
  if (value(slowest) < 0 || slowest.unit != fastest.unit) return line;
  if (slowest.rate == fastest.rate) return line + "  " + slowest.rate + " " + slowest.unit;
  return line + "  " + slowest.rate + "…" + fastest.rate + " " + slowest.unit;
}

}  // namespace

std::string describe_bars(const RankLogs& logs, const RankSet& target, const ViewStyle& style) {
  // By how many bars the rank began after it, and its label; in order of their lowest ranks, as the
  // logs are.
  struct Bars {
    size_t behind;
    std::vector<Bar> bars{};
  };
  std::vector<Bars> groups;
  std::map<std::pair<size_t, std::string>, size_t> places;
  for (const auto& [rank, log] : logs) {
    const std::vector<const Item*> bars = log.bars(kBarsMax);
    for (size_t i = 0; i < bars.size(); ++i) {
      Bar bar = parse(rank, bars[i]->text);
      const size_t behind = bars.size() - i;
      const auto place = places.try_emplace({behind, bar.label}, groups.size()).first->second;
      if (place == groups.size()) groups.push_back({behind});
      groups[place].bars.push_back(std::move(bar));
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Bars& a, const Bars& b) { return a.behind > b.behind; });
  groups.resize(std::min(groups.size(), kBarsMax));
  std::vector<RankSet> tagged;
  for (const Bars& group : groups)
    if (const RankSet ranks = ranks_of(group.bars); is_tagged(style, ranks, target))
      tagged.push_back(ranks);
  if (!tagged.empty()) tagged.push_back({target.back()});
  const size_t width = column_of_tags(style, tagged);
  std::string text;
  for (const Bars& group : groups) text += describe_group(group.bars, target, style, width) + "\n";
  if (!text.empty()) text.pop_back();
  return text;
}

std::string describe_tail(const RankLogs& logs, const RankSet& target, const ViewStyle& style) {
  std::vector<RankItems> last;
  for (const auto& [rank, log] : logs) {
    const size_t begin = log.size() - std::min(log.size(), kTailItems);
    last.push_back({rank, {}});
    for (const Item* item : log.items(begin, log.size(), /*with_bars=*/false))
      if (item->kind == Item::Kind::kLine) last.back().items.push_back(item);
  }
  std::string text;
  for (const Event& event : render_columns(arrange(last, style), target, style)) text += event.text;
  if (text.ends_with('\n')) text.pop_back();
  size_t begin = text.size();
  for (size_t lines = 0; begin > 0; --begin)
    if (text[begin - 1] == '\n' && ++lines == kTailLines) break;
  return with_short_lines(std::string_view(text).substr(begin));
}

}  // namespace sk::control
