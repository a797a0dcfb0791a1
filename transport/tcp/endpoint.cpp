#include "transport/tcp/endpoint.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace sk::tcp {
namespace {

constexpr std::chrono::milliseconds kLook{1};  // How often it looks whether somebody drives.
constexpr int64_t kSleepNs = 1'000'000'000;    // What could move ends it sooner.

}  // namespace

TcpEndpoint::TcpEndpoint(std::unique_ptr<Endpoint> local, std::vector<stream::Remote> remotes,
                         std::unique_ptr<stream::Readiness> readiness,
                         std::unique_ptr<stream::Joiner> joiner)
    : HostsEndpoint(std::move(local), std::move(remotes), std::move(readiness), std::move(joiner)) {
}

// Signals are the program's own threads' matter.
Status TcpEndpoint::start() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status started = caught([&] {
    thread_ = std::make_unique<std::thread>([this] { drive_while_nobody_does(); });
    return Status();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

TcpEndpoint::~TcpEndpoint() {
  if (forked()) {
    // The child has no such thread to wait for.
    [[maybe_unused]] const std::thread* const left_alone = thread_.release();
    return;
  }
  leave();
  if (thread_ == nullptr) return;
  {
    const std::lock_guard lock(stop_mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  readiness().wake();
  thread_->join();
}

bool TcpEndpoint::stopping_within_a_look() {
  std::unique_lock lock(stop_mutex_);
  return stop_changed_.wait_for(lock, kLook, [&] { return stop_; });
}

// True: at once again. Where memory runs out it is tried again a little later.
bool TcpEndpoint::drive_once() {
  bool more = false;
  const Status driven = caught([&] {
    more = drive();
    return Status();
  });
  return more && driven.ok();
}

// Who waits drives: while that changes, this only looks now and then.
void TcpEndpoint::drive_while_nobody_does() {
  std::vector<uint32_t> ready;
  uint64_t seen = drives();
  for (;;) {
    const uint64_t now = drives();
    if (now == seen) {
      if (!drive_once()) readiness().wait(rest_ns(kSleepNs), ready);
    }
    if (now != seen || drives() != seen) {
      if (stopping_within_a_look()) return;
      seen = now;
      continue;
    }
    const std::lock_guard lock(stop_mutex_);
    if (stop_) return;
  }
}

}  // namespace sk::tcp
