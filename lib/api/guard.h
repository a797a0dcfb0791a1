// How every function of the C ABI ends: a Status, or an exception of the standard library, becomes
// a code and this thread's sentence.
#ifndef SK_LIB_API_GUARD_H_
#define SK_LIB_API_GUARD_H_

#include <exception>
#include <new>
#include <utility>

#include "lib/base/status.h"

namespace sk::api {

// Keeps the sentence for sk_last_error(), if there is one, and returns the code.
sk_status report(const Status& status) noexcept;

// Runs `body`, which returns a Status.
template <typename Body>
sk_status guard(Body&& body) noexcept {
  try {
    return report(std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return report(Status(SK_ERR_NO_MEMORY, "memory ran out"));
  } catch (const std::exception& thrown) {
    return report(Status(SK_ERR_INTERNAL, thrown.what()));
  }
}

}  // namespace sk::api

#endif  // SK_LIB_API_GUARD_H_
