#include "lib/control/text.h"

#include <fmt/format.h>

#include <cstdint>

namespace sk::control {
namespace {

// What a lead byte announces: its sequence's length and the range of the second byte (which is
// where overlong forms, surrogates and values above U+10FFFF are told). Length 0: no lead byte.
struct Lead {
  size_t length;
  unsigned char low;
  unsigned char high;
};

Lead lead(unsigned char c) {
  if (c < 0x80) return {1, 0, 0};
  if (c < 0xc2) return {0, 0, 0};
  if (c < 0xe0) return {2, 0x80, 0xbf};
  if (c == 0xe0) return {3, 0xa0, 0xbf};
  if (c == 0xed) return {3, 0x80, 0x9f};
  if (c < 0xf0) return {3, 0x80, 0xbf};
  if (c == 0xf0) return {4, 0x90, 0xbf};
  if (c < 0xf4) return {4, 0x80, 0xbf};
  if (c == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// How many bytes at `i` form the longest valid prefix of a character, and whether it is whole.
size_t valid_prefix(std::string_view text, size_t i, bool* whole) {
  const Lead l = lead(static_cast<unsigned char>(text[i]));
  *whole = l.length == 1;
  if (l.length <= 1) return l.length;
  size_t n = 1;
  while (n < l.length && i + n < text.size()) {
    const auto c = static_cast<unsigned char>(text[i + n]);
    if (n == 1 ? c < l.low || c > l.high : (c & 0xc0) != 0x80) return n;
    ++n;
  }
  *whole = n == l.length;
  return n;
}

}  // namespace

std::string utf8_clean(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    bool whole = false;
    const size_t n = valid_prefix(text, i, &whole);
    if (whole) out.append(text.substr(i, n));
    if (!whole) out += "\xef\xbf\xbd";
    i += n == 0 ? 1 : n;
  }
  return out;
}

size_t utf8_open_tail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if ((c & 0xc0) == 0x80) continue;
    bool whole = false;
    const bool open = valid_prefix(text, text.size() - back, &whole) == back && !whole;
    return open ? back : 0;
  }
  return 0;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : utf8_clean(text)) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", c);
    else
      out += c;
  }
  return out + '"';
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] != '[') return 2;
  for (size_t i = 2; i < text.size(); ++i)
    if (text[i] >= 0x40 && text[i] <= 0x7e) return i + 1;
  return 0;
}

std::string strip_ansi(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = text[i] == '\x1b' ? escape_length(text.substr(i)) : 0;
    if (length == 0) out += text[i];
    i += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace sk::control
