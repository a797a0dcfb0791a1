#include "lib/base/fork_lock.h"

#include <pthread.h>

namespace sk {
namespace {

// Grows while the library is loaded, by the one thread that loads it.
constinit ForkLock* first = nullptr;
constinit ForkLock** end = &first;

}  // namespace

ForkLock::ForkLock(void (*in_child)()) noexcept : in_child_(in_child) {
  // Without memory for it the library can be loaded, and forks take their chances.
  if (first == nullptr) (void)pthread_atfork(&before_fork, &in_parent, &ForkLock::in_child);
  *end = this;
  end = &next_;
}

void ForkLock::before_fork() {
  for (ForkLock* each = first; each != nullptr; each = each->next_) each->lock();
}

void ForkLock::in_parent() {
  for (ForkLock* each = first; each != nullptr; each = each->next_) each->unlock();
}

void ForkLock::in_child() {
  for (ForkLock* each = first; each != nullptr; each = each->next_) {
    if (each->in_child_ != nullptr) each->in_child_();
    each->unlock();
  }
}

}  // namespace sk
