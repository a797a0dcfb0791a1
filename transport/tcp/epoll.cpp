#include "transport/tcp/epoll.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sk::tcp {
namespace {

constexpr uint32_t kWoken = UINT32_MAX - 1;
static_assert(kWoken != stream::Readiness::kJoiner);

}  // namespace

Result<std::unique_ptr<Epoll>> Epoll::make(uint32_t world_size) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return system_error("epoll_create1()");
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event entry = {.events = EPOLLIN, .data = {.u32 = kWoken}};
  if (event < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, event, &entry) != 0) {
    Status failed = system_error("eventfd()");
    close(epoll);
    if (event >= 0) close(event);
    return failed;
  }
  return std::unique_ptr<Epoll>(new Epoll(epoll, event, world_size));
}

Epoll::~Epoll() {
  close(event_);
  close(epoll_);
}

Status Epoll::add(uint32_t peer, int fd) {
  epoll_event entry = {.events = EPOLLIN, .data = {.u32 = peer}};
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &entry) != 0) return system_error("epoll_ctl()");
  fds_[peer] = fd;
  return {};
}

Status Epoll::add_joiner(int fd) {
  epoll_event entry = {.events = EPOLLIN, .data = {.u32 = kJoiner}};
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &entry) == 0 ? Status() : system_error("epoll_ctl()");
}

void Epoll::wait(int64_t timeout_ns, std::vector<uint32_t>& peers) {
  peers.clear();
  std::array<epoll_event, 64> events;
  const int64_t timeout_ms = (std::max<int64_t>(0, timeout_ns) + 999'999) / 1'000'000;
  const int count = epoll_wait(epoll_, events.data(), int(events.size()), int(timeout_ms));
  for (int i = 0; i < count; ++i) {
    const uint32_t peer = events[size_t(i)].data.u32;
    uint64_t rung = 0;
    // A mere look leaves it to who sleeps.
    if (peer == kWoken && timeout_ns <= 0) continue;
    if (peer != kWoken) {
      peers.push_back(peer);
    } else if (read(event_, &rung, sizeof(rung)) < 0) {
      continue;  // Another thread that waits has read it.
    }
  }
}

void Epoll::wants_room(uint32_t peer, bool wants) {
  if (fds_[peer] < 0) return;
  epoll_event entry = {.events = EPOLLIN | (wants ? uint32_t{EPOLLOUT} : 0u),
                       .data = {.u32 = peer}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fds_[peer], &entry);
}

void Epoll::forget(uint32_t peer) {
  if (fds_[peer] >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, std::exchange(fds_[peer], -1), nullptr);
}

void Epoll::wake() {
  const uint64_t one = 1;
  if (write(event_, &one, sizeof(one)) < 0) return;  // It is rung already.
}

int64_t Epoll::now_ns() const {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace sk::tcp
