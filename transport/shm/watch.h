// Which of the other ranks' processes have ended.
//
// One rank of a host, its watcher, holds a descriptor for each of the others' processes: a pidfd,
// or where PIDs cannot be seen the connection to it, which hangs up. They are in one epoll that all
// ranks share, so whoever waits looks, and nobody else needs those descriptors; its queue is in the
// order of what happened, also while nobody looks, so it says who died first. The watcher's own
// process is watched by each of the others. When it frees its endpoint, another takes its place.
#ifndef SK_TRANSPORT_SHM_WATCH_H_
#define SK_TRANSPORT_SHM_WATCH_H_

#include <sys/epoll.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/status.h"
#include "transport/shm/fd.h"

namespace sk::shm {

class Watch {
 public:
  Watch() = default;  // Of ranks of one process: nothing to look after.

  // The watcher's. `shared` is to be given to the others.
  static Result<Watch> make(uint32_t watcher, uint32_t world_size);
  // Another's: the watcher's epoll, and what tells of the watcher's end.
  Watch(Fd shared, uint32_t watcher, Fd of_watcher, uint32_t world_size);

  bool looks() const { return bool(shared_); }
  int shared() const { return shared_.get(); }

  // The watcher's and the deputy's; keeps `fd`.
  Status add(uint32_t rank, Fd fd);
  // Where the watcher has changed.
  void follow(uint32_t watcher, Fd of_watcher);
  uint32_t watcher() const { return watcher_; }

  // Those that have ended, in that order, some of them twice; the watcher's own end is last, for
  // what it holds goes with it.
  std::span<const uint32_t> ended();

 private:
  Fd shared_;
  Fd of_watcher_;
  uint32_t watcher_ = 0;
  std::vector<Fd> held_;
  std::vector<epoll_event> events_;
  std::vector<uint32_t> ended_;
};

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_WATCH_H_
