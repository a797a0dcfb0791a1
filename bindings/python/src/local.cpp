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

// From any thread: libsk lets one after another in. Nobody else is waited for, so that there is
// nothing that a signal would have to end.
void call_alone(const Context& context, int32_t op, uint32_t bytes,
                const std::vector<TensorField>& tensors, const std::vector<NumberField>& numbers,
                const std::vector<IntegerField>& integers) {
  const CallArgs args(bytes, tensors, numbers, integers);
  wait(nullptr, [&] {
    sk_comm* self = nullptr;
    const sk_status status = sk_comm_self(context.get(), &self);
    return status == SK_OK ? sk_call(self, op, args.get(), nullptr) : status;
  });
}

// While it lives, what this thread forks goes on as an interpreter of its own: without that a child
// waits for threads that it has not, as soon as another one had asked for the lock.
class ForksInterpreter {
 public:
  ForksInterpreter() {
    static const int watched = pthread_atfork(nullptr, nullptr, [] {
      if (here_) PyOS_AfterFork_Child();
    });
    if (watched != 0) throw std::bad_alloc();
    PyOS_BeforeFork();
    here_ = true;
  }
  ~ForksInterpreter() {
    here_ = false;
    PyOS_AfterFork_Parent();
  }
  ForksInterpreter(const ForksInterpreter&) = delete;
  ForksInterpreter& operator=(const ForksInterpreter&) = delete;

 private:
  static inline thread_local bool here_ = false;
};

// With the interpreter's lock, which the forked child has then: its functions may be Python's.
void check_tile(const Context& context, int32_t op, uint32_t bytes,
                const std::vector<TensorField>& tensors, const std::vector<NumberField>& numbers,
                const std::vector<IntegerField>& integers, int64_t timeout_ms) {
  const CallArgs args(bytes, tensors, numbers, integers);
  const sk_run_options options = options_of(0, timeout_ms);
  sk_status status = SK_OK;
  {
    const ForksInterpreter forks;
    status = sk_tile_check(context.get(), op, args.get(), &options);
  }
  check(status);
}

std::string describe_operations() {
  return text_of([](char* buffer, size_t capacity, size_t* size) {
    return sk_op_describe(nullptr, buffer, capacity, size);
  });
}

}  // namespace

void bind_local(nb::module_& module) {
  module.def("call_alone", &call_alone);
  module.def("check_tile", &check_tile);
  module.def("describe_operations", &describe_operations);
}

}  // namespace sk::python
