// Contexts as Python has them, with their log.
#ifndef LIBSK_PYTHON_CONTEXT_H_
#define LIBSK_PYTHON_CONTEXT_H_

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "blocking.h"
#include "ends.h"
#include "errors.h"
#include "gil.h"
#include "sk/base.h"
#include "sk/call.h"

namespace sk::python {

// Where lines of the log go: to a function of Python's, which may run on any thread of libsk, and
// whose exceptions end nothing.
class LogFunction {
 public:
  explicit LogFunction(nanobind::object function) : function_(std::move(function)) {}

  static void call(void* user, int32_t level, const char* component, const char* message) {
    if (ends()) return;  // The lock is not given to other threads any more.
    const GilAcquired gil;
    contained([&] {
      try {
        static_cast<LogFunction*>(user)->function_(level, text(component), text(message));
      } catch (nanobind::python_error& error) {
        error.discard_as_unraisable("the log function of libsk.Context");
      }
    });
  }

 private:
  static bool ends() {
#if PY_VERSION_HEX >= 0x030d0000
    return !nanobind::is_alive() || Py_IsFinalizing() != 0;
#else
    return !nanobind::is_alive() || Py_IsInitialized() == 0;
#endif
  }
  // A sentence may hold what a caller gave, and that need not be UTF-8.
  static nanobind::object text(const char* bytes) {
    PyObject* made = PyUnicode_DecodeUTF8(bytes, Py_ssize_t(std::strlen(bytes)), "replace");
    if (made == nullptr) throw nanobind::python_error();
    return nanobind::steal(made);
  }

  nanobind::object function_;
};

// A rank's context. Communicators of a context hold it.
class Context {
 public:
  Context(int32_t log_level, nanobind::object log) {
    sk_config config = {};
    config.struct_size = sizeof config;
    config.log_level = log_level;
    if (!log.is_none()) {
      log_ = std::make_unique<LogFunction>(std::move(log));
      config.log = &LogFunction::call;
      config.log_user = log_.get();
    }
    check(sk_init(&config, &context_));
    check(sk_context_set_interrupted(context_, &InterruptScope::interrupted, nullptr));
  }
  ~Context() {
    // A creation that was interrupted may need a moment for its end. It keeps the context, which
    // then stays until the process ends: waiting for it here would undo the interrupt.
    if (creations_->load() > 0) {
      [[maybe_unused]] const auto* kept = log_.release();  // It may still have something to say.
      return;
    }
    Ends::retry();
    (void)Ends::now_or_later([context = context_, log = log_.release()] {
      sk_status status;
      {
        const GilReleased released;  // The last lines of the log need it.
        status = sk_finalize(context);
      }
      if (status == SK_OK) delete log;  // Else it may still have something to say.
      return status;
    });
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  sk_context* get() const { return context_; }
  const std::shared_ptr<std::atomic<int>>& creations() const { return creations_; }

  // Of each operation of a user's tile, by how many it is shared: the same compiled function with
  // the same description is one. Registered, or taken away, and counted without anything of
  // Python's in between, whose collector or whose handlers of signals may do either.
  std::map<int32_t, int> sharers;

 private:
  std::unique_ptr<LogFunction> log_;
  sk_context* context_ = nullptr;
  std::shared_ptr<std::atomic<int>> creations_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_CONTEXT_H_
