// What this thread itself has of the objects behind handles: whoever would wait until an object is
// out of use must not wait for a call that is its own, from whose callback it was called.
#ifndef SK_LIB_API_HELD_H_
#define SK_LIB_API_HELD_H_

#include <utility>

namespace sk::api {

// A link of a list that is the thread's: it ends on the thread on which it was made, and may be
// moved there. `place` is where the object is; null: moved away.
class Held {
 public:
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-pointer"  // It is gone from the list when it ends.
#endif
  explicit Held(const void* place) : place_(place), next_(first_) { first_ = this; }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  Held(Held&& other) noexcept : place_(std::exchange(other.place_, nullptr)), next_(other.next_) {
    if (place_ != nullptr) *link_to(other) = this;
  }
  Held& operator=(Held&&) = delete;
  ~Held() {
    if (place_ != nullptr) *link_to(*this) = next_;
  }

  // Whether this thread has a call on it, or keeps it from going.
  static bool any(const void* place) {
    const Held* each = first_;
    while (each != nullptr && each->place_ != place) each = each->next_;
    return each != nullptr;
  }

 private:
  // Most are the last one made.
  static Held** link_to(const Held& held) {
    Held** link = &first_;
    while (*link != &held) link = &(*link)->next_;
    return link;
  }

  const void* place_;
  Held* next_;
  // Every call reads it: eight bytes, for which a library that is loaded late finds room, too.
  [[gnu::tls_model("initial-exec")]] static inline constinit thread_local Held* first_ = nullptr;
};

}  // namespace sk::api

#endif  // SK_LIB_API_HELD_H_
