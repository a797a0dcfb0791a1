// What was run in this session, for history requests.
#ifndef SK_TOOLS_SK_KERNEL_HISTORY_H_
#define SK_TOOLS_SK_KERNEL_HISTORY_H_

#include <string>
#include <vector>

#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

class History {
 public:
  void add(int64_t line, std::string code) { lines_.push_back({line, std::move(code), ""}); }
  // The result's text of the newest line; the code of that, or null if it is another one.
  const std::string* set_output(int64_t line, std::string text);

  // The content of a history_reply: tail, range or search.
  Json answer(const Json& request) const;

 private:
  struct Line {
    int64_t line;
    std::string code;
    std::string output;
  };
  std::vector<const Line*> choose(const Json& request) const;

  std::vector<Line> lines_;
};

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_HISTORY_H_
