#include "transport/local/poller.h"

#include <sys/epoll.h>

#include <algorithm>

namespace sk::local {

Result<Poller> Poller::create() {
  Poller poller;
  poller.epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!poller.epoll_.open()) return system_error("epoll_create1");
  return poller;
}

Status Poller::add(int fd, uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return system_error("epoll_ctl");
  return {};
}

Status Poller::watch(int fd, uint64_t token, bool readable, bool writable) {
  epoll_event event{};
  event.events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);
  event.data.u64 = token;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) return system_error("epoll_ctl");
  return {};
}

void Poller::remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::vector<Poller::Ready> Poller::wait(int64_t timeout_ms) {
  epoll_event events[64];
  const int n = epoll_wait(epoll_.get(), events, 64,
                           static_cast<int>(std::clamp<int64_t>(timeout_ms, 0, 1'000'000'000)));
  std::vector<Ready> ready;
  for (int i = 0; i < n; ++i)
    ready.push_back({events[i].data.u64, (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0,
                     (events[i].events & EPOLLOUT) != 0});
  return ready;
}

}  // namespace sk::local
