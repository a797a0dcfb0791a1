#include "tools/text/text.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

namespace sk {

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += uint8_t(c) < 0x20 || c == 0x7f ? ' ' : c;
    // So are U+0080 to U+009F to a terminal: of two bytes, the first 0xc2.
    const size_t size = out.size();
    if (size > 1 && uint8_t(out[size - 2]) == 0xc2 && uint8_t(c) >= 0x80 && uint8_t(c) < 0xa0)
      out.replace(size - 2, 2, " ");
  }
  // What is no UTF-8 becomes question marks, as JSON's own writer would have it.
  const std::string quoted =
      nlohmann::json(out).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

std::string numbers_text(const std::vector<int>& numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", numbers[i]);
    if (last > i) out += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace sk
