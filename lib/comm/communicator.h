// A communicator: endpoint, executor, symmetric heap and plan cache of one rank.
//
// Every call becomes an op descriptor, the descriptor a plan (cached), the plan a run. One thread
// at a time, but for abort().
#ifndef SK_LIB_COMM_COMMUNICATOR_H_
#define SK_LIB_COMM_COMMUNICATOR_H_

#include <memory>
#include <thread>
#include <unordered_map>

#include "lib/comm/backend.h"
#include "lib/comm/call_memory.h"
#include "lib/comm/heap.h"
#include "sk/comm.h"

namespace sk {

// Weights packed for this CPU.
struct Packed {
  DType dtype;
  int64_t k, n;
  std::unique_ptr<std::byte, void (*)(void*)> data{nullptr, nullptr};
};

// The caller's memory of one call. `data` may be null where the op does not use it on this rank.
struct CallOperand {
  const void* data = nullptr;
  uint64_t bytes = 0;
};
struct Call {
  OpDesc op;  // Without the symmetric flags, which execute() finds out.
  CallOperand in, out, weights;
  int64_t timeout_ns = 0;  // 0: the communicator's.
};

class Communicator {
 public:
  struct Config {
    BootstrapConfig bootstrap;
    int cancel_fd = -1;          // The caller's way to end the creation; -1: none.
    Absence* absence = nullptr;  // Who will not come; null where nobody knows.
    int64_t timeout_ns = 0;
    bool put_only = false;
    uint32_t workers = 0;  // 0: the cores that fall to this rank.
    uint64_t heap_bytes_max = 0;
  };
  static Result<std::unique_ptr<Communicator>> create(const Config& config, const Backend& backend);
  ~Communicator();

  uint32_t rank() const { return endpoint_->rank(); }
  uint32_t world_size() const { return endpoint_->world_size(); }
  sk_comm_info info() const;

  // `key`: the arguments as they came, so that known() can lead the next such call to run().
  Status execute(const Call& call, const CallKey& key = {});
  KnownCall* known(const CallKey& key) { return calls_.find(key); }
  Status run(KnownCall& call);

  Result<void*> allocate(uint64_t bytes);
  Status free(void* memory);
  Status register_memory(void* memory, uint64_t bytes);
  Status deregister_memory(void* memory);

  // A plan made and validated for all ranks; nothing is entered. While somebody holds it, it is
  // not made again.
  Result<std::shared_ptr<const Plan>> plan_for(const OpDesc& op);
  Target target_for(const OpDesc& op) const;
  std::unique_ptr<Packed> pack(DType dtype, const void* b, int64_t ldb, bool transpose_b, int64_t k,
                               int64_t n) const;

  void start_trace(uint64_t event_count_max);
  void stop_trace() { executor_->set_trace(nullptr); }
  const TraceBuffer& trace() const { return trace_; }

  void abort(const std::string& reason);

 private:
  explicit Communicator(Absence* absence) : absence_(absence) {}
  void note_caller(std::thread::id caller);
  struct Cached {
    std::unique_ptr<Program> program;
    uint64_t last_use = 0;
  };
  struct Key {
    OpDesc op;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return size_t(fingerprint(key.op)); }
  };

  // Why no call can succeed any more, or OK.
  Status over() const;
  Result<Program*> program_for(const OpDesc& op);
  Status ensure_workspace(const Plan& plan);
  void evict_one();
  Status run(Program& program, RunArgs& args);
  Status decline(const OpDesc& op, int64_t timeout_ns);
  // An entry exchange that carries only its descriptor; `able` false tells the peers so.
  Status agree(OpKind kind, uint64_t bytes, bool able);

  Backend backend_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Heap> heap_;
  Target target_;
  int64_t timeout_ns_ = 0;
  int local_rank_ = 0, local_size_ = 1;
  bool one_process_ = false;  // All ranks are threads of this process.
  uint64_t seq_ = 0;
  std::vector<uint64_t> pair_seq_;  // By peer.
  uint64_t workspace_committed_ = 0;
  std::unordered_map<Key, Cached, KeyHash> cache_;
  std::unordered_map<Key, std::weak_ptr<const Plan>, KeyHash> made_;
  const Key* last_key_ = nullptr;
  Cached* last_ = nullptr;
  CallMemory calls_;
  TraceBuffer trace_;
  Status broken_;  // Set once by an error that ends the communicator.
  Absence* absence_;
  std::thread::id caller_;  // Of the last call.
  bool used_elsewhere_ = false;
};

}  // namespace sk

#endif  // SK_LIB_COMM_COMMUNICATOR_H_
