#include "tools/sk_kernel/magics.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/sk_kernel/magic_table.h"

namespace sk::kernel {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!(text = trim(text)).empty()) {
    const size_t end = std::find_if(text.begin(), text.end(), is_space) - text.begin();
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

// One line that begins with a percent sign.
struct MagicLine {
  size_t percents = 0;
  std::string_view name;
  std::string_view rest;      // Behind the name, trimmed, without a comment.
  bool asks = false;          // `%info?`, `?%info` is the language's way to ask for help.
  bool ends_in_name = false;  // The name is followed by what belongs to a name of the language.
};

MagicLine read_line(std::string_view line) {
  MagicLine found;
  line = trim(line);
  while (found.percents < line.size() && line[found.percents] == '%') ++found.percents;
  line.remove_prefix(found.percents);
  size_t end = 0;
  while (end < line.size() && is_name(line[end])) ++end;
  found.name = line.substr(0, end);
  line.remove_prefix(end);
  while (!line.empty() && line.front() == '?') {
    found.asks = true;
    line.remove_prefix(1);
  }
  found.ends_in_name = !line.empty() && !is_space(line.front());
  const size_t comment = line.find(" #");
  found.rest = trim(line.substr(0, comment));
  return found;
}

// Reads a cell's leading lines into `plan` and says where each of ours stands.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void read() {
    while (begin_ < text_.size() && plan.problem.empty()) {
      end_ = std::min(text_.find('\n', begin_), text_.size());
      const std::string_view line = trim(text_.substr(begin_, end_ - begin_));
      if (!line.empty() && line.front() != '#' && !take(line)) break;
      begin_ = end_ + 1;
    }
  }

  // Where the first line stands that is not ours.
  size_t rest() const { return std::min(begin_, text_.size()); }

  CellPlan plan;
  std::vector<size_t> percent_signs;  // The first of each of our lines.

 private:
  bool take(std::string_view line) {
    if (line.front() != '%') return false;
    const MagicLine magic = read_line(line);
    if (magic.percents > 2 || magic.name.empty()) return false;
    const bool ours = magic.percents == 2 ? take_cell_magic(magic) : take_line_magic(magic);
    if (ours) percent_signs.push_back(line.data() - text_.data());
    return ours;
  }

  bool take_cell_magic(const MagicLine& magic) {
    const std::string typed = fmt::format("%%{}", magic.name);
    if (magic.ends_in_name) return false;
    if (find_magic(typed) == nullptr) return take_slip(typed, magic.rest);
    if (magic.asks) return take_help(typed);
    if (!magic_.empty()) {
      plan.problem = fmt::format("{} behind {}: a cell has one set of ranks", typed, magic_);
      return true;
    }
    magic_ = typed;
    plan.chosen_by = trim(fmt::format("{} {}", typed, magic.rest));
    if (magic.name == "on")
      take_on(magic.rest);
    else if (magic.name == "rank")
      take_rank(magic.rest);
    else
      take_px(words_of(magic.rest));
    return true;
  }

  void take_on(std::string_view spec) {
    plan.ranks = spec;
    if (spec.empty())
      plan.problem = "%%on needs a set of ranks: 0,2-5, alive, local, host:NAME or all";
  }

  void take_rank(std::string_view spec) {
    plan.ranks = spec;
    if (spec.empty() || spec.find_first_not_of("0123456789") != std::string_view::npos)
      plan.problem = fmt::format(
          "%%rank needs one rank, as in %%rank 3, but has \"{}\"; %%on takes a set", spec);
  }

  void take_px(const std::vector<std::string>& words) {
    plan.ranks = "all";
    if (words.empty()) return;
    std::string_view first = words[0];
    std::string spec;
    if (const size_t at = first.find('='); at != std::string_view::npos) {
      spec = first.substr(at + 1);
      first = first.substr(0, at);
    }
    if (first != "--targets" && first != "-t") {
      plan.problem = fmt::format("%%px has the option --targets RANKS alone, and no {}", first);
      return;
    }
    for (size_t i = 1; i < words.size(); ++i) spec += (spec.empty() ? "" : " ") + words[i];
    plan.ranks = spec;
    if (spec.empty()) plan.problem = "%%px --targets needs a set of ranks, as in --targets 0,2-5";
  }

  bool take_line_magic(const MagicLine& magic) {
    const std::string typed = fmt::format("%{}", magic.name);
    if (magic.ends_in_name) return false;
    std::vector<std::string> words = words_of(magic.rest);
    if (magic.name == "sk") return take_sk(std::move(words), magic.asks);
    if (find_magic(typed) == nullptr) return take_slip(typed, magic.rest);
    if (magic.asks) return take_help(typed);
    plan.calls.push_back({std::string(magic.name), std::move(words)});
    return true;
  }

  bool take_sk(std::vector<std::string> words, bool asks) {
    if (words.empty() || asks) return take_help("");
    std::string verb = words[0];
    if (verb.back() == '?') {
      verb.pop_back();
      asks = true;
    }
    words.erase(words.begin());
    if (verb == "help") return take_help_on(words);
    const std::string typed = "%sk " + verb;
    if (find_magic(typed) == nullptr) {
      const std::string near = near_magic(typed);
      plan.problem = fmt::format(
          "%sk has no verb {}; {}", verb,
          near.empty() ? "%sk alone lists them all" : fmt::format("did you mean {}?", near));
      return true;
    }
    if (asks || (!words.empty() && (words[0] == "--help" || words[0] == "-h")))
      return take_help(typed);
    plan.calls.push_back({"sk " + verb, std::move(words)});
    return true;
  }

  bool take_help_on(const std::vector<std::string>& words) {
    if (words.empty()) return take_help("");
    std::string name = words.back();
    for (const std::string& typed : {name, "%sk " + name, "%" + name, "%%" + name})
      if (find_magic(typed) != nullptr) return take_help(typed);
    plan.problem = fmt::format("there is no magic {} to help with; %sk alone lists them all", name);
    return true;
  }

  bool take_help(std::string typed) {
    plan.calls.push_back({"sk help", {std::move(typed)}});
    return true;
  }

  bool take_slip(const std::string& typed, std::string_view rest) {
    const std::string near = near_magic(typed);
    if (near.empty()) return false;  // The language's, or unknown to it as well.
    plan.unsure = typed;
    plan.slip = fmt::format("there is no magic {}; did you mean {}{}{}?", typed, near,
                            rest.empty() ? "" : " ", rest);
    return false;
  }

  const std::string_view text_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::string magic_;  // That chose the ranks.
};

