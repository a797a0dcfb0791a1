#include "blocking.h"

#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace nb = nanobind;

namespace sk::python {
namespace {

// What the watcher shares with the main thread. Never destroyed: the watcher outlives main().
struct Watch {
  sem_t interrupts;
  std::mutex mutex;
  sk_comm* comm = nullptr;  // Inside a call of the main thread; guarded by `mutex`.
};

// What is needed of Python, taken at import. (Not by the first call, in a static of a function: the
// GIL may change hands while that is made, and whoever has it then would wait for the static.)
struct Python {
  unsigned long main_ident = 0;
  PyObject* getsignal = nullptr;  // Of _signal: signal's own makes enums, for a microsecond.
  PyObject* standard = nullptr;   // signal.default_int_handler.
  PyObject* sigint = nullptr;     // Its number.
};
Python g_python;

std::atomic<Watch*> g_watch{nullptr};
thread_local InterruptScope* t_scope = nullptr;  // Of the call that the main thread is in.
struct sigaction g_chained;  // Python's own handler; written before ours is installed.

// Async-signal-safe: calls on to Python's handler, which only sets a flag, and wakes the watcher.
void on_sigint(int number) {
  const int saved = errno;
  if (g_chained.sa_handler != nullptr) g_chained.sa_handler(number);
  if (Watch* watch = g_watch.load(std::memory_order_acquire)) sem_post(&watch->interrupts);
  errno = saved;
}

void watch_for_ever(Watch* watch) {
  for (;;) {
    if (sem_wait(&watch->interrupts) != 0) continue;  // EINTR.
    const std::lock_guard lock(watch->mutex);
    // The mutex keeps the handle alive: the main thread takes it to leave its call.
    if (watch->comm != nullptr) sk_comm_abort(watch->comm, "KeyboardInterrupt");
  }
}

Watch* start_watch() {
  auto* made = new Watch;
  sem_init(&made->interrupts, 0, 0);
  std::thread thread(watch_for_ever, made);
  thread.detach();
  g_watch.store(made, std::memory_order_release);
  return made;
}

Watch* watch_of_process() {
  static Watch* const watch = start_watch();  // Without Python.
  return watch;
}

bool is_main_thread() { return PyThread_get_thread_ident() == g_python.main_ident; }

bool sigint_means_keyboard_interrupt() {
  // By Python's own means, for every call comes here.
  PyObject* const number = g_python.sigint;
  PyObject* const handler = PyObject_Vectorcall(g_python.getsignal, &number, 1, nullptr);
  if (handler == nullptr) throw nb::python_error();
  const bool is_standard = handler == g_python.standard;
  Py_DECREF(handler);
  return is_standard;
}

// With the GIL. The watcher may hold the mutex inside a log callback that wants the GIL.
void watch_for(Watch* watch, sk_comm* comm) {
  std::unique_lock lock(watch->mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    GilReleased released;
    lock.lock();
  }
  watch->comm = comm;
}

// Whether ours was there when this was last asked of the system, which takes longer than a small
// call. Python may have installed its own anew since: a signal that reaches that alone is seen by
// look(), which asks again.
bool g_installed = false;

bool install_handler() {
  struct sigaction now = {};
  if (sigaction(SIGINT, nullptr, &now) != 0) return false;
  if ((now.sa_flags & SA_SIGINFO) != 0) return false;  // Not Python's.
  if (now.sa_handler == on_sigint) return true;
  if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return false;
  g_chained = now;
  now.sa_handler = on_sigint;
  return sigaction(SIGINT, &now, nullptr) == 0;
}

}  // namespace

void prepare_blocking() {
  const auto of = [](const char* module, const char* name) {
    return nb::object(nb::module_::import_(module).attr(name));
  };
  g_python.main_ident = nb::cast<unsigned long>(of("threading", "main_thread")().attr("ident"));
  g_python.getsignal = of("_signal", "getsignal").release().ptr();
  g_python.sigint = PyLong_FromLong(SIGINT);
  g_python.standard = of("signal", "default_int_handler").release().ptr();
}

InterruptScope::InterruptScope(sk_comm* comm, bool looks) : outer_(std::exchange(t_scope, this)) {
  if (comm == nullptr || !is_main_thread()) return;
  comm_ = comm;
  if (!sigint_means_keyboard_interrupt()) return;
  Watch* watch = watch_of_process();
  if (!looks || !g_installed) g_installed = install_handler();
  if (!g_installed) return;
  watch_for(watch, comm);
  armed_ = true;
  // A signal that came before the line above reached only Python.
  if (PyErr_CheckSignals() != 0) {
    nb::python_error error;
    watch_for(watch, watched_outside());
    t_scope = outer_;
    throw error;
  }
}

// A handler that ran in a call's wait has made this one: SIGINT means that call again behind it.
sk_comm* InterruptScope::watched_outside() const {
  for (const InterruptScope* each = outer_; each != nullptr; each = each->outer_) {
    if (each->armed_) return each->comm_;
  }
  return nullptr;
}

// With the lock. Whether one of them raised; that is then kept.
bool InterruptScope::run_handlers() {
  if (PyErr_CheckSignals() == 0) return false;
  raised_ = std::make_exception_ptr(nb::python_error());
  return true;
}

void InterruptScope::look(void*) {
  InterruptScope* const scope = t_scope;
  if (scope == nullptr || scope->comm_ == nullptr || scope->raised_ != nullptr) return;
  const GilAcquired gil;
  if (scope->armed_) g_installed = install_handler();
  if (!scope->run_handlers()) return;
  std::string reason;
  try {
    std::rethrow_exception(scope->raised_);
  } catch (const nb::python_error& error) {
    reason = nb::str(error.type().attr("__name__")).c_str();
  }
  sk_comm_abort(scope->comm_, reason.c_str());
}

int32_t InterruptScope::interrupted(void*) {
  InterruptScope* const scope = t_scope;
  if (scope == nullptr || !is_main_thread()) return 0;
  if (scope->raised_ != nullptr) return 1;
  const GilAcquired gil;
  return scope->run_handlers() ? 1 : 0;
}

void InterruptScope::rethrow() {
  if (raised_ != nullptr) std::rethrow_exception(std::exchange(raised_, nullptr));
}

void InterruptScope::leave() {
  if (t_scope == this) t_scope = outer_;
  if (!armed_) return;
  armed_ = false;
  Watch* watch = watch_of_process();
  const std::lock_guard lock(watch->mutex);
  watch->comm = watched_outside();
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void wait_detached(const std::function<sk_status()>& call, const std::function<void()>& cancel,
                   const std::function<void()>& late) {
  Ends::retry();
  if (!is_main_thread()) {
    sk_status status;
    std::string sentence;
    {
      GilReleased released;
      status = call();
      sentence = status == SK_OK ? "" : sk_last_error();
    }
    return check(status, sentence);
  }
  struct Shared {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    bool abandoned = false;
    sk_status status = SK_OK;
    std::string sentence;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, call = call, late = late]() mutable {
    const sk_status status = call();
    const std::string sentence = status == SK_OK ? "" : sk_last_error();
    bool abandoned;
    {
      const std::lock_guard lock(shared->mutex);
      shared->status = status;
      shared->sentence = sentence;
      shared->done = true;
      abandoned = shared->abandoned;
      // Whoever sees that it is done may go on as if this thread had ended: what the functions
      // hold is not held here any more.
      if (!abandoned) call = nullptr, late = nullptr;
    }
    shared->ended.notify_all();
    if (abandoned && status == SK_OK) late();
  }).detach();

  for (;;) {
    {
      GilReleased released;
      std::unique_lock lock(shared->mutex);
      // Short enough for Ctrl-C to feel immediate; a finished call wakes us at once.
      shared->ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return shared->done; });
    }
    if (PyErr_CheckSignals() != 0) {
      std::unique_lock lock(shared->mutex);
      const bool made = shared->done && shared->status == SK_OK;
      shared->abandoned = true;
      lock.unlock();
      cancel();
      if (made) late();
      throw nb::python_error();
    }
    const std::lock_guard lock(shared->mutex);
    if (shared->done) break;
  }
  check(shared->status, shared->sentence);
}

}  // namespace sk::python
