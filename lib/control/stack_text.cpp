#include "lib/control/stack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr std::string_view kCellFile = "File \"<ipython-input-";
constexpr std::string_view kRankProgram = "/libsk/kernel/";
constexpr std::string_view kShell = "/IPython/core/";
constexpr std::string_view kInterpreter = "File \"<frozen ";  // What it does for an import.

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// `File "<ipython-input-4-1a2b>", line 2 in f` -> `cell 4, line 2 in f`; others as they are.
std::string name_cell(const std::string& line) {
  const size_t at = line.find(kCellFile);
  if (at == std::string::npos) return line;
  const size_t number = at + kCellFile.size();
  const size_t dash = line.find('-', number);
  const size_t quote = line.find('"', number);
  if (dash == std::string::npos || quote == std::string::npos || dash > quote) return line;
  return line.substr(0, at) + "cell " + line.substr(number, dash - number) + line.substr(quote + 1);
}

std::string indented(const std::string& text) {
  std::string out;
  for (const std::string& line : lines_of(text)) out += "    " + line + "\n";
  return out;
}

}  // namespace

std::vector<size_t> telling_frames(const std::vector<NativeFrame>& frames, bool is_whole) {
  size_t count = frames.size();
  const auto ends_in = [&](FrameOf of) { return count > 0 && frames[count - 1].of == of; };
  if (is_whole) {
    while (ends_in(FrameOf::kInterpreter)) --count;
    while (ends_in(FrameOf::kCLibrary)) --count;
  }
  std::vector<size_t> kept;
  bool in_library = false;  // What libsk calls in the C library is a step of it, too.
  for (size_t i = count; i-- > 0;) {
    const NativeFrame& frame = frames[i];
    if (frame.of == FrameOf::kLibrary) {
      if (!in_library) kept.push_back(i);
      in_library = true;
    } else if (frame.of == FrameOf::kCLibrary) {
      if (!in_library && frame.named) kept.push_back(i);
    } else {
      if (frame.of == FrameOf::kOther) kept.push_back(i);
      in_library = false;
    }
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

std::string clean_language_stack(const std::string& text) {
  std::vector<std::string> frames;
  size_t through_cell = 0, above_shell = std::string::npos;
  const auto holds = [](const std::string& line, std::string_view part) {
    return line.find(part) != std::string::npos;
  };
  for (const std::string& line : lines_of(utf8_clean(text))) {
    if (!line.starts_with("  ")) continue;  // The heading names a thread by its number.
    if (holds(line, kRankProgram) || holds(line, kShell))
      above_shell = std::min(above_shell, frames.size());
    frames.push_back(line.substr(2));
    if (holds(line, kCellFile)) through_cell = frames.size();
  }
  // Below the cell, or where it has ended below what it left, are the shell and the rank program.
  const std::string innermost = frames.empty() ? "" : frames.front();
  frames.resize(through_cell > 0 ? through_cell : std::min(above_shell, frames.size()));
  std::erase_if(frames, [&](const std::string& line) {
    return holds(line, kRankProgram) || holds(line, kInterpreter);
  });
  if (frames.empty() && !innermost.empty()) frames.push_back(innermost);
  std::string out;
  for (const std::string& line : frames) out += name_cell(line) + "\n";
  return out;
}

std::string innermost(const RankStack& stack) {
  // The first that has a name: below it are a library's inner steps. Code that a compiler made at
  // run time has none, and lies elsewhere on each rank.
  std::string native;
  for (const std::string& frame : lines_of(stack.native))
    if (native.empty() || native.starts_with('+')) native = frame;
  const std::string language = stack.language.substr(0, stack.language.find('\n'));
  std::string out;
  if (native.starts_with("0x")) {
    out = "compiled code";
  } else if (!native.empty()) {
    const size_t space = native.find(" (");
    out = space == std::string::npos ? native
                                     : "`" + native.substr(0, space) + "`" + native.substr(space);
  }
  if (!language.empty())
    out += (out.empty() ? "" : ", ") + (out.empty() ? language : "at " + language);
  return out;
}

std::string merge_stacks(const std::map<uint32_t, RankStack>& stacks, const RankSet& silent) {
  std::vector<std::pair<RankSet, RankStack>> groups;
  for (const auto& [rank, stack] : stacks) {
    auto group = groups.begin();
    while (group != groups.end() && !(group->second == stack)) ++group;
    if (group == groups.end()) group = groups.insert(groups.end(), {RankSet(), stack});
    group->first.push_back(rank);
  }
  std::string out;
  for (const auto& [ranks, stack] : groups) {
    out += fmt::format("[{}]{}\n", name_ranks(ranks), stack.idle ? " waits for a cell" : "");
    if (!stack.language.empty()) out += indented(stack.language);
    if (!stack.native.empty()) out += "  native:\n" + indented(stack.native);
  }
  if (!silent.empty())
    out +=
        fmt::format("[{}] gave no stack in time: the process does not run (stopped, or no CPU)\n",
                    name_ranks(silent));
  return out;
}

}  // namespace sk::control
