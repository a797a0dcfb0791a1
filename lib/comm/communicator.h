// A communicator as the C shell sees it: one rank of a world, on the CPU or on a GPU.
//
// Every call becomes an op descriptor, the descriptor a plan, the plan a run. One thread at a time,
// but for abort().
#ifndef SK_LIB_COMM_COMMUNICATOR_H_
#define SK_LIB_COMM_COMMUNICATOR_H_

#include <memory>

#include "lib/base/log.h"
#include "lib/base/waiting.h"
#include "lib/comm/backend.h"
#include "lib/comm/call_memory.h"
#include "lib/comm/call_words.h"
#include "sk/comm.h"

namespace sk {

// Weights packed for this CPU, or for a GPU, in its memory.
struct Packed {
  DeviceId device;
  DType dtype;
  int64_t k, n;
  std::shared_ptr<void> data;
};

// The caller's memory of one call. `data` may be null where the op does not use it on this rank.
struct CallOperand {
  const void* data = nullptr;
  uint64_t bytes = 0;
};
struct Call {
  OpDesc op;             // Without the symmetric flags, which execute() finds out, unless it is
  bool planned = false;  // a plan's: then memory must be what they say.
  std::array<CallOperand, kRunOperandMax> operands;  // By their schema's numbers; none of lists.
  std::shared_ptr<const Pieces> pieces;              // Of lists, where there are any.
  std::array<int64_t, kRunValuesMax> values{};       // RunArgs::values.
  int64_t timeout_ns = 0;                            // 0: the communicator's.
  void* stream = nullptr;                            // Of a GPU; null: its default stream.
  const CallWords* words = nullptr;  // What it is remembered by; null: nothing, or its key.
};

// What somebody keeps ready for calls to come: the program stays for as long as this is, and where
// the last call's operands lie is known until memory changes.
struct Pinned {
  std::shared_ptr<const Plan> plan;  // That the program must be of; null: the one for the call.
  std::shared_ptr<void> ready;       // The program, as its communicator has it.
  KnownCall call;
  uint64_t places = 0;  // Communicator::places() when `call` was; 0: there was none.
};

class Communicator {
 public:
  // Of what is to be what is left, by names that no other communicator has; 0: of none.
  struct Lineage {
    uint64_t parent = 0;
    uint64_t grandparent = 0;
    bool has_sibling = false;          // This rank has another one that is left of the parent.
    std::shared_ptr<const void> held;  // By which the parent counts those that there are.
  };
  struct Config {
    BootstrapConfig bootstrap;
    Lineage lineage;
    DeviceId device;
    int cancel_fd = -1;          // The caller's way to end the creation; -1: none.
    Absence* absence = nullptr;  // Who will not come; null where nobody knows.
    int64_t timeout_ns = 0;      // Of calls.
    bool put_only = false;
    uint32_t workers = 0;         // 0: what falls to this rank of the cores, or of the GPU.
    uint64_t heap_bytes_max = 0;  // 0: what the machine, or the GPU, has.
    Waiting waiting;
    Log log;
  };
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;
  virtual DeviceId device() const = 0;
  // What makes another one of those ranks that are left, for which this one must stay. Any state.
  virtual Result<Config> for_survivors(int64_t meeting_ns) = 0;
  virtual sk_comm_info info() const = 0;

  // `key`: the arguments as they came, so that known() can lead the next such call to run().
  // `pinned`: whose program it takes, and what it leaves the call in for the next; may be null.
  virtual Status execute(const Call& call, const CallKey& key, Pinned* pinned = nullptr) = 0;
  // Makes the program of `call`, without a peer.
  virtual Status prepare(const Call& call, Pinned& pinned) = 0;
  // Whether the last call that `pinned` had may be run() again as it was.
  bool knows(const Pinned& pinned) const { return pinned.places == places_; }
  KnownCall* known(const CallKey& key) { return calls_.find(key); }
  KnownCall* known(const CallWords& words) { return worded_calls_.find(words); }
  virtual Status run(KnownCall& call) = 0;
  // Waits for what this rank has begun on `stream`, and says what became of it.
  virtual Status synchronize(void* stream, int64_t timeout_ns) = 0;
  // Waits for what must have ended before this is destroyed, at most the communicator's timeout.
  // Where it fails the communicator stays, for a later try.
  virtual Status prepare_to_end() { return {}; }

  virtual Result<void*> allocate(uint64_t bytes) = 0;
  virtual Status free(void* memory) = 0;
  virtual Status register_memory(void* memory, uint64_t bytes) = 0;
  virtual Status deregister_memory(void* memory) = 0;

  // A plan made and validated for all ranks; nothing is entered. While somebody holds it, it is
  // not made again.
  virtual Result<std::shared_ptr<const Plan>> plan_for(const OpDesc& op) = 0;
  // OK where `plan`, which is valid, was made for such a world as this one.
  virtual Status check_fits(const Plan& plan) = 0;
  virtual Result<std::unique_ptr<Packed>> pack(const PackArgs& args) const = 0;

  virtual Status start_trace(uint64_t event_count_max) = 0;
  virtual void stop_trace() = 0;
  // What was recorded so far; valid until the next call.
  virtual Result<const TraceBuffer*> trace() = 0;

  virtual void abort(const std::string& reason) = 0;

 protected:
  Communicator() = default;
  void forget_calls() {
    calls_.forget_all();
    worded_calls_.forget_all();
    ++places_;
  }
  uint64_t places() const { return places_; }
  CallMemory calls_;
  WordMemory<KnownCall> worded_calls_;

 private:
  uint64_t places_ = 1;  // Grows whenever calls are forgotten.
};

}  // namespace sk

#endif  // SK_LIB_COMM_COMMUNICATOR_H_
