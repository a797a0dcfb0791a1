// Python's lock, given up and asked for so that a thread survives the interpreter's end.
//
// Before Python 3.14 a thread that asks for the lock while the interpreter ends is ended in there,
// by unwinding its stack. Frames of C++ are no road for that: destructors may not be left so, nor
// may what libsk promises C, and the process aborts. Such a thread stays where it is instead, as
// Python itself has it do since then, until the process ends a moment later.
//
// All of this module goes through here, and whatever it calls that runs code of Python's on a
// thread that need not be the main one goes through contained().
#ifndef LIBSK_PYTHON_GIL_H_
#define LIBSK_PYTHON_GIL_H_

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <utility>

namespace sk::python {

// `body`, which may ask for the lock.
template <typename Body>
decltype(auto) contained(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// Without the lock, from here to the end of the block.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    contained([this] { PyEval_RestoreThread(state_); });
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

// With the lock, on a thread that Python need not know.
class GilAcquired {
 public:
  GilAcquired() : state_(contained([] { return PyGILState_Ensure(); })) { ++depth_; }
  ~GilAcquired() {
    --depth_;
    PyGILState_Release(state_);
  }
  GilAcquired(const GilAcquired&) = delete;
  GilAcquired& operator=(const GilAcquired&) = delete;

  // How many of them this thread is inside of.
  static int depth() { return depth_; }

 private:
  static inline thread_local int depth_ = 0;
  PyGILState_STATE state_;
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_GIL_H_
