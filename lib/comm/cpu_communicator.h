// A rank on the CPU: endpoint, executor, symmetric heap and plan cache.
#ifndef SK_LIB_COMM_CPU_COMMUNICATOR_H_
#define SK_LIB_COMM_CPU_COMMUNICATOR_H_

#include <memory>
#include <set>
#include <thread>
#include <unordered_map>

#include "lib/comm/comm_log.h"
#include "lib/comm/communicator.h"
#include "lib/comm/heap.h"
#include "lib/comm/plan_cache.h"
#include "lib/record/comm_record.h"

namespace sk {

class CpuCommunicator final : public Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> create(const Config& config, const Backend& backend);
  ~CpuCommunicator() override;

  uint32_t rank() const override { return endpoint_->rank(); }
  uint32_t world_size() const override { return endpoint_->world_size(); }
  DeviceId device() const override { return {}; }
  Result<Config> for_survivors(int64_t meeting_ns) override;
  sk_comm_info info() const override;

  Status execute(const Call& call, const CallKey& key, Pinned* pinned) override;
  Status prepare(const Call& call, Pinned& pinned) override;
  Status run(KnownCall& call) override;
  Status synchronize(void*, int64_t) override { return over(); }  // Calls end when they return.

  Status prepare_to_end() override;

  Result<void*> allocate(uint64_t bytes) override;
  Status free(void* memory) override;
  Status register_memory(void* memory, uint64_t bytes) override;
  Status deregister_memory(void* memory) override;

  Result<std::shared_ptr<const Plan>> plan_for(const OpDesc& op) override;
  Status check_fits(const Plan& plan) override;
  Result<std::unique_ptr<Packed>> pack(const PackArgs& args) const override;

  Status start_trace(uint64_t event_count_max) override;
  void stop_trace() override { executor_->set_trace(nullptr); }
  Result<const TraceBuffer*> trace() override { return &trace_; }

  void abort(const std::string& reason) override;

 private:
  // `record` is the communicator's once that is there.
  static Result<std::unique_ptr<Communicator>> meet(const Config& config, const Backend& backend,
                                                    record::CommRecord& record);
  explicit CpuCommunicator(Absence* absence) : absence_(absence) {}
  struct Ready {
    std::unique_ptr<Program> program;
    uint64_t last_use = 0;
  };
  struct Placed {  // A call's operands, and what it is with those.
    RunArgs args;
    OpDesc op;
  };
  void remember_given(const Config& config, const Bootstrap& bootstrap, uint64_t name,
                      bool one_process_space);
  // Why no call can succeed any more, or OK.
  Status over() const;
  Target target_for(const OpDesc& op, bool one_level = false) const;
  Result<Placed> place(const Call& call) const;
  // What no cache keeps is the caller's.
  Result<std::shared_ptr<Ready>> make_ready(const std::shared_ptr<const Plan>& plan);
  Result<std::shared_ptr<Ready>> ready_for(const OpDesc& op);
  Result<Ready*> ready_for(const OpDesc& op, Pinned* pinned);
  void remember(const Call& call, const KnownCall& known);
  Status prepare_meeting();
  Status ensure_workspace(const Plan& plan);
  void evict_one();
  Status run(Program& program, RunArgs& args);
  // Peers that have entered `op` learn that this rank cannot, instead of waiting for it. Takes no
  // memory.
  Status decline(const OpDesc& op, int64_t timeout_ns, int32_t code);
  uint64_t& last_entry(const OpDesc& op) {
    if (!is_pair(op)) return seq_;
    const auto [sender, receiver] = ends_of(op);
    return pair_seq_[sender == rank() ? receiver : sender];
  }
  uint64_t calls() const { return seq_ - seqs_told_; }
  // Calls `body` as this rank's next call. The one place in which a call may end the communicator.
  template <typename Body>
  Status enter(const OpDesc& op, RunArgs& args, Program& program, const Body& body);
  // An entry exchange that carries only its descriptor; `able` false tells the peers so.
  Status agree(OpKind kind, uint64_t bytes, bool able);

  // After a failure: until no peer is in a call that could touch this rank's registered memory.
  Status await_peers_outside();
  Status failed(const OpDesc& op, Program& program, Status status);

  Backend backend_;
  CommLog log_;
  record::CommRecord record_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Program> meeting_;  // To decline with, for which there must be no want of memory.
  std::unique_ptr<Heap> heap_;
  Target target_;             // Of all ranks alike, but for what a product adds.
  uint32_t kernel_sets_ = 0;  // Agreement::kernel_sets.
  Config given_;              // For those that are left, once some are not.
  uint64_t name_ = 0;         // Agreement::name.
  const std::shared_ptr<const int> children_ = std::make_shared<int>();  // Lineage::held.
  std::vector<int> launched_as_;  // By rank: Bootstrap::launched_as().
  std::set<int> left_out_;        // Likewise: alive, and not reached by all that are left.
  int64_t timeout_ns_ = 0;
  int local_rank_ = 0, local_size_ = 1;
  bool one_process_ = false;        // All ranks are threads of this process.
  uint64_t seq_ = 0;                // Of the last entry with all ranks.
  uint64_t seqs_told_ = 0;          // Of those, how many only told of calls that differed.
  std::vector<uint64_t> pair_seq_;  // Of the last entry with each peer alone.
  uint64_t staging_bytes_ = 0;      // Before the general workspace.
  uint64_t workspace_committed_ = 0;
  std::unordered_map<OpDesc, std::shared_ptr<Ready>, OpHash> cache_;
  PlanCache made_;
  const OpDesc* last_op_ = nullptr;
  std::shared_ptr<Ready> last_;
  TraceBuffer trace_;
  Status broken_;  // Set once by an error that ends the communicator.
  Absence* absence_;
};

}  // namespace sk

#endif  // SK_LIB_COMM_CPU_COMMUNICATOR_H_
