// Executors run plans; whatever runs a plan computes what the reference computes.
//
// prepare() once per plan (lowering, tables), run() many times. A Program belongs to one rank of
// one communicator, whose Ledger and Endpoint it shares with all programs of that communicator; one
// of them runs at a time.
#ifndef SK_LIB_EXEC_EXECUTOR_H_
#define SK_LIB_EXEC_EXECUTOR_H_

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/waiting.h"
#include "lib/plan/plan.h"
#include "transport/session.h"

namespace sk {

// What the signals of a communicator have been posted so far. Signals only grow and are shared by
// all its plans: a run waits for `base` plus its own target, and a producer stores its own running
// count without reading the peer's line, because no other rank ever posts that word.
class Ledger {
 public:
  Ledger(uint32_t world_size, uint32_t signals_per_edge);
  // Without memory it is of no use.
  bool has_memory() const { return base_ != nullptr && posted_ != nullptr; }

  uint32_t signals_per_edge() const { return per_edge_; }
  // Where a rank keeps the signal `signal` of its edge with `other`, in SignalWords where it waits.
  uint32_t index(uint32_t other, uint32_t signal) const { return other * per_edge_ + signal; }
  std::span<uint64_t> base() { return {base_.get(), size_}; }      // By index() of the producer.
  std::span<uint64_t> posted() { return {posted_.get(), size_}; }  // By index() of the consumer.

 private:
  // Zero without being written: most are never used, and large worlds have megabytes of them.
  struct Free {
    void operator()(uint64_t* words) const { std::free(words); }
  };
  using Words = std::unique_ptr<uint64_t[], Free>;
  static Words zeros(size_t count);

  uint32_t per_edge_;
  size_t size_;
  Words base_, posted_;
};

// How many signals may go from one rank to another, in worlds of this size.
uint32_t signals_per_edge(uint32_t world_size);

// Of the staging areas that a rank has where ranks are few, so much it has in a world of this size:
// what each of many reads whole is small.
uint64_t staging_in(uint32_t world_size, uint64_t bytes);

// Of one call. Peers reach only those for whose places an entry has words.
inline constexpr uint32_t kRunOperandMax = OpDesc::kOperandsMax;
static_assert(OpDesc::kReachedMax <= kEntryWords);

// One caller's memory for one run. For symmetric operands also where it lies in the own segment, as
// the peers must know it.
struct Operand {
  void* data = nullptr;
  uint64_t segment_offset = 0;
};

// Where the tensors of a call's lists lie: those that have elements, in their order.
struct Pieces {
  std::vector<uint64_t> ends;  // Of each, behind its last element, counted over all.
  // By operand, also of what is only in place; empty where it is no list.
  std::array<std::vector<std::byte*>, kRunOperandMax> data;
};

struct RunArgs {
  std::array<Operand, kRunOperandMax> operands;
  // Null where lists lie in one piece each, where `operands` says; of plans without any nothing.
  std::shared_ptr<const Pieces> pieces;
  std::array<int64_t, kRunValuesMax> values{};  // Of runtime attributes, by their number.
  EntryLane lane = kCollectiveLane;
  uint64_t seq = 0;        // Of the lane, from 1.
  int64_t timeout_ns = 0;  // Longest single wait.
  // Of a plan's free dimension (lib/plan/free_rows.h): what is in effect, at most what the plan was
  // made for. Of others it says nothing.
  uint64_t extent = UINT64_MAX;
};

struct TaskEvent {
  uint32_t task;   // Index in the rank's part.
  uint32_t queue;  // Its own; where another worker ran it, that one's.
  TaskOp op;
  int64_t wait_ns, start_ns, end_ns;  // CLOCK_MONOTONIC: began to wait, began to work, done.
};

// Where task events go while a trace is on; null events are not recorded.
struct TraceBuffer {
  uint64_t event_count_max = 0;
  uint64_t event_count = 0;  // In `runs`.
  uint64_t dropped = 0;      // Beyond the most, or without memory.
  // Of a clock that is not the host's: the least by which it advances, and how far its times may
  // lie from the host's. 0: it is the host's.
  int64_t clock_step_ns = 0, clock_error_ns = 0;
  struct Run {
    std::shared_ptr<const Plan> plan;
    std::vector<TaskEvent> events;
  };
  std::vector<Run> runs;
};

class Program {
 public:
  virtual ~Program() = default;
  virtual const Plan& plan() const = 0;

  // Returns when the caller may use all its buffers again. A run that fails, or that an exception
  // leaves, may have moved some bytes and posted some signals, and its peers may wait for others:
  // whoever called ends the communicator for all ranks, unless take_refusal() says so.
  virtual Status run(const RunArgs& args) = 0;

  // Enters in the place of a run of `op`, with its lane and seq, only to say that this rank cannot
  // take part in it, and with which error, and waits for who can. Takes no memory. Of a program of
  // any op that all ranks take part in.
  virtual Status decline(const RunArgs& args, const OpDesc& op, int32_t code) = 0;

  // Once after a run that failed: whether all its ranks have entered and refused it, because they
  // called different things (SK_ERR_DESYNC) or one had declined (with its error). Nothing was
  // moved or posted then, and the next run may come, with the seq behind those that telling each
  // other of the calls has taken. Of a local operation also whether a user's tile has failed it
  // (SK_ERR_TILE): its results are anything, all else is as after a run that went well.
  struct Refusal {
    bool refused = false;
    uint64_t seqs_taken = 0;  // Beyond the run's own; equal on all its ranks.
  };
  virtual Refusal take_refusal() = 0;

  // Of whoever runs it: where its calls are recorded (lib/record), and what one of them moves.
  struct Recorded {
    static constexpr uint32_t kNone = UINT32_MAX;
    uint32_t line = kNone;
    uint64_t bytes = 0;
  };
  Recorded recorded;
};

// Whom the thread that runs a program tells, by a sentence, for whom its call still waits: first
// after so long, then each six times that.
struct StillWaiting {
  std::function<void(const std::string&)> tell;
  int64_t after_ns = 30'000'000'000;
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const char* name() const = 0;

  // `plan` has this rank's part and has been validated; `fingerprint` is that of the plan with all
  // parts, which the ranks compare at every run. The workspace it needs must be committed.
  virtual Result<std::unique_ptr<Program>> prepare(std::shared_ptr<const Plan> plan,
                                                   uint64_t fingerprint) = 0;

  // Null turns the trace off.
  virtual void set_trace(TraceBuffer* trace) = 0;

  // Which ranks share a host (Target::host_of), by which they meet. Once, before the first run.
  virtual void set_hosts(std::span<const uint32_t> host_of) = 0;

  // Whom the thread that runs a program tells now and then that it waits for other ranks.
  virtual void set_waiting(const Waiting& waiting) = 0;

  // Where it writes for which rank a wait has lasted a while, plus 1, and 0 once that is over;
  // null: nowhere. Others read it.
  virtual void set_awaited([[maybe_unused]] std::atomic<uint32_t>* awaited) {}

  // What it tells of waits that last. Once, before the first run.
  virtual void set_still_waiting([[maybe_unused]] const StillWaiting& told) {}
};

}  // namespace sk

#endif  // SK_LIB_EXEC_EXECUTOR_H_
