#include "transport/shm/published.h"

#include <unistd.h>

#include <map>
#include <mutex>

#include "lib/base/fork_lock.h"
#include "lib/base/lasting.h"

namespace sk::shm {
namespace {

struct Entry {
  std::weak_ptr<SharedMemory> segment, control;
  pid_t process;
};
ForkLock published_lock;
// With the lock held only.
std::map<Secret, Entry>& published() {
  static Lasting<std::map<Secret, Entry>> entries;
  return *entries;
}

}  // namespace

Published::Published(const Secret& secret, const Mappings& mappings) : secret_(secret) {
  const std::lock_guard lock(published_lock);
  published()[secret] = {mappings.segment, mappings.control, getpid()};
}

Published::~Published() {
  const std::lock_guard lock(published_lock);
  published().erase(secret_);
}

Mappings Published::find(const Secret& secret) {
  const std::lock_guard lock(published_lock);
  const auto found = published().find(secret);
  if (found == published().end() || found->second.process != getpid()) return {};
  return {found->second.segment.lock(), found->second.control.lock()};
}

}  // namespace sk::shm
