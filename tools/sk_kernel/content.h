// The content of a message, read and written: fields may be absent or of any type.
#ifndef SK_TOOLS_SK_KERNEL_CONTENT_H_
#define SK_TOOLS_SK_KERNEL_CONTENT_H_

#include <string>
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

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_CONTENT_H_
