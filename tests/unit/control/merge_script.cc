#include "tests/unit/control/merge_script.h"

#include <sstream>
#include <stdexcept>

#include "tests/unit/control/merge_testing.h"

namespace sk::control::testing_support {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string unescaped(std::string text) {
  text = replaced(replaced(std::move(text), "\\n", "\n"), "\\r", "\r");
  return replaced(replaced(std::move(text), "\\b", "\b"), "\\e", "\x1b");
}

// The other way, so that a line of the file is a line.
std::string escaped(std::string text) {
  text = replaced(replaced(std::move(text), "\r", "\\r"), "\x1b", "\\e");
  return replaced(std::move(text), "\n", "\\n");
}

std::string rest(std::istringstream& in) {
  std::string text;
  std::getline(in >> std::ws, text);
  return unescaped(std::move(text));
}

// A text's lines, each behind a bar.
std::string block(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    std::string line = text.substr(begin, end - begin);
    const bool ended = line.ends_with('\n');
    if (ended) line.pop_back();
    out += "  | " + escaped(line) + (ended ? "\n" : "\\\n");
    begin = end;
  }
  return out;
}

std::string dump(const Event& event) {
  static const char* const kDisplays[] = {"",      "display",       "result", "update",
                                          "clear", "clear at next", "page"};
  std::string head = "error " + event.ename + ": " + event.evalue;
  std::string body;
  if (event.kind == SK_EVENT_STREAM) {
    head = event.stream == SK_STREAM_STDERR ? "stderr" : "stdout";
    body = block(event.text);
  } else if (event.kind == SK_EVENT_DISPLAY) {
    head = kDisplays[event.display];
    if (!event.display_id.empty()) head += " id " + event.display_id;
    for (const Mime& mime : event.mimes) body += "  " + mime.type + "\n" + block(mime.data);
  } else {
    for (const std::string& line : event.traceback) body += block(line + "\n");
  }
  return " " + head + (event.ranks.empty() ? "" : " of " + event.ranks) +
         (event.all_ranks ? ", all" : "") + "\n" + body;
}

std::string dump(const std::vector<Event>& events) {
  std::string out;
  for (const Event& event : events) out += dump(event);
  return out;
}

class Player {
 public:
  std::string play(const std::string& script) {
    std::istringstream lines(script);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream in(line);
      std::string first;
      if (in >> first && first[0] != '#') command(first, in);
    }
    out_ += "at the end\n" + dump(engine().finish({}, now_));
    return out_;
  }

 private:
  MergeEngine& engine() {
    if (!engine_) engine_ = std::make_unique<MergeEngine>(all_ranks(ranks_), options_);
    return *engine_;
  }

  void command(const std::string& first, std::istringstream& in) {
    ViewStyle& style = options_.style;
    uint64_t* const number = first == "lines"      ? &style.limits.lines
                             : first == "bytes"    ? &style.limits.bytes
                             : first == "displays" ? &style.limits.displays
                                                   : nullptr;
    if (number != nullptr) {
      in >> *number;
    } else if (first == "ranks") {
      in >> ranks_;
      style.world_size = ranks_;
    } else if (first == "tag") {
      std::string mode;
      in >> mode;
      style.host = "node7";
      style.tag = mode == "none"   ? SK_TAG_NONE
                  : mode == "spec" ? SK_TAG_SPEC
                  : mode == "host" ? SK_TAG_HOST
                                   : SK_TAG_SET;
    } else if (first == "at") {
      int64_t ms = 0;
      in >> ms;
      now_ = ms * 1'000'000;
      const std::vector<Event> due = engine().live(now_);
      if (!due.empty()) out_ += "at " + std::to_string(ms) + " ms\n" + dump(due);
    } else {
      std::string verb;
      in >> verb;
      const std::string text = rest(in);
      const RankSet ranks = parse_ranks(first == "*" ? "" : first, ranks_).value();
      for (uint32_t rank : ranks) put(rank, verb, replaced(text, "{rank}", std::to_string(rank)));
    }
  }

  void put(uint32_t rank, const std::string& verb, const std::string& text) {
    std::istringstream in(text);
    std::string name;
    int64_t number = 0;
    const auto add = [&](const Record& record) { engine().add(rank, record, now_); };
    if (verb == "end")
      engine().end_rank(rank);
    else if (verb == "out" || verb == "err")
      add(verb == "out" ? out(text) : err(text));
    else if (verb == "show" || verb == "result" || verb == "page")
      add(shown(verb == "show" ? 1 : verb == "result" ? 2 : 6, text));
    else if (verb == "id")
      in >> name, add(shown(1, rest(in), name));
    else if (verb == "update")
      in >> name, add(shown(3, rest(in), name));
    else if (verb == "image")
      add({0, DisplayRecord{1, {{"image/png", text}, {"text/plain", "<Figure>"}}, "", "{}"}});
    else if (verb == "figure")
      add({0, DisplayRecord{2, {{"image/png", text}, {"text/plain", "<Figure>"}}, "", "{}"}});
    else if (verb == "clear" || verb == "clearwait")
      add(clear(verb == "clearwait"));
    else if (verb == "error" || verb == "follows" || verb == "interrupted")
      in >> number >> name, add(failed(number * 1'000'000, name, rest(in),
                                       verb == "follows"       ? SK_ERROR_CONSEQUENCE
                                       : verb == "interrupted" ? SK_ERROR_INTERRUPT
                                                               : 0));
    else if (verb == "many") {
      in >> number;
      const std::string line = rest(in);
      for (int64_t i = 0; i < number; ++i)
        add(out(replaced(line, "{i}", std::to_string(i)) + "\n"));
    } else {
      throw std::invalid_argument("no such verb: " + verb);
    }
  }

  uint32_t ranks_ = 1;
  MergeOptions options_;
  std::unique_ptr<MergeEngine> engine_;
  int64_t now_ = 0;
  std::string out_;
};

}  // namespace

std::string play(const std::string& script) { return Player().play(script); }

}  // namespace sk::control::testing_support
