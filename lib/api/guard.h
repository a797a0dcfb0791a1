// How every function of the C ABI ends: a Status, or an exception of the standard library, becomes
// a code and this thread's sentence.
#ifndef SK_LIB_API_GUARD_H_
#define SK_LIB_API_GUARD_H_

#include <cstdint>
#include <string>
#include <utility>

#include "lib/base/float_mode.h"
#include "lib/base/status.h"

namespace sk::api {

// Keeps the sentence for sk_last_error(), if there is one, and returns the code.
sk_status report(const Status& status) noexcept;

// SK_ERR_BUSY inside a user's tile, for what ends all that the call of that tile needs.
Status check_outside_tiles();

// Runs `body`, which returns a Status, in libsk's own floating-point mode.
template <typename Body>
sk_status guard(Body&& body) noexcept {
  const FloatMode mode;
  return report(caught(std::forward<Body>(body)));
}

// SK_ERR_FORKED in a child of a process that had called sk_init() before it forked, until the child
// has called it, too.
Status check_not_forked();
// The same for good: such a child meets nobody.
Status check_may_connect();
// Lets later children be recognised. Called by sk_init(); in such a child it calls `forget` first,
// once, by which nothing that was inherited is known any more.
Status watch_forks(void (*forget)());

// guard(), for whatever does not survive a fork.
template <typename Body>
sk_status guarded(Body&& body) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(check_not_forked());
    return body();
  });
}

template <typename T>
Status require(const char* name, const T* pointer) {
  if (pointer != nullptr) [[likely]]
    return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{} is null", name);
}

// A text that comes with its length: one that cannot be is a mistake, and would be read to the end
// of all memory.
inline constexpr uint64_t kTextBytesMax = uint64_t(1) << 32;
Status check_text(const char* name, const char* text, uint64_t bytes);

// The two-call pattern: copies `text` and its NUL as far as it fits.
Status copy_out(const std::string& text, char* buffer, size_t capacity, size_t* out_size);

}  // namespace sk::api

#endif  // SK_LIB_API_GUARD_H_
