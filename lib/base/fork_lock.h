// A lock that forks wait for: whatever thread forks, its child finds the lock free, and what it
// guards whole.
#ifndef SK_LIB_BASE_FORK_LOCK_H_
#define SK_LIB_BASE_FORK_LOCK_H_

#include <mutex>

namespace sk {

// Of static storage, outside of functions, so that forks know of it as soon as the library is
// loaded: one during a first call would find that half done. It goes with the library.
//
// A fork takes all of them, those of one file in the order in which they stand there; so must who
// takes several. What it guards may be made on first use (a static variable of a function), where
// every use has the lock: the guards of such variables are locks too, which no child finds free.
class ForkLock {
 public:
  // `in_child` runs in each forked child, which has the lock: what the child is to forget.
  explicit ForkLock(void (*in_child)() = nullptr) noexcept;
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static void before_fork();
  static void in_parent();
  static void in_child();

  std::mutex mutex_;
  void (*const in_child_)();
  ForkLock* next_ = nullptr;
};

}  // namespace sk

#endif  // SK_LIB_BASE_FORK_LOCK_H_
