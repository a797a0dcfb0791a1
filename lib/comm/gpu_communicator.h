// A rank on a GPU: its memory and its part in the group's meetings. The ranks are threads of one
// process (docs/adr/0011-ranks-that-share-a-gpu.md).
#ifndef SK_LIB_COMM_GPU_COMMUNICATOR_H_
#define SK_LIB_COMM_GPU_COMMUNICATOR_H_

#include <map>
#include <memory>

#include "lib/comm/comm_log.h"
#include "lib/comm/communicator.h"
#include "lib/comm/gpu_group.h"

namespace sk {

class GpuCommunicator final : public Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> create(const Config& config, const Backend& backend);
  ~GpuCommunicator() override;

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return group_->world_size(); }
  DeviceId device() const override { return device_; }
  Result<Config> for_survivors(int64_t) override {
    return error(SK_ERR_UNSUPPORTED,
                 "this communicator is of a GPU, whose ranks are threads of one process: none of "
                 "them is lost alone");
  }
  sk_comm_info info() const override;

  Status execute(const Call& call, const CallKey& key, Pinned* pinned) override;
  Status prepare(const Call& call, Pinned& pinned) override;
  Status run(KnownCall& call) override;
  Status synchronize(void* stream, int64_t timeout_ns) override;
  Status prepare_to_end() override;

  Result<void*> allocate(uint64_t bytes) override;
  Status free(void* memory) override;
  Status register_memory(void* memory, uint64_t bytes) override;
  Status deregister_memory(void* memory) override;

  Result<std::shared_ptr<const Plan>> plan_for(const OpDesc& op) override;
  Status check_fits(const Plan& plan) override;
  Result<std::unique_ptr<Packed>> pack(const PackArgs& args) const override;

  Status start_trace(uint64_t event_count_max) override;
  void stop_trace() override { tracing_ = false; }
  Result<const TraceBuffer*> trace() override;

  void abort(const std::string& reason) override { group_->abort(rank_, reason); }

 private:
  struct Block {
    std::shared_ptr<void> memory;
    uint64_t bytes = 0;
  };

  GpuCommunicator(std::shared_ptr<GpuGroup> group, const Config& config, const CommLog& log,
                  uint32_t rank)
      : log_(log),
        group_(std::move(group)),
        device_(config.device),
        rank_(rank),
        timeout_ns_(config.timeout_ns),
        heap_bytes_max_(config.heap_bytes_max) {}
  OpDesc with_reach(const OpDesc& op) const;
  Status check_memory(const Call& call) const;
  Result<std::shared_ptr<void>> take(uint64_t bytes) const;
  Result<void*> take_block(uint64_t bytes);
  // The group's meeting; what fails in it is logged.
  Status meet(const GpuGroup::Arrival& arrival);
  // One that launches nothing.
  Status agree(OpKind kind, uint64_t bytes, bool able);

  CommLog log_;
  const std::shared_ptr<GpuGroup> group_;
  const DeviceId device_;
  const uint32_t rank_;
  const int64_t timeout_ns_;
  const uint64_t heap_bytes_max_;  // 0: what the GPU has.
  uint64_t held_bytes_ = 0;        // By sk_alloc().
  uint64_t calls_done_ = 0;
  std::map<void*, Block> blocks_;  // Of sk_alloc().
  std::map<void*, uint64_t> registered_;
  PlanCache plans_;
  std::shared_ptr<GpuTrace> trace_;  // The last that was started, or null.
  bool tracing_ = false;             // It is still given to launches.
};

}  // namespace sk

#endif  // SK_LIB_COMM_GPU_COMMUNICATOR_H_
