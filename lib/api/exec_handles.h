// The handles of include/sk/exec.h and sk/worker.h, and what every call on them checks first.
#ifndef SK_LIB_API_EXEC_HANDLES_H_
#define SK_LIB_API_EXEC_HANDLES_H_

#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "lib/base/status.h"
#include "lib/control/host/arguments.h"
#include "lib/control/host/collectives.h"
#include "lib/control/host/session.h"
#include "lib/control/host/talk_views.h"
#include "lib/control/host/views.h"
#include "lib/control/host/worker.h"
#include "sk/exec.h"
#include "sk/worker.h"

struct sk_session {
  std::unique_ptr<sk::control::Session> session;
  sk::control::EventView view;
  pid_t owner = getpid();
};

struct sk_worker {
  std::unique_ptr<sk::control::Worker> worker;
  sk::control::RequestView view;
  sk::control::InputView input;
  pid_t owner = getpid();
};

namespace sk::api {

// The handles that are alive: a freed one is refused, not followed.
void add_handle(const void* handle);
bool remove_handle(const void* handle);
bool has_handle(const void* handle);

// The communicators of this process, once it has any; cells are there without them too.
inline std::atomic<control::Collectives*>& collectives() {
  static std::atomic<control::Collectives*> all{nullptr};
  return all;
}

// The thread that runs cells: the one that joined last.
inline std::atomic<std::thread::id>& home_thread() {
  static std::atomic<std::thread::id> home{};
  return home;
}

template <typename Handle>
Status check_handle(const char* call, const Handle* handle) {
  if (handle == nullptr || !has_handle(handle))
    return error(SK_ERR_BAD_HANDLE, "{}: the handle is {}", call,
                 handle == nullptr ? "NULL" : "not alive");
  if (handle->owner != getpid())
    return error(SK_ERR_FORKED, "{}: called in a forked child of process {}", call, handle->owner);
  return {};
}

template <typename T>
Status check_out(const char* call, const char* name, const T* out) {
  if (out != nullptr) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}: {} is NULL", call, name);
}

// Text that comes with its size.
inline Status check_text(const char* call, const char* name, const char* text, uint64_t bytes) {
  if (text != nullptr || bytes == 0) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}: {} is NULL but has {} bytes", call, name, bytes);
}

// A struct that the library fills: its caller says how large it is there.
Status check_size(const char* call, const char* name, const uint32_t* size);

}  // namespace sk::api

#endif  // SK_LIB_API_EXEC_HANDLES_H_
