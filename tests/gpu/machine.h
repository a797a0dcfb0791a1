// The GPU of this machine, or where there is none a fake one whose kernels run on the CPU: so that
// the tests and benchmarks that are meant for silicon are themselves tried everywhere.
#ifndef SK_TESTS_GPU_MACHINE_H_
#define SK_TESTS_GPU_MACHINE_H_

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/exec/program.h"

namespace sk::cuda {

namespace abi {
struct CallersTable {
#define SK_MEMBER(name, symbol, ...) abi::Result (*name)(__VA_ARGS__) = nullptr;
  SK_CUDA_CALLERS_FUNCTIONS(SK_MEMBER)
#undef SK_MEMBER
};
}  // namespace abi
// What callers of the library do by themselves: graphs, copies, times.
using Calls = abi::CallersTable;

// A value that must be there; else the sentence is thrown.
template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}
void must(const Status& status);

class Machine {
 public:
  // Throws where the environment has SK_GPU=real and there is no GPU, or the GPU cannot be used.
  // SK_GPU=fake takes the fake one even so.
  static Machine& get();

  bool is_real() const { return is_real_; }
  // Why it is not: a sentence.
  const std::string& reason() const { return reason_; }
  const Runtime& runtime() const { return *runtime_; }
  const Device& device() const { return *device_; }
  const Calls& calls() const { return calls_; }
  abi::Stream stream() const { return stream_; }  // Not the default stream: that one is no graph's.

  // How long a wait for a signal may last in kernels, so that these say who waited for whom before
  // somebody ends their process: SK_GPU_WAIT_S seconds, else 5 s on a GPU, 60 s on a fake one.
  int64_t patience_ns() const { return patience_ns_; }

  // Of all blocks that can be resident, each rank's share; of a fake GPU's a few.
  uint32_t workers(uint32_t ranks) const;
  // The same of pairs of blocks, each one a worker; 0: this GPU has no kernel for them.
  uint32_t pair_workers(uint32_t ranks) const;
  // Of so many blocks that can be resident those that tests and benchmarks fill: a few of a fake
  // one's.
  uint32_t used(uint32_t blocks) const;
  uint64_t free_bytes() const;
  void synchronize() const;
  // Throws what the driver says; on the calling thread the device's context is current.
  void check(abi::Result result, const char* call) const;

 private:
  Machine();
  void take_fake();
  bool is_real_ = false;
  std::string reason_;
  std::shared_ptr<void> fake_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Current> current_;
  Calls calls_;
  abi::Stream stream_ = nullptr;
  int64_t patience_ns_ = 0;
};

// What `enqueue` puts on the machine's stream, as a graph. Nothing of it runs before launch().
class Replay {
 public:
  Replay(const Machine& machine, const std::function<void()>& enqueue);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void launch() const;  // On the machine's stream.

 private:
  const Machine& machine_;
  abi::Graph graph_ = nullptr;
  abi::GraphExec exec_ = nullptr;
};

}  // namespace sk::cuda

#endif  // SK_TESTS_GPU_MACHINE_H_
