// Calls that wait for other ranks: without the GIL, and so that Ctrl-C ends them.
//
// A thread inside libsk cannot look after Python's signals. So while Python's main thread is inside
// such a call, a second thread waits for SIGINT in its place and aborts the communicator; every
// rank's call then ends with SK_ERR_ABORTED, and this one's as KeyboardInterrupt. That is done only
// where SIGINT still means KeyboardInterrupt (signal.default_int_handler).
//
// All other handlers of Python's run where they must, on the main thread: a call that waits looks
// for them about every 50 ms (sk_comm_config.waiting). One that returns lets the wait go on; the
// exception of one that raises aborts the communicator and ends the call. Calls on no communicator
// that wait for other threads of this process look as often (sk_context_set_interrupted()).
#ifndef LIBSK_PYTHON_BLOCKING_H_
#define LIBSK_PYTHON_BLOCKING_H_

#include <nanobind/nanobind.h>

#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "bindings.h"
#include "ends.h"
#include "errors.h"
#include "gil.h"
#include "sk/comm.h"

namespace sk::python {

// From construction to end, SIGINT aborts `comm`, and handlers of signals run: outside Python's
// main thread neither. `comm` is null in calls on none.
class InterruptScope {
 public:
  // Throws a KeyboardInterrupt that is already due. `looks`: the call that waits will call look().
  explicit InterruptScope(sk_comm* comm, bool looks = false);
  ~InterruptScope() { leave(); }
  void leave();  // Without the GIL: the watcher may be inside a log callback that wants it.
  // With the GIL: the exception of a handler that ran meanwhile, if one raised.
  void rethrow();
  static void look(void*);  // For sk_comm_config.waiting.
  // The same of a call on no communicator; not 0: a handler raised, so that the call has to end.
  static int32_t interrupted(void*);
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  sk_comm* watched_outside() const;
  bool run_handlers();

  sk_comm* comm_ = nullptr;  // Null outside the main thread.
  InterruptScope* outer_ = nullptr;
  std::exception_ptr raised_;
  bool armed_ = false;
};

// Once, at import, before anything else here.
void prepare_blocking();

// Throws the exception of a signal that came during the call, if one did.
void check_signals();

// Runs `call` without the GIL and raises what it returns. A signal goes before its consequence.
// `comm` is what SIGINT aborts; NULL for calls that wait for nobody.
template <typename Call>
void wait(CommHandle* comm, Call&& call) {
  Ends::retry();
  sk_status status;
  std::string sentence;
  {
    const bool looks = comm != nullptr && comm->device_type == SK_DEVICE_CPU;
    InterruptScope scope(comm != nullptr ? comm->get() : nullptr, looks);
    {
      GilReleased released;
      status = std::forward<Call>(call)();
      sentence = status == SK_OK ? "" : sk_last_error();
      scope.leave();
    }
    scope.rethrow();
  }
  check_signals();
  check(status, sentence);
}

// For calls on no communicator: from Python's main thread, `call` runs in a thread of its own, so
// that a signal raises at once; `cancel` then ends the call, and `late` releases what it still
// made.
void wait_detached(const std::function<sk_status()>& call, const std::function<void()>& cancel,
                   const std::function<void()>& late);

}  // namespace sk::python

#endif  // LIBSK_PYTHON_BLOCKING_H_
