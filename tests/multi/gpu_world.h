// Communicators on a GPU that is not there: libsk whole, but for the driver, whose place a fake
// takes that runs the kernels on the CPU (tests/unit/cuda/fake_driver.h).
#ifndef SK_TESTS_MULTI_GPU_WORLD_H_
#define SK_TESTS_MULTI_GPU_WORLD_H_

#include <functional>
#include <string>

#include "sk.h"
#include "tests/multi/op_case.h"
#include "tests/unit/cuda/fake_driver.h"

namespace sk::testing_ops {

// The driver of this machine while it lives; without one there is none. `change` alters what the
// library gets of it.
class Machine {
 public:
  explicit Machine(const std::function<void(cuda::Driver&)>& change = nullptr);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  cuda::FakeDriver fake;

  // Memory of a GPU that is not of sk_alloc(), each element poisoned.
  void* take(size_t bytes, int gpu = 0) { return fake.allocate(gpu, bytes); }
  // For rows of random cases: `streams` gives each rank its own.
  Gpu gpu(bool streams);
  // `stream` does not go on before `open` is called.
  std::function<void()> hold(void* stream);

 private:
  std::function<void(cuda::Driver&)> change_;
};

sk_comm_config gpu_config(int rank, int ranks);

// `body` runs in `ranks` threads, each with a communicator on GPU 0.
using Body = std::function<void(sk_comm*, int rank)>;
void in_ranks(int ranks, const Body& body);

// Options for a call on GPU 0.
sk_run_options on_gpu(void* stream = nullptr);

// What each rank gives in a small all-reduce, and that the call works: outputs exact.
void expect_usable(sk_comm* comm, int ranks, void* stream = nullptr);

void expect_refused(sk_status status, int32_t code, const std::string& word);

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_GPU_WORLD_H_
