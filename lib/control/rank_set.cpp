#include "lib/control/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <optional>

namespace sk::control {
namespace {

constexpr size_t kSteppedMin = 4;
constexpr uint32_t kWorldWithBut = 8;  // Of fewer ranks a list is read as fast.

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<uint32_t> number(std::string_view text) {
  text = trim(text);
  uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure == std::errc::result_out_of_range && end == text.data() + text.size())
    return UINT32_MAX;  // Digits all the same: refused later as no rank of this session.
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Why `item`, a part of `text`, is nothing.
Status refusal(std::string_view item, std::string_view text) {
  if (item.empty())
    return error(SK_ERR_INVALID_ARGUMENT, "rank set: \"{}\" has a stray comma", trim(text));
  if (item.find(' ') != std::string_view::npos &&
      item.find_first_not_of("0123456789-: ") == std::string_view::npos)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "rank set: \"{}\" needs commas between its ranks, as in 0,2", item);
  return error(SK_ERR_INVALID_ARGUMENT,
               "rank set: \"{}\" is no rank and no range; write it like 0-3,5 or 0-6:2 or !0, or "
               "alive, local, host:NAME or all",
               item);
}

struct Range {
  uint32_t first = 0;
  uint32_t last = 0;
  uint32_t step = 1;
};

// "3", "0-5", "0-62:2".
std::optional<Range> range_of(std::string_view item) {
  constexpr size_t npos = std::string_view::npos;
  const size_t dash = item.find('-'), colon = item.find(':');
  if (colon != npos && (dash == npos || colon < dash)) return std::nullopt;
  const auto first = number(item.substr(0, dash));
  const auto last =
      dash == npos ? first : number(item.substr(dash + 1, colon == npos ? npos : colon - dash - 1));
  const auto step = colon == npos ? 1u : number(item.substr(colon + 1));
  if (!first || !last || !step || *first > *last || *step == 0) return std::nullopt;
  return Range{*first, *last, *step};
}

// Ranges; and of four ranks or more at one distance a range with a step, where that is shorter.
std::string format_steps(const RankSet& ranks) {
  std::string text;
  for (size_t i = 0, next; i < ranks.size(); i = next) {
    const uint32_t step = i + 1 < ranks.size() ? ranks[i + 1] - ranks[i] : 1;
    for (next = i + 1; next < ranks.size() && ranks[next] - ranks[next - 1] == step;) ++next;
    if (step > 1 && next - i < kSteppedMin) next = i + 1;
    const std::string list = format_ranks(
        {ranks.begin() + static_cast<ptrdiff_t>(i), ranks.begin() + static_cast<ptrdiff_t>(next)});
    const std::string range = fmt::format("{}-{}:{}", ranks[i], ranks[next - 1], step);
    if (!text.empty()) text += ',';
    text += step > 1 && range.size() < list.size() ? range : list;
  }
  return text;
}

}  // namespace

RankSet all_ranks(uint32_t world_size) {
  RankSet ranks(world_size);
  std::iota(ranks.begin(), ranks.end(), 0u);
  return ranks;
}

Result<RankSet> parse_ranks(std::string_view text, uint32_t world_size) {
  if (trim(text).empty()) return all_ranks(world_size);
  text = trim(text);
  const bool all_but = text.starts_with('!');
  const std::string_view whole = text;
  if (all_but) text = trim(text.substr(1));
  if (text.empty()) return refusal(whole, whole);
  std::vector<bool> chosen(world_size, false);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = trim(text.substr(begin, end - begin));
    const auto range = range_of(item);
    if (!range) return refusal(item, whole);
    if (range->last >= world_size)
      return error(SK_ERR_OUT_OF_RANGE, "rank set: rank {} asked for, but there are ranks 0 to {}",
                   range->last, world_size - 1);
    for (uint64_t rank = range->first; rank <= range->last; rank += range->step)
      chosen[rank] = true;
    begin = end + 1;
  }
  RankSet ranks;
  for (uint32_t rank = 0; rank < world_size; ++rank)
    if (chosen[rank] != all_but) ranks.push_back(rank);
  if (ranks.empty())
    return error(SK_ERR_INVALID_ARGUMENT,
                 "rank set: \"{}\" leaves no rank: there are ranks 0 to {}", whole, world_size - 1);
  return ranks;
}

std::string format_ranks(const RankSet& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[i]);
    if (last == i + 1) text += ',' + std::to_string(ranks[last]);
    if (last > i + 1) text += '-' + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string brief_ranks(const RankSet& ranks, uint32_t world_size) {
  std::string text = format_steps(ranks);
  if (world_size < kWorldWithBut || 2 * ranks.size() <= world_size) return text;
  RankSet others;
  const RankSet all = all_ranks(world_size);
  std::set_difference(all.begin(), all.end(), ranks.begin(), ranks.end(),
                      std::back_inserter(others));
  if (others.empty()) return text;
  const std::string but = "!" + format_steps(others);
  return but.size() < text.size() ? but : text;
}

std::string name_ranks(const RankSet& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranks(ranks);
}

}  // namespace sk::control
