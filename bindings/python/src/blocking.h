// Calls that wait for other ranks: without the GIL, and so that Ctrl-C ends them.
//
// A thread inside libsk cannot look after Python's signals. So while Python's main thread is inside
// such a call, a second thread waits for SIGINT in its place and aborts the communicator; every
// rank's call then ends with SK_ERR_ABORTED, and this one's as KeyboardInterrupt. That is done only
// where SIGINT still means KeyboardInterrupt (signal.default_int_handler): a program with a handler
// of its own decides for itself, with Comm.abort().
#ifndef LIBSK_PYTHON_BLOCKING_H_
#define LIBSK_PYTHON_BLOCKING_H_

#include <nanobind/nanobind.h>

#include <functional>
#include <string>
#include <utility>

#include "bindings.h"
#include "errors.h"
#include "sk/comm.h"

namespace sk::python {

// From construction to end, SIGINT aborts `comm`. Does nothing outside Python's main thread.
class InterruptScope {
 public:
  explicit InterruptScope(sk_comm* comm);  // Throws a KeyboardInterrupt that is already due.
  ~InterruptScope() { leave(); }
  void leave();  // Without the GIL: the watcher may be inside a log callback that wants it.
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  bool armed_;
};

// Throws the exception of a signal that came during the call, if one did.
void check_signals();

// Runs `call` without the GIL and raises what it returns. A signal goes before its consequence.
// `comm` is what SIGINT aborts; NULL for calls that wait for nobody.
template <typename Call>
void wait(CommHandle* comm, Call&& call) {
  sk_status status;
  std::string sentence;
  {
    InterruptScope scope(comm != nullptr ? comm->get() : nullptr);
    nanobind::gil_scoped_release released;
    status = std::forward<Call>(call)();
    sentence = status == SK_OK ? "" : sk_last_error();
    scope.leave();
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
