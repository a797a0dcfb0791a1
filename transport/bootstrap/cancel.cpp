#include "transport/bootstrap/cancel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sk {
namespace {

Status cancelled_by_caller() {
  return error(SK_ERR_ABORTED, "the creation of the communicator was cancelled");
}

}  // namespace

Result<std::shared_ptr<Cancel>> Cancel::make(int fd) {
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return system_error("eventfd");
  return std::shared_ptr<Cancel>(new Cancel(event, fd));
}

const Cancel& Cancel::never() {
  static const auto* const instance =
      new Cancel(-1, -1);  // Threads may outlive static destruction.
  return *instance;
}

Cancel::~Cancel() {
  if (event_ >= 0) close(event_);
}

void Cancel::request(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (!why_.ok()) return;
  why_ = why.clone();
  const uint64_t one = 1;
  // An eventfd takes the first count always.
  [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof(one));
}

Status Cancel::status() const {
  {
    const std::lock_guard lock(mutex_);
    if (!why_.ok()) return why_.clone();
  }
  pollfd caller = {fd_, POLLIN, 0};
  if (fd_ < 0 || ::poll(&caller, 1, 0) <= 0) return {};
  return cancelled_by_caller();
}

Result<int> Cancel::poll(std::vector<pollfd>& entries, int64_t wait_ns) const {
  const size_t count = entries.size();
  entries.push_back({event_, POLLIN, 0});  // poll(2) leaves out what is -1.
  entries.push_back({fd_, POLLIN, 0});
  const int64_t wait_ms = std::clamp<int64_t>(wait_ns / 1'000'000 + 1, 0, 3'600'000);
  int ready = ::poll(entries.data(), entries.size(), int(wait_ms));
  const int cause = errno;
  const bool cancelled =
      ready > 0 && (entries[count].revents != 0 || entries[count + 1].revents != 0);
  entries.resize(count);
  // What was seen counts: the caller may have read its descriptor empty meanwhile.
  if (cancelled) {
    Status why = status();
    return why.ok() ? cancelled_by_caller() : std::move(why);
  }
  if (ready >= 0) return ready;
  if (cause == EINTR) return 0;
  errno = cause;
  return system_error("poll");
}

}  // namespace sk