// A comment in which a traceback shows what was typed.
std::string commented(std::string_view text, const std::vector<size_t>& percent_signs) {
  std::string out(text);
  for (auto at = percent_signs.rbegin(); at != percent_signs.rend(); ++at) out.insert(*at, 1, '#');
  return out;
}

// Whether a cell does nothing but install packages: into the environment that all ranks share, so
// that several at once would get in each other's way.
bool only_installs(std::string_view text) {
  bool any = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const MagicLine magic = read_line(line);
    const auto installers = {"pip", "conda", "mamba", "micromamba"};
    if (magic.percents != 1 || magic.asks || magic.ends_in_name ||
        std::find(installers.begin(), installers.end(), magic.name) == installers.end())
      return false;
    any = true;
  }
  return any;
}

}  // namespace

CellPlan plan_cell(std::string_view text) {
  Reader reader(text);
  reader.read();
  if (reader.plan.ranks.empty() && reader.plan.problem.empty() &&
      only_installs(text.substr(reader.rest())))
    reader.plan.ranks = "0";
  const std::string_view rest = text.substr(reader.rest());
  const bool empty =
      std::all_of(rest.begin(), rest.end(), [](char c) { return is_space(c) || c == '\n'; });
  if (reader.percent_signs.empty())
    reader.plan.code = text;  // Nothing of ours: untouched, comments and all.
  else if (trim(rest).starts_with("%%"))
    reader.plan.code = rest;  // The language wants its cell magics at the top.
  else if (!empty)
    reader.plan.code = commented(text, reader.percent_signs);  // Line numbers stay.
  return std::move(reader.plan);
}

std::string without_magics(std::string_view text) {
  Reader reader(text);
  reader.read();
  std::string out(text);
  for (const size_t at : reader.percent_signs) out[at] = '#';
  return out;
}

std::string magic_at(std::string_view text, size_t cursor) {
  cursor = std::min(cursor, text.size());
  const size_t newline = text.substr(0, cursor).rfind('\n');
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  Reader reader(text.substr(0, begin));
  reader.read();
  if (reader.rest() < begin) return "";  // Behind code.
  const MagicLine magic = read_line(text.substr(begin, text.find('\n', begin) - begin));
  std::string typed = std::string(magic.percents, '%') + std::string(magic.name);
  if (magic.ends_in_name || find_magic(typed) == nullptr) return "";
  const std::vector<std::string> words = words_of(magic.rest);
  if (typed == "%sk" && !words.empty() && find_magic("%sk " + words[0]) != nullptr)
    return "%sk " + words[0];
  return typed;
}

MagicNames complete_magic(std::string_view text, size_t cursor) {
  MagicNames found;
  cursor = std::min(cursor, text.size());
  const size_t newline = text.substr(0, cursor).rfind('\n');
  const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
  const std::string_view before = text.substr(line, cursor - line);
  Reader reader(text.substr(0, line));
  reader.read();
  const size_t percent = before.find_first_not_of(" \t");
  if (reader.rest() < line || percent == std::string_view::npos || before[percent] != '%')
    return found;
  const std::string_view typed = before.substr(percent);
  found.start = line + percent;
  found.end = cursor;
  found.ours = typed.starts_with("%sk ");
  for (const MagicEntry& entry : magic_table())
    if (std::string_view(entry.name).starts_with(typed)) found.names.emplace_back(entry.name);
  return found;
}

}  // namespace sk::kernel
