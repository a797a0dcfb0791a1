#include "lib/control/rank_set.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace sk::control {
namespace {

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
      item.find_first_not_of("0123456789- ") == std::string_view::npos)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "rank set: \"{}\" needs commas between its ranks, as in 0,2", item);
  return error(SK_ERR_INVALID_ARGUMENT,
               "rank set: \"{}\" is no rank and no range; write it like 0-3,5, or alive, local, "
               "host:NAME or all",
               item);
}

}  // namespace

RankSet all_ranks(uint32_t world_size) {
  RankSet ranks(world_size);
  std::iota(ranks.begin(), ranks.end(), 0u);
  return ranks;
}

Result<RankSet> parse_ranks(std::string_view text, uint32_t world_size) {
  if (trim(text).empty()) return all_ranks(world_size);
  std::vector<bool> chosen(world_size, false);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = trim(text.substr(begin, end - begin));
    const size_t dash = item.find('-');
    const auto first = number(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(item.substr(dash + 1));
    if (!first || !last || *first > *last) return refusal(item, text);
    if (*last >= world_size)
      return error(SK_ERR_OUT_OF_RANGE, "rank set: rank {} asked for, but there are ranks 0 to {}",
                   *last, world_size - 1);
    std::fill(chosen.begin() + *first, chosen.begin() + *last + 1, true);
    begin = end + 1;
  }
  RankSet ranks;
  for (uint32_t rank = 0; rank < world_size; ++rank)
    if (chosen[rank]) ranks.push_back(rank);
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

std::string name_ranks(const RankSet& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_ranks(ranks);
}

}  // namespace sk::control
