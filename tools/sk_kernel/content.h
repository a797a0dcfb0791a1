// The content of a message, read and written: fields may be absent or of any type.
#ifndef SK_TOOLS_SK_KERNEL_CONTENT_H_
#define SK_TOOLS_SK_KERNEL_CONTENT_H_

#include <string>
#include <string_view>
#include <utility>

#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

inline std::string text_of(const Json& content, const char* name) {
  const auto found = content.find(name);
  return found != content.end() && found->is_string() ? found->get<std::string>() : "";
}

inline bool flag_of(const Json& content, const char* name, bool otherwise) {
  const auto found = content.find(name);
  return found != content.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

inline Json error_content(const std::string& ename, const std::string& evalue, Json traceback) {
  return {{"ename", ename}, {"evalue", evalue}, {"traceback", std::move(traceback)}};
}

// What libsk says of a call, as said of the verb of %sk that was typed: callers of C functions are
// told the function's name first.
inline std::string said_of(const std::string& verb, std::string why) {
  if (why.starts_with("sk_")) why.erase(0, why.find(": ") + 2);
  for (const std::string_view part : {std::string_view("rank set: "), std::string_view("revive: ")})
    if (why.starts_with(part)) why.erase(0, part.size());
  return "%" + verb + ": " + why;
}

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_CONTENT_H_
