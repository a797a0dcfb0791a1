// Cuts plan text into lines and words, and says where something is wrong.
#ifndef SK_LIB_PLAN_TEXT_READER_H_
#define SK_LIB_PLAN_TEXT_READER_H_

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace sk::text {

// The shortest number that reads back as the same bits; of a NaN the bits themselves.
std::string float_text(int64_t bits);

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  // Moves to the next line that says something; false at the end of the text.
  bool next_line();

  bool at_line_end() const { return line_.empty(); }
  // Takes the word if it comes next: text up to a space.
  bool take_word(std::string_view word);
  // Takes exactly this prefix, wherever the next space is.
  bool take(std::string_view prefix);
  // Everything up to the next space or one of `stops`.
  std::string_view take_until(std::string_view stops);
  // Spaces between words; nothing else separates them.
  void skip_spaces();

  template <std::integral T>
  Status take_number(T& out, const char* what) {
    const auto [end, code] = std::from_chars(line_.data(), line_.data() + line_.size(), out);
    if (code == std::errc::result_out_of_range) return fail("{} is too large", what);
    if (code != std::errc()) return fail("expected {}, a number", what);
    advance(size_t(end - line_.data()));
    return Status();
  }

  // A number as the bits of a double, as float_text() writes it.
  Status take_float(int64_t& bits, const char* what);

  // The line must be used up.
  Status finish_line();

  template <typename... Args>
  Status fail(fmt::format_string<Args...> format, Args&&... args) const {
    return fail_at(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void advance(size_t count);
  Status fail_at(const std::string& sentence) const;

  std::string_view rest_;  // Behind the current line.
  std::string_view line_;  // What is left of the current line.
  size_t line_number_ = 0;
  size_t column_ = 1;
};

}  // namespace sk::text

#endif  // SK_LIB_PLAN_TEXT_READER_H_
