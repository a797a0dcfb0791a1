#include "lib/control/host/shared_watch.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace sk::control {
namespace {

enum Source : uint32_t { kLink, kWakeup, kCapture };

Status watch(const local::Fd& epoll, int fd, uint32_t events, Source source) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = source;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_error("epoll_ctl");
}

Result<local::Fd> make_epoll() {
  local::Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.open()) return system_error("epoll_create1");
  return epoll;
}

}  // namespace

Result<SharedWatch> SharedWatch::make(int link, int wakeup, int stdout_capture,
                                      int stderr_capture) {
  SharedWatch made;
  SK_ASSIGN_OR_RETURN(made.main_, make_epoll());
  SK_ASSIGN_OR_RETURN(made.io_, make_epoll());
  made.timer_ = local::Fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!made.timer_.open()) return error(SK_ERR_SYSTEM, "timerfd_create: {}", std::strerror(errno));
  // In this order: of exclusive waiters the kernel wakes the first one.
  SK_RETURN_IF_ERROR(watch(made.main_, link, EPOLLIN | EPOLLEXCLUSIVE, kLink));
  SK_RETURN_IF_ERROR(watch(made.io_, link, EPOLLIN | EPOLLEXCLUSIVE, kLink));
  SK_RETURN_IF_ERROR(watch(made.main_, wakeup, EPOLLIN, kWakeup));
  for (const int capture : {stdout_capture, stderr_capture})
    if (capture >= 0) SK_RETURN_IF_ERROR(watch(made.main_, capture, EPOLLIN | EPOLLET, kCapture));
  return made;
}

SharedWatch::News SharedWatch::wait(int timeout_ms) {
  epoll_event events[4];
  const int count = epoll_wait(main_.get(), events, 4, timeout_ms);
  News news;
  news.signal = count < 0;
  for (int i = 0; i < count; ++i) {
    news.wakeup = news.wakeup || events[i].data.u32 == kWakeup;
    news.capture = news.capture || events[i].data.u32 == kCapture;
  }
  return news;
}

void SharedWatch::leave(int64_t nanoseconds) {
  itimerspec spec{};
  spec.it_value.tv_sec = nanoseconds / 1'000'000'000;
  spec.it_value.tv_nsec = nanoseconds % 1'000'000'000;
  timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void SharedWatch::come_back() {
  const itimerspec never{};
  timerfd_settime(timer_.get(), 0, &never, nullptr);
}

void SharedWatch::clear_timer() {
  uint64_t times = 0;
  (void)!read(timer_.get(), &times, sizeof times);
}

}  // namespace sk::control
