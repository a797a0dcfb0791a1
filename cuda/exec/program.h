// A plan made ready for one GPU: all its ranks in one launch, run after run.
//
// Everything that a run needs lies in the GPU's memory from prepare() on, the run index too. So a
// run is a launch and nothing else: it may be captured into a graph, and replays and plain runs may
// follow each other in any order, as long as one ends before the next begins. On one stream they
// do.
#ifndef SK_CUDA_EXEC_PROGRAM_H_
#define SK_CUDA_EXEC_PROGRAM_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/exec/clock.h"
#include "cuda/exec/epoch.h"
#include "cuda/exec/operands.h"
#include "cuda/exec/views.h"
#include "lib/exec/executor.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

struct ProgramOptions {
  bool trace = false;  // Keeps the times of the last run's tasks.
  // Two blocks of a cluster serve a queue, 128 rows of a tile each, and share what they load of B:
  // for products of bf16 and f16 on sm_90. SK_ERR_UNSUPPORTED says where that cannot be. Operands
  // that the copy engine cannot read are multiplied by single blocks all the same.
  bool pairs = false;
};

class GpuProgram {
 public:
  // `plan` has all ranks' parts and has been validated; device and epoch outlive the program.
  // Refuses what cannot be resident at once: a worker that waits for one not yet there would wait
  // for ever.
  static Result<std::unique_ptr<GpuProgram>> prepare(const Device& device, Epoch& epoch,
                                                     std::shared_ptr<const Plan> plan,
                                                     const ProgramOptions& options);
  ~GpuProgram();
  GpuProgram(const GpuProgram&) = delete;
  GpuProgram& operator=(const GpuProgram&) = delete;

  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }
  uint64_t device_bytes() const { return memory_.bytes(); }

  // Enqueues one run on `stream` (null: the default stream), by rank's operands, and returns.
  // Nothing is launched where it fails. A later run on another stream waits for it, unless one is
  // captured: then the caller sees to the order. `timeout_ns`: longest single wait of a task.
  // `times`: by rank, where this run writes its tasks' times; none: where events() finds them.
  Status run(abi::Stream stream, std::span<const RankOperands> operands, int64_t timeout_ns,
             std::span<const TimesPlace> times = {});

  // A graph has a launch, and may repeat it.
  bool captured() const { return captured_.load(std::memory_order_relaxed); }

  // Waits for all work on `stream`, then says what became of the runs there.
  Status wait(abi::Stream stream);

  // Whether the last run, of those that were not captured, has ended; not while one is enqueued.
  // Never waits, not even for a run() that the driver keeps.
  Result<bool> idle();

  // OK while no run has failed; waits for none, as idle(). What failed is said the same ever after.
  Status status();

  // Of the last run that wait() has waited for. SK_ERR_UNSUPPORTED without ProgramOptions::trace.
  Result<std::vector<TaskEvent>> events(uint32_t rank);

 private:
  struct Layout;
  GpuProgram(const Device& device, Epoch& epoch, std::shared_ptr<const Plan> plan)
      : device_(device), epoch_(epoch), plan_(std::move(plan)) {}
  // Takes it where it can read the plan's products.
  void see_boxes(const Kernel& kernel, const BoxShape& shape);
  Status check_plan() const;
  Status build(const ProgramOptions& options);
  Status bind(std::span<const RankOperands> operands);
  Status launch(abi::Stream stream);
  Status follow_last(abi::Stream stream);
  Status enqueue(abi::Stream stream);
  Result<Control> read_control();
  Status failure_of(const Control& control) const;  // Under mutex_.

  const Device& device_;
  Epoch& epoch_;
  const std::shared_ptr<const Plan> plan_;
  const Kernel* kernel_ = nullptr;
  const Kernel* box_kernel_ = nullptr;  // Where the copy engine can read all operands; may be null.
  uint32_t blocks_ = 0;
  uint32_t queue_blocks_ = 1;  // Of box_kernel_, that serve one queue: a cluster.
  ViewTable views_;            // Of box_kernel_.
  DeviceMemory memory_;
  std::vector<uint64_t> ranks_;    // Where each rank's memory begins.
  std::vector<TimesPlace> times_;  // By rank; empty without a trace.
  abi::DevicePtr clock_ = 0;       // Scratch for read_moment(); 0 without a trace.
  std::atomic<bool> captured_{false};

  Control* control_ = nullptr;
  abi::Event last_run_ = nullptr;

  // One run() at a time. It is held while the driver enqueues, which may take as long as it likes.
  std::mutex run_mutex_;
  BoxLaunchArgs args_{};
  std::vector<RankOperands> bound_;    // What args_ has.
  bool boxes_ = false;                 // args_ has their views.
  abi::Stream last_stream_ = nullptr;  // On which last_run_ was recorded.

  std::mutex mutex_;        // All below; never held over a call of the driver.
  bool enqueues_ = false;   // A run() is inside the driver.
  bool ran_ = false;        // last_run_ was recorded.
  int64_t timeout_ns_ = 0;  // Of the last run.
  Moment waited_;           // The end of the last wait().
  Status failure_;
};

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_PROGRAM_H_
