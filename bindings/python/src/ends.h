// Handles whose end the library refuses because this thread is inside a tile: nobody may wait
// there, but Python lets go of objects wherever its collector happens to run. Such an end is kept,
// and tried again when a call begins, and before a context's.
#ifndef LIBSK_PYTHON_ENDS_H_
#define LIBSK_PYTHON_ENDS_H_

#include <functional>
#include <utility>

#include "sk/base.h"

namespace sk::python {

// All of it is touched with the interpreter's lock held only, which an end may let go of meanwhile.
class Ends {
 public:
  using End = std::function<sk_status()>;

  // `end`, now, or where it is refused later, again and again. What it said now.
  template <typename Now>
  static sk_status now_or_later(Now end) {
    const sk_status status = end();
    if (is_refused(status)) keep(std::move(end));
    return status;
  }

  // Inside a tile a handle that is in use may be said to have run out of time: there is none.
  static bool is_refused(sk_status status);
  static void keep(End end);

  static void retry() {
    if (some_) retry_all();
  }

 private:
  static void retry_all();

  static inline bool some_ = false;
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_ENDS_H_
