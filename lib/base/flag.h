// What a variable of the environment says that is 0 or 1.
#ifndef SK_LIB_BASE_FLAG_H_
#define SK_LIB_BASE_FLAG_H_

#include <string_view>

#include "lib/base/status.h"

namespace sk {

inline Result<bool> parse_flag(std::string_view name, std::string_view text) {
  if (text == "0" || text == "1") return text == "1";
  return error(SK_ERR_INVALID_ARGUMENT, "{} is \"{}\": it must be 0 or 1", name,
               text.substr(0, 64));
}

}  // namespace sk

#endif  // SK_LIB_BASE_FLAG_H_
