// The word by which a communicator's launches on a GPU end before their time.
#ifndef SK_CUDA_EXEC_EPOCH_H_
#define SK_CUDA_EXEC_EPOCH_H_

#include <atomic>
#include <memory>

#include "cuda/exec/device.h"

namespace sk::cuda {

// Once over it stays over: a launch that failed leaves signals half posted, and memory half
// written. Any thread may end it.
class Epoch {
 public:
  static Result<std::unique_ptr<Epoch>> begin(const Device& device) {
    SK_ASSIGN_OR_RETURN(HostWord word, device.take_word());
    return std::unique_ptr<Epoch>(new Epoch(std::move(word)));
  }

  // Every wait of a launch that runs ends within some looks at its signal.
  void abort() {
    aborted_.store(true, std::memory_order_relaxed);
    word_.store(1);
  }
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }
  bool over() const { return word_.load() != 0; }  // Aborted, or a launch has failed.
  uint32_t* word() const { return word_.address(); }

 private:
  explicit Epoch(HostWord word) : word_(std::move(word)) {}
  HostWord word_;
  std::atomic<bool> aborted_{false};
};

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_EPOCH_H_
