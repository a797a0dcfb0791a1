// A plan lowered for CPU threads: signals as addresses, regions as base plus offset.
#ifndef SK_LIB_EXEC_CPU_PROGRAM_H_
#define SK_LIB_EXEC_CPU_PROGRAM_H_

#include <atomic>
#include <mutex>

#include "lib/exec/cpu/waiter.h"
#include "lib/exec/cpu/workers.h"
#include "lib/exec/executor.h"
#include "lib/exec/tile_op.h"

namespace sk::cpu {

// What the programs of one communicator share.
struct Shared {
  Endpoint& endpoint;
  Ledger& ledger;
  Workers& workers;
  uint32_t spins;
  TraceBuffer* trace = nullptr;
};

// The workspace of a segment: two staging areas (runs of even and odd seq), then the general area.
inline constexpr uint64_t kStagingBytes = 256 << 10;

class CpuProgram final : public Program {
 public:
  static Result<std::unique_ptr<Program>> lower(std::shared_ptr<const Plan> plan, Shared& shared);

  const Plan& plan() const override { return *plan_; }
  Status run(const RunArgs& args) override;

 private:
  struct LoweredWait {
    const std::atomic<uint64_t>* word;
    const uint64_t* base;
    uint64_t target;
    uint32_t producer;
  };
  struct LoweredPost {
    std::atomic<uint64_t>* word;            // At the peer; null where it is not mapped.
    const std::atomic<uint32_t>* sleeping;  // The peer's; null for the own rank.
    uint64_t* posted;                       // The own running count of that word.
    uint32_t rank, index, add;
  };
  struct LoweredTask {
    TaskOp op;
    uint8_t region_count;
    uint32_t wait_count, post_count;
    TileFn fn;
    const Region* regions;
    const int64_t* params;
    const LoweredWait* waits;
    const LoweredPost* posts;
  };
  struct Patch {  // A caller's buffer: its address is known at run, a peer's at its entry.
    uint32_t buffer, rank, operand;
  };
  struct Addresses {
    std::vector<std::byte*> pointers;  // By buffer; null where it cannot be loaded and stored.
    std::vector<uint64_t> offsets;     // By buffer of a peer: in its segment, for puts.
  };
  struct Head {  // Where a queue stands.
    uint32_t queue, next, end;
    uint32_t satisfied = 0;  // Waits, or peers' entries, of the next task already met.
    int64_t waiting_since = 0;
  };
  struct Worker {
    std::vector<Head> heads;
    std::vector<std::byte*> pointers;  // Of one task's regions.
    std::vector<TaskEvent> events;
  };

  explicit CpuProgram(Shared& shared) : shared_(shared) {}
  Status lower_signals();
  void lower_tasks();
  void lower_addresses();

  Status reserve();
  Status stay_out(const RunArgs& args, Status why);
  void run_worker(uint32_t worker);
  bool find_ready(Worker& worker, size_t& pick);
  bool ready(Head& head);
  bool entries_arrived(Head& head);
  Status execute(Worker& worker, Head& head);
  void call_tile(Worker& worker, const LoweredTask& task);
  Status run_put(const LoweredTask& task);
  Status post(const LoweredTask& task);
  Status enter();
  Status admit();  // All entries are here: compare them, learn the peers' operands.
  Status explain(Status status, const Worker& worker) const;
  void fail(Status status);
  void record_trace();

  Shared& shared_;
  std::shared_ptr<const Plan> plan_;
  const RankPlan* part_ = nullptr;
  bool multiplies_ = false;  // Some task of it needs scratch for matrix products.
  uint64_t fingerprint_ = 0;
  std::array<uint64_t, 3> call_{};
  std::vector<LoweredWait> waits_;
  std::vector<LoweredPost> posts_;
  std::vector<LoweredTask> tasks_;
  std::vector<std::pair<uint64_t*, uint32_t>> growth_;  // Ledger bases and what a run adds.
  Addresses addresses_[2];                              // By parity of seq.
  std::vector<Patch> own_, peers_;
  std::vector<Worker> workers_;

  // Of the current run.
  const RunArgs* args_ = nullptr;
  Addresses* now_ = nullptr;
  std::atomic<uint64_t> admitted_{0};  // seq + 1 of the last run whose entries have been compared.
  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  Status failure_;
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_PROGRAM_H_
