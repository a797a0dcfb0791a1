#include "tools/sk_kernel/history.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace sk::kernel {
namespace {

int64_t integer(const Json& request, const char* name, int64_t otherwise) {
  const auto found = request.find(name);
  return found != request.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

bool flag(const Json& request, const char* name) {
  const auto found = request.find(name);
  return found != request.end() && found->is_boolean() && found->get<bool>();
}

}  // namespace

const std::string* History::set_output(int64_t line, std::string text) {
  if (lines_.empty() || lines_.back().line != line) return nullptr;
  lines_.back().output = std::move(text);
  return &lines_.back().code;
}

std::vector<const History::Line*> History::choose(const Json& request) const {
  const std::string kind = request.value("hist_access_type", "tail");
  std::vector<const Line*> chosen;
  if (kind == "range") {
    // Session 0 is this one; others were never ours.
    if (integer(request, "session", 0) != 0) return chosen;
    const int64_t start = integer(request, "start", 0), stop = integer(request, "stop", INT64_MAX);
    for (const Line& line : lines_)
      if (line.line >= start && line.line < stop) chosen.push_back(&line);
    return chosen;
  }
  const std::string pattern = kind == "search" ? request.value("pattern", "*") : "*";
  std::set<std::string> seen;
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    if (fnmatch(pattern.c_str(), line->code.c_str(), 0) != 0) continue;
    if (flag(request, "unique") && !seen.insert(line->code).second) continue;
    chosen.push_back(&*line);
  }
  const auto count = static_cast<size_t>(std::max<int64_t>(0, integer(request, "n", INT32_MAX)));
  if (chosen.size() > count) chosen.resize(count);
  std::reverse(chosen.begin(), chosen.end());
  return chosen;
}

Json History::answer(const Json& request) const {
  const bool output = flag(request, "output");
  Json history = Json::array();
  for (const Line* line : choose(request)) {
    Json entry = Json::array({1, line->line});
    if (output) {
      const Json text = line->output.empty() ? Json(nullptr) : Json(line->output);
      entry.push_back(Json::array({line->code, text}));
    } else {
      entry.push_back(line->code);
    }
    history.push_back(std::move(entry));
  }
  return {{"status", "ok"}, {"history", std::move(history)}};
}

}  // namespace sk::kernel
