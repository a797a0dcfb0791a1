// Operations that this process does alone, by their numbers, on memory that the Python files have
// settled. local_op.h has the short way.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "blocking.h"
#include "call_struct.h"
#include "context.h"
#include "sk/call.h"
#include "sk/tile.h"
#include "text.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

// From any thread: libsk lets one after another in.
void call_alone(const Context& context, int32_t op, uint32_t bytes,
                const std::vector<TensorField>& tensors, const std::vector<NumberField>& numbers,
                const std::vector<IntegerField>& integers, const std::vector<ListField>& lists) {
  const CallArgs args(bytes, tensors, numbers, integers, lists);
  wait(nullptr, [&] {
    sk_comm* self = nullptr;
    const sk_status status = sk_comm_self(context.get(), &self);
    return status == SK_OK ? sk_call(self, op, args.get(), nullptr) : status;
  });
}

// While it lives this thread has not the interpreter's lock, but for what it forks: the child has
// it then, and goes on as an interpreter of its own, which waits for no threads that it has not.
// Where a function of Python's is called meanwhile, as a handler of a signal is, and has the lock,
// what that forks is Python's.
class ForksInterpreter {
 public:
  ForksInterpreter() : outer_(here_) {
    static const int watched = pthread_atfork(
        [] {
          if (!forks()) return;
          contained([] { PyEval_RestoreThread(here_->state_); });
          PyOS_BeforeFork();
        },
        [] {
          if (!forks()) return;
          PyOS_AfterFork_Parent();
          here_->state_ = PyEval_SaveThread();
        },
        [] {
          if (!forks()) return;
          here_ = nullptr;
          PyOS_AfterFork_Child();
        });
    if (watched != 0) throw std::bad_alloc();
    here_ = this;
    state_ = PyEval_SaveThread();
  }
  ~ForksInterpreter() {
    here_ = outer_;
    contained([this] { PyEval_RestoreThread(state_); });
  }
  ForksInterpreter(const ForksInterpreter&) = delete;
  ForksInterpreter& operator=(const ForksInterpreter&) = delete;

 private:
  static bool forks() { return here_ != nullptr && here_->depth_ == GilAcquired::depth(); }

  static inline thread_local ForksInterpreter* here_ = nullptr;
  ForksInterpreter* outer_;  // Of a check that a handler interrupts.
  int depth_ = GilAcquired::depth();
  PyThreadState* state_ = nullptr;
};

// The forked children's functions may be Python's.
void check_tile(const Context& context, int32_t op, uint32_t bytes,
                const std::vector<TensorField>& tensors, const std::vector<NumberField>& numbers,
                const std::vector<IntegerField>& integers, int64_t timeout_ms) {
  const CallArgs args(bytes, tensors, numbers, integers);
  const sk_run_options options = options_of(0, timeout_ms);
  sk_status status = SK_OK;
  InterruptScope scope(nullptr);
  {
    const ForksInterpreter forks;
    status = sk_tile_check(context.get(), op, args.get(), &options);
  }
  scope.leave();
  scope.rethrow();
  check_signals();  // Before what the child makes of it, which a terminal's Ctrl-C reaches as well.
  check(status);
}

std::string describe_operations() {
  return text_of([](char* buffer, size_t capacity, size_t* size) {
    return sk_op_describe(nullptr, buffer, capacity, size);
  });
}

}  // namespace

void bind_local(nb::module_& module) {
  module.def("call_alone", &call_alone, nb::arg("context"), nb::arg("op"), nb::arg("size"),
             nb::arg("tensors"), nb::arg("numbers"), nb::arg("integers"),
             nb::arg("lists") = nb::tuple());
  module.def("check_tile", &check_tile);
  module.def("describe_operations", &describe_operations);
}

}  // namespace sk::python
