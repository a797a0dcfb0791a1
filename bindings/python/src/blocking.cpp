#include "blocking.h"

#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace nb = nanobind;

namespace sk::python {
namespace {

// What the watcher shares with the main thread. Never destroyed: the watcher outlives main().
struct Watch {
  sem_t interrupts;
  std::mutex mutex;
  sk_comm* comm = nullptr;  // Inside a call of the main thread; guarded by `mutex`.
};

std::atomic<Watch*> g_watch{nullptr};
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

Watch* watch_of_process() {
  static Watch* const watch = [] {
    auto* made = new Watch;
    sem_init(&made->interrupts, 0, 0);
    std::thread thread(watch_for_ever, made);
    thread.detach();
    g_watch.store(made, std::memory_order_release);
    return made;
  }();
  return watch;
}

bool is_main_thread() {
  static const unsigned long main_ident = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main_ident;
}

bool sigint_means_keyboard_interrupt() {
  // Not signal.getsignal(), which makes enums of its results and takes a microsecond for it.
  static PyObject* const getsignal =
      nb::object(nb::module_::import_("_signal").attr("getsignal")).release().ptr();
  static PyObject* const standard =
      nb::object(nb::module_::import_("signal").attr("default_int_handler")).release().ptr();
  return nb::handle(getsignal)(SIGINT).is(nb::handle(standard));
}

// Python may have installed its handler anew since the last call, so each call looks.
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

InterruptScope::InterruptScope(sk_comm* comm) : armed_(false) {
  if (comm == nullptr || !is_main_thread() || !sigint_means_keyboard_interrupt()) return;
  Watch* watch = watch_of_process();
  if (!install_handler()) return;
  {
    const std::lock_guard lock(watch->mutex);
    watch->comm = comm;
  }
  armed_ = true;
  // A signal that came before the line above reached only Python.
  if (PyErr_CheckSignals() != 0) {
    const std::lock_guard lock(watch->mutex);
    watch->comm = nullptr;
    throw nb::python_error();
  }
}

void InterruptScope::leave() {
  if (!armed_) return;
  armed_ = false;
  Watch* watch = watch_of_process();
  const std::lock_guard lock(watch->mutex);
  watch->comm = nullptr;
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void wait_detached(const std::function<sk_status()>& call, const std::function<void()>& cancel,
                   const std::function<void()>& late) {
  if (!is_main_thread()) {
    sk_status status;
    std::string sentence;
    {
      nb::gil_scoped_release released;
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
  std::thread([shared, call, late] {
    const sk_status status = call();
    const std::string sentence = status == SK_OK ? "" : sk_last_error();
    bool abandoned;
    {
      const std::lock_guard lock(shared->mutex);
      shared->status = status;
      shared->sentence = sentence;
      shared->done = true;
      abandoned = shared->abandoned;
    }
    shared->ended.notify_all();
    if (abandoned && status == SK_OK) late();
  }).detach();

  for (;;) {
    {
      nb::gil_scoped_release released;
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
