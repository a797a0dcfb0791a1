// The caller's own look at a wait: a function that the thread of a waiting call calls now and then.
#ifndef SK_LIB_BASE_WAITING_H_
#define SK_LIB_BASE_WAITING_H_

#include <unistd.h>

#include "lib/base/inside_callback.h"
#include "lib/base/status.h"

namespace sk {

struct Waiting {
  void (*function)(void* user) = nullptr;
  void* user = nullptr;

  // SK_ERR_FORKED in a child that the function forked and that has come back from it: the call is
  // its parent's, and so are the memory and the threads of it, which the child is to leave alone.
  Status look() const {
    if (function == nullptr) return {};
    const InsideCallback inside("config.waiting");
    const pid_t process = getpid();
    bool threw = false;
    try {
      function(user);
    } catch (...) {
      threw = true;
    }
    if (getpid() != process) {
      return error(
          SK_ERR_FORKED,
          "config.waiting forked, and its child came back from it: the call is the parent's");
    }
    if (threw) return error(SK_ERR_ABORTED, "config.waiting threw an exception");
    return {};
  }
};

}  // namespace sk

#endif  // SK_LIB_BASE_WAITING_H_
