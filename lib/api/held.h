// What this thread itself has of the objects behind handles: whoever would wait until an object is
// out of use must not wait for a call that is its own, from whose callback it was called.
#ifndef SK_LIB_API_HELD_H_
#define SK_LIB_API_HELD_H_

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sk::api {

// Not 0, and no other's of the process's threads that are alive. Asked by every call, so without a
// variable of the thread's: of a library that is loaded late that is a call of its own.
inline uintptr_t this_thread() {
#if __has_builtin(__builtin_thread_pointer)
  return reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
#else
  return uintptr_t(pthread_self());
#endif
}

// The objects that the thread keeps from going: each by where it is and which it is there. They are
// added and dropped on the same thread, mostly the last one first.
class PinnedHere {
 public:
  static void add(const void* place, uint64_t which) {
    PinnedHere& all = here();
    if (all.count_ < kMax) [[likely]]
      all.pins_[all.count_++] = {place, which};
    else
      ++all.more_;
  }
  static void drop(const void* place, uint64_t which) {
    PinnedHere& all = here();
    size_t i = all.count_;
    while (i > 0 && !all.pins_[i - 1].is(place, which)) --i;
    if (i > 0) [[likely]]
      all.pins_[i - 1] = all.pins_[--all.count_];
    else
      --all.more_;
  }
  static bool has(const void* place, uint64_t which) {
    const PinnedHere& all = here();
    size_t i = all.count_;
    while (i > 0 && !all.pins_[i - 1].is(place, which)) --i;
    return i > 0;
  }
  // Else there are more than are known, and any may be.
  static bool knows_all() { return here().more_ == 0; }
  // Whether one more call fits that a function of a call's calls.
  static bool has_room() { return here().count_ + kOfACall <= kMax; }

 private:
  struct Pin {
    const void* place;
    uint64_t which;
    bool is(const void* at, uint64_t one) const { return place == at && which == one; }
  };
  // Of a call no more than so many, and of each that a callback makes.
  static constexpr size_t kOfACall = 12, kMax = 60;

  static PinnedHere& here() {
    static constinit thread_local PinnedHere all;
    return all;
  }

  size_t count_ = 0, more_ = 0;
  std::array<Pin, kMax> pins_{};
};

}  // namespace sk::api

#endif  // SK_LIB_API_HELD_H_
