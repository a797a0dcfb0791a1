// What communicators need of a GPU: plans of all ranks, each run in one launch.
//
// Addresses and streams are the driver's; nobody above this follows them. All calls from any
// thread.
#ifndef SK_LIB_COMM_GPU_BACKEND_H_
#define SK_LIB_COMM_GPU_BACKEND_H_

#include <array>
#include <memory>
#include <span>
#include <string>

#include "lib/algo/planner.h"
#include "lib/base/status.h"
#include "lib/comm/gemm_tiles.h"
#include "lib/exec/executor.h"
#include "lib/plan/plan.h"

namespace sk {

struct GpuFacts {
  int32_t ordinal = 0;
  std::string name;
  uint32_t ranks_max = 0;  // In one launch.
  // Workers that can be resident at once, in plans without products and with them.
  uint32_t workers_of_moves = 0, workers_of_products = 0;
};

// Where the times of one rank's tasks go, from launch to launch.
class GpuTrace {
 public:
  virtual ~GpuTrace() = default;
  // All that was launched with it, which has ended. Valid until the next read.
  virtual Result<const TraceBuffer*> read() = 0;
};

// Of one call on a GPU.
inline constexpr uint32_t kGpuOperandMax = 3;

// One rank's part of a call.
struct GpuEntry {
  std::array<void*, kGpuOperandMax> operands{};
  void* stream = nullptr;           // Null: the default stream.
  std::shared_ptr<GpuTrace> trace;  // Null: none. What graphs repeat is not recorded.
};

// A plan made ready.
class GpuPlan {
 public:
  virtual ~GpuPlan() = default;

  // Enqueues one run of all ranks and returns. It begins when all that the ranks' streams had
  // before is done, and what comes on them later waits for it. Nothing is launched where it fails
  // with an error of the caller (class 1).
  virtual Status launch(std::span<const GpuEntry> ranks, int64_t timeout_ns) = 0;

  // A graph has a launch of it, and may repeat it at any time.
  virtual bool captured() const = 0;
};

// One per communicator.
class GpuExecutor {
 public:
  virtual ~GpuExecutor() = default;
  virtual const GpuFacts& facts() const = 0;
  // How vectors are shared out among the workers that `target` has for each rank.
  virtual void cut_moves(Target& target) const = 0;
  // How a product is cut for the workers that `target` has for each rank. It may have half as many
  // afterwards, each of them twice as large.
  virtual void cut_product(const Product& product, Target& target) const = 0;

  // `plan` has all ranks' parts and has been validated. The executor outlives what it returns.
  virtual Result<std::unique_ptr<GpuPlan>> prepare(std::shared_ptr<const Plan> plan) = 0;

  // Whether the GPU reaches the caller's `memory`, named `name`; whether `stream` takes work.
  virtual Status check_memory(const char* name, const void* memory) const = 0;
  virtual Status check_stream(void* stream) const = 0;

  // Zero-filled; freed, behind all work of the GPU, when nobody holds it any more.
  virtual Result<std::shared_ptr<void>> allocate(uint64_t bytes) = 0;

  // Packed as plans read them; may outlive the executor. Waits for the default stream, at most so
  // long.
  virtual Result<std::shared_ptr<void>> pack(const PackArgs& args, int64_t timeout_ns) = 0;

  // Of `rank`, for at most so many events; later ones are counted. No launch is under way: what
  // reads the clock would wait for blocks that are resident.
  virtual Result<std::shared_ptr<GpuTrace>> start_trace(uint32_t rank,
                                                        uint64_t event_count_max) = 0;

  // Waits until every launch has ended that was not captured, and every packing, at most so long;
  // what became of them failure() says. SK_ERR_TIMEOUT says what has not, and not how long that
  // was.
  virtual Status drain(int64_t timeout_ns) = 0;

  // Waits for all work on `stream`, at most so long; what became of it failure() says.
  virtual Status wait(void* stream, int64_t timeout_ns) = 0;

  // Why no launch can succeed any more, or OK. Does not wait for launches under way, nor for one
  // that the driver keeps.
  virtual Status failure() = 0;

  // Launches that run end soon, later ones at once.
  virtual void abort() = 0;
};

}  // namespace sk

#endif  // SK_LIB_COMM_GPU_BACKEND_H_
