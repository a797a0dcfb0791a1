#include "lib/plan/text_reader.h"

#include <bit>

namespace sk::text {
namespace {

constexpr std::string_view kNan = "nan:";

}  // namespace

bool Reader::next_line() {
  while (!rest_.empty()) {
    const size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++line_number_;
    column_ = 1;
    skip_spaces();
    if (!line_.empty() && line_.front() != '#') return true;
  }
  line_ = {};
  column_ = 1;
  ++line_number_;
  return false;
}

void Reader::advance(size_t count) {
  line_.remove_prefix(count);
  column_ += count;
}

void Reader::skip_spaces() {
  size_t count = 0;
  while (count < line_.size() && line_[count] == ' ') ++count;
  advance(count);
}

bool Reader::take(std::string_view prefix) {
  if (!line_.starts_with(prefix)) return false;
  advance(prefix.size());
  return true;
}

bool Reader::take_word(std::string_view word) {
  if (!line_.starts_with(word)) return false;
  if (line_.size() > word.size() && line_[word.size()] != ' ') return false;
  advance(word.size());
  skip_spaces();
  return true;
}

std::string_view Reader::take_until(std::string_view stops) {
  size_t count = 0;
  while (count < line_.size() && line_[count] != ' ' &&
         stops.find(line_[count]) == std::string_view::npos) {
    ++count;
  }
  const std::string_view taken = line_.substr(0, count);
  advance(count);
  return taken;
}

std::string float_text(int64_t bits) {
  const auto number = std::bit_cast<double>(bits);
  return number != number ? fmt::format("{}{}", kNan, bits) : fmt::to_string(number);
}

Status Reader::take_float(int64_t& bits, const char* what) {
  if (take(kNan)) return take_number(bits, what);
  const std::string_view text = take_until("");
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) {
    return fail("expected {}, a number", what);
  }
  bits = std::bit_cast<int64_t>(number);
  return Status();
}

Status Reader::finish_line() {
  skip_spaces();
  if (!line_.empty()) return fail("unexpected text at the end of the line");
  return Status();
}

Status Reader::fail_at(const std::string& sentence) const {
  return error(SK_ERR_INVALID_ARGUMENT, "plan text, line {}, column {}: {}", line_number_, column_,
               sentence);
}

}  // namespace sk::text
