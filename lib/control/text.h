// Small text helpers of the control plane.
#ifndef SK_LIB_CONTROL_TEXT_H_
#define SK_LIB_CONTROL_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sk::control {

// `text` with each invalid UTF-8 sequence replaced by U+FFFD.
std::string utf8_clean(std::string_view text);

// Bytes at the end of `text` that begin a character whose rest has not come yet: 0 to 3.
size_t utf8_open_tail(std::string_view text);

// `text` as a JSON string with its quotes; what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);
// 48210 as "48,210".
std::string grouped(uint64_t number);

// Without ANSI escape sequences.
std::string strip_ansi(std::string_view text);

// The length of the escape sequence at the front of `text` (which starts with ESC), 0 when its end
// has not come yet.
size_t escape_length(std::string_view text);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_TEXT_H_
