#include "tools/sk_kernel/magic_log.h"

#include <algorithm>
#include <charconv>

namespace sk::kernel {
namespace {

// 0: it is no number of a cell.
int64_t cell_of(const std::string& word) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), number);
  return failure == std::errc() && end == word.data() + word.size() ? number : 0;
}

Status no_cell(const char* verb, const std::string& word) {
  return error(SK_ERR_INVALID_ARGUMENT, "{}: \"{}\" is no number of a cell, as In[ ] shows it",
               verb, word);
}

}  // namespace

Result<LogArguments> parse_log(const std::vector<std::string>& words) {
  LogArguments arguments;
  const auto arrow = std::find_if(words.begin(), words.end(),
                                  [](const std::string& word) { return word.starts_with('>'); });
  std::vector<std::string> before(words.begin(), arrow);
  if (arrow != words.end()) {
    arguments.file = arrow->substr(1);
    for (auto word = arrow + 1; word != words.end(); ++word)
      arguments.file += (arguments.file.empty() ? "" : " ") + *word;
    if (arguments.file.empty())
      return error(SK_ERR_INVALID_ARGUMENT, "%sk log: > needs a file behind it");
  }
  if (!before.empty()) {
    arguments.cell = cell_of(before[0]);
    if (arguments.cell < 1) return no_cell("%sk log", before[0]);
    for (size_t i = 1; i < before.size(); ++i)
      arguments.ranks += (arguments.ranks.empty() ? "" : " ") + before[i];
  }
  return arguments;
}

Result<LogArguments> parse_show(const std::vector<std::string>& words) {
  if (words.empty() || words.size() > 2)
    return error(SK_ERR_INVALID_ARGUMENT, "%sk show needs a rank, and takes a cell: %sk show 3 12");
  LogArguments arguments;
  arguments.ranks = words[0];
  if (words[0].find_first_not_of("0123456789") != std::string::npos)
    return error(SK_ERR_INVALID_ARGUMENT, "%sk show: \"{}\" is no rank", words[0]);
  if (words.size() == 2) arguments.cell = cell_of(words[1]);
  if (words.size() == 2 && arguments.cell < 1) return no_cell("%sk show", words[1]);
  return arguments;
}

}  // namespace sk::kernel
