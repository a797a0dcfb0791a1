// Why something has no term: a sentence, to which others add where.
#ifndef SK_LIB_EFFECT_NO_H_
#define SK_LIB_EFFECT_NO_H_

#include <utility>

#include "lib/base/status.h"

namespace sk::effect {

template <typename... Args>
Status no(fmt::format_string<Args...> format, Args&&... args) {
  return error(SK_ERR_INVALID_ARGUMENT, format, std::forward<Args>(args)...);
}

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_NO_H_
