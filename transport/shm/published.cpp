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

std::shared_ptr<SharedMemory> Published::share_control(const Secret& leader_secret,
                                                       const std::shared_ptr<SharedMemory>& mine) {
  const std::lock_guard lock(published_lock);
  std::erase_if(published(), [](const auto& entry) {  // Of communicators that are gone.
    return entry.second.control.expired() && entry.second.segment.expired();
  });
  Entry& entry = published()[leader_secret];
  std::shared_ptr<SharedMemory> first = entry.control.lock();
  if (first != nullptr && entry.process == getpid()) return first;
  entry = {{}, mine, getpid()};
  return mine;
}

Mappings Published::find(const Secret& secret) {
  const std::lock_guard lock(published_lock);
  const auto found = published().find(secret);
  if (found == published().end() || found->second.process != getpid()) return {};
  return {found->second.segment.lock(), found->second.control.lock()};
}

}  // namespace sk::shm
