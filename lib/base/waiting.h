// The caller's own look at a wait: a function that the thread of a waiting call calls now and then.
#ifndef SK_LIB_BASE_WAITING_H_
#define SK_LIB_BASE_WAITING_H_

#include "lib/base/inside_callback.h"
#include "lib/base/status.h"

namespace sk {

struct Waiting {
  void (*function)(void* user) = nullptr;
  void* user = nullptr;

  Status look() const {
    if (function == nullptr) return {};
    const InsideCallback inside("config.waiting");
    try {
      function(user);
    } catch (...) {
      return error(SK_ERR_ABORTED, "config.waiting threw an exception");
    }
    return {};
  }
};

}  // namespace sk

#endif  // SK_LIB_BASE_WAITING_H_
