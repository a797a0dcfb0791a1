// Helpers of the merge engine's tests: short records, and a reader who sees what a notebook keeps.
#ifndef SK_TESTS_UNIT_CONTROL_MERGE_TESTING_H_
#define SK_TESTS_UNIT_CONTROL_MERGE_TESTING_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/merge/engine.h"

namespace sk::control::testing_support {

inline Record out(std::string text) { return {0, StreamRecord{SK_STREAM_STDOUT, std::move(text)}}; }
inline Record err(std::string text) { return {0, StreamRecord{SK_STREAM_STDERR, std::move(text)}}; }
inline Record shown(uint32_t kind, std::string text, std::string id = "") {
  return {0, DisplayRecord{kind, {{"text/plain", std::move(text)}}, std::move(id), ""}};
}
inline Record clear(bool wait) {
  return {0, DisplayRecord{
                 wait ? uint32_t(SK_DISPLAY_CLEAR_WAIT) : uint32_t(SK_DISPLAY_CLEAR), {}, "", ""}};
}
inline Record failed(int64_t time_ns, const std::string& ename, std::string evalue,
                     uint32_t flags = 0) {
  return {time_ns, ErrorRecord{ename, std::move(evalue), {"at " + ename}, flags}};
}

// Text as a terminal shows it: \r writes over the line.
inline std::string seen(const std::string& text) {
  std::string all, line;
  size_t column = 0;
  for (char c : text) {
    if (c == '\r') column = 0;
    if (c == '\n') {
      all += line + c;
      line.clear();
      column = 0;
    }
    if (c == '\r' || c == '\n') continue;
    line.resize(std::max(line.size(), column + 1));
    line[column++] = c;
  }
  return all + line;
}

// What a notebook file holds after the events.
class Reader {
 public:
  void read(const std::vector<Event>& events) {
    for (const Event& event : events) {
      const bool is_display = event.kind == SK_EVENT_DISPLAY;
      if (is_display && event.display == SK_DISPLAY_CLEAR) {
        kept_.clear();
      } else if (is_display && event.display == SK_DISPLAY_CLEAR_WAIT) {
        clear_next_ = true;
      } else {
        if (std::exchange(clear_next_, false)) kept_.clear();
        append_event(kept_, event);
      }
      ++messages_;
    }
  }
  const std::vector<Event>& kept() const { return kept_; }
  size_t messages() const { return messages_; }

  // "out<text>" and the like, one after the other.
  std::string text() const {
    std::string all;
    for (const Event& event : kept_) {
      if (event.kind == SK_EVENT_STREAM)
        all += (event.stream == SK_STREAM_STDERR ? "err<" : "out<") + seen(event.text) + ">";
      if (event.kind == SK_EVENT_DISPLAY)
        all += (event.display == SK_DISPLAY_RESULT ? "result<" : "display<") +
               (event.mimes.empty() ? "" : event.mimes[0].data) + ">";
      if (event.kind == SK_EVENT_ERROR) {
        all += "error<" + event.ename + ": " + event.evalue + ">";
      }
    }
    return all;
  }

 private:
  std::vector<Event> kept_;
  bool clear_next_ = false;
  size_t messages_ = 0;
};

using Script = std::vector<std::pair<uint32_t, Record>>;

// The final text of a cell on `ranks` ranks whose records come in this order, without live views.
inline std::string merged(uint32_t ranks, const Script& script) {
  MergeEngine engine(all_ranks(ranks), MergeOptions{});
  for (const auto& [rank, record] : script) engine.add(rank, record, 0);
  Reader reader;
  reader.read(engine.finish({}, 0));
  return reader.text();
}

}  // namespace sk::control::testing_support

#endif  // SK_TESTS_UNIT_CONTROL_MERGE_TESTING_H_
