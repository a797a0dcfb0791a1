#include "transport/shm/watch.h"

#include <poll.h>

#include <cerrno>
#include <utility>

#include "transport/shm/socket.h"

namespace sk::shm {

Result<Watch> Watch::make(uint32_t watcher, uint32_t world_size) {
  Fd shared(epoll_create1(EPOLL_CLOEXEC));
  if (!shared) return socket_error("cannot watch the peers");
  return Watch(std::move(shared), watcher, Fd(), world_size);
}

Watch::Watch(Fd shared, uint32_t watcher, Fd of_watcher, uint32_t world_size)
    : shared_(std::move(shared)),
      of_watcher_(std::move(of_watcher)),
      watcher_(watcher),
      events_(2 * size_t{world_size}) {
  ended_.reserve(events_.size() + 1);
}

Status Watch::add(uint32_t rank, Fd fd) {
  epoll_event event = {.events = EPOLLIN, .data = {.u32 = rank}};
  if (epoll_ctl(shared_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0)
    return system_error(fmt::format("cannot watch rank {}", rank));
  held_.push_back(std::move(fd));
  return {};
}

void Watch::follow(uint32_t watcher, Fd of_watcher) {
  watcher_ = watcher;
  of_watcher_ = std::move(of_watcher);
}

std::span<const uint32_t> Watch::ended() {
  ended_.clear();
  if (!looks()) return ended_;
  // All of them each time, so that the queue keeps its order: who is told stays in it.
  const int count = epoll_wait(shared_.get(), events_.data(), int(events_.size()), 0);
  for (int i = 0; i < count; ++i) ended_.push_back(events_[size_t(i)].data.u32);
  pollfd watcher = {.fd = of_watcher_.get(), .events = POLLIN, .revents = 0};
  if (of_watcher_ && poll(&watcher, 1, 0) > 0) ended_.push_back(watcher_);
  return ended_;
}

}  // namespace sk::shm
