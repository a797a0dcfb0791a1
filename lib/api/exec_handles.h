// The handles of include/sk/exec.h and sk/worker.h, and what every call on them checks first.
#ifndef SK_LIB_API_EXEC_HANDLES_H_
#define SK_LIB_API_EXEC_HANDLES_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "lib/api/guard.h"
#include "lib/api/handles.h"
#include "lib/base/status.h"
#include "lib/control/host/arguments.h"
#include "lib/control/host/collectives.h"
#include "lib/control/host/session.h"
#include "lib/control/host/talk_views.h"
#include "lib/control/host/views.h"
#include "lib/control/host/worker.h"
#include "sk/exec.h"
#include "sk/worker.h"

namespace sk::api {

struct SessionHandle {
  std::unique_ptr<control::Session> session;
  control::EventView view;  // Filled while no other thread can poll.
};

struct WorkerHandle {
  std::unique_ptr<control::Worker> worker;
  std::mutex next_mutex;  // Held by the thread that is in sk_worker_next().
  control::RequestView view;
  std::mutex input_mutex;  // And in sk_worker_input().
  control::InputView input;
};

inline constinit HandleTable<SessionHandle, HandleKind::kSession> sessions;
inline constinit HandleTable<WorkerHandle, HandleKind::kWorker> workers;

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

// Runs body(SessionHandle&), beside other threads' calls; a refused handle is `call`'s failure.
template <typename Body>
sk_status with_session(const char* call, const sk_session* session, const Body& body) noexcept {
  return guard([&]() -> Status {
    auto use = sessions.pin_here(session);
    if (!use.ok()) return std::move(use.status()).with_context(call);
    return body(**use);
  });
}
template <typename Body>
sk_status with_worker(const char* call, const sk_worker* worker, const Body& body) noexcept {
  return guard([&]() -> Status {
    auto use = workers.pin_here(worker);
    if (!use.ok()) return std::move(use.status()).with_context(call);
    return body(**use);
  });
}

template <typename T>
Status check_out(const char* call, const char* name, const T* out) {
  if (out != nullptr) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}: {} is NULL", call, name);
}

}  // namespace sk::api

#endif  // SK_LIB_API_EXEC_HANDLES_H_
