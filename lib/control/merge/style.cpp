#include "lib/control/merge/style.h"

#include <fmt/format.h>

#include "lib/control/text.h"

namespace sk::control {

bool is_tagged(const ViewStyle& style, const RankSet& ranks, const RankSet& target) {
  if (style.tag == SK_TAG_NONE) return false;
  return style.tag == SK_TAG_SPEC || ranks != target;
}

std::string tag_of(const ViewStyle& style, const RankSet& ranks) {
  if (style.tag == SK_TAG_NONE) return "";
  if (style.tag == SK_TAG_SPEC && ranks.size() == 1)
    return fmt::format("[rank {:4}] ", ranks.front());
  const std::string host = style.tag == SK_TAG_HOST ? style.host + " " : "";
  return "[" + host + format_ranks(ranks) + "] ";
}

std::string elision(const ViewStyle& style, uint64_t lines, uint64_t displays) {
  const auto count = [](uint64_t n, const char* what) {
    return grouped(n) + " " + what + (n == 1 ? "" : "s");
  };
  std::string what = lines > 0 || displays == 0 ? count(lines, "line") : "";
  if (displays > 0) what += (what.empty() ? "" : " and ") + count(displays, "display");
  return "… " + what + " elided, `" + style.log + "`";
}

std::string growing_line(const ViewStyle& style) {
  return "… a long line that has not ended, `" + style.log + "`";
}

}  // namespace sk::control
