#include "lib/control/merge/style.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr std::string_view kBrackets = "[] ";
constexpr size_t kColumnMax = 16;  // Without a host.

}  // namespace

bool is_tagged(const ViewStyle& style, const RankSet& ranks, const RankSet& target) {
  if (style.tag == SK_TAG_NONE) return false;
  return style.tag == SK_TAG_SPEC || ranks != target;
}

std::string tag_of(const ViewStyle& style, const RankSet& ranks, size_t width) {
  if (style.tag == SK_TAG_NONE) return "";
  if (style.tag == SK_TAG_SPEC && ranks.size() == 1)
    return fmt::format("[rank {:4}] ", ranks.front());
  const std::string host = style.tag == SK_TAG_HOST ? style.host + " " : "";
  const std::string set = brief_ranks(ranks, style.world_size);
  const size_t own = host.size() + set.size() + kBrackets.size();
  return "[" + host + std::string(width - std::min(width, own), ' ') + set + "] ";
}

size_t column_of_tags(const ViewStyle& style, const std::vector<RankSet>& ranks) {
  if (style.tag != SK_TAG_SET && style.tag != SK_TAG_HOST) return 0;
  const size_t host = style.tag == SK_TAG_HOST ? style.host.size() + 1 : 0;
  size_t width = 0;
  for (const RankSet& set : ranks) {
    const size_t own = tag_of(style, set).size();
    if (own <= kColumnMax + host) width = std::max(width, own);
  }
  return width;
}

std::string log_hint(const ViewStyle& style) {
  return style.log.starts_with('%') ? "`" + style.log + "`" : style.log;
}

std::string elision(const ViewStyle& style, uint64_t lines, uint64_t displays) {
  const auto count = [](uint64_t n, const char* what) {
    return grouped(n) + " " + what + (n == 1 ? "" : "s");
  };
  std::string what = lines > 0 || displays == 0 ? count(lines, "line") : "";
  if (displays > 0) what += (what.empty() ? "" : " and ") + count(displays, "display");
  return "… " + what + " elided, " + log_hint(style);
}

std::string growing_line(const ViewStyle& style) {
  return "… a long line that has not ended, " + log_hint(style);
}

}  // namespace sk::control
