// A plan lowered for CPU threads: signals as addresses, regions as base plus offset.
#ifndef SK_LIB_EXEC_CPU_PROGRAM_H_
#define SK_LIB_EXEC_CPU_PROGRAM_H_

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "lib/exec/cpu/entry_tree.h"
#include "lib/exec/cpu/long_wait.h"
#include "lib/exec/cpu/tile_table.h"
#include "lib/exec/cpu/waiter.h"
#include "lib/exec/cpu/workers.h"
#include "lib/exec/executor.h"
#include "lib/plan/lists.h"

namespace sk::cpu {

// What the programs of one communicator share.
struct Shared {
  Endpoint& endpoint;
  Ledger& ledger;
  Workers& workers;
  uint32_t spins;
  EntryTree tree;
  TraceBuffer* trace = nullptr;
  Waiting waiting = {};
  std::atomic<uint32_t>* awaited = nullptr;  // Executor::set_awaited().
  StillWaiting still_waiting = {};           // Executor::set_still_waiting().
};

// Says for whom this thread has waited a while, from the first tell() until the wait is over: in
// the flight record, and where it has become long to the peers.
class Awaited {
 public:
  Awaited(std::atomic<uint32_t>* word, Endpoint& endpoint) : word_(word), endpoint_(endpoint) {}
  ~Awaited() {
    if (noted_) [[unlikely]]
      word_->store(0, std::memory_order_relaxed);
    if (told_) [[unlikely]]
      endpoint_.tell_awaited({});
  }
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;
  void tell(uint32_t peer, bool is_long) {
    if (word_ != nullptr) {
      word_->store(peer + 1, std::memory_order_relaxed);
      noted_ = true;
    }
    if (!is_long) return;
    endpoint_.tell_awaited(peer);  // Again and again: another worker's wait may have ended.
    told_ = true;
  }

 private:
  std::atomic<uint32_t>* const word_;
  Endpoint& endpoint_;
  bool noted_ = false;
  bool told_ = false;
};

// The workspace of a segment: the staging areas, each of so many bytes (less in large worlds:
// staging_in()), then the general area. A plan that stages takes
// the area seq % n, where n is even: two runs in a row then never share one, whatever n their plans
// have. Inside its area it takes the places there are for it in turn.
inline constexpr uint64_t kStagingBytes = 256 << 10;
inline constexpr uint32_t kStagingAreas = 8;
// A line that the reader's caches still hold is stored to slowly (measured on Zen 4, 16 KB: 2.3 us
// with two places in turn, 0.8 us with 2 MB of them), so plans rotate until it is gone; small ones
// stay in the nearest cache with two.
inline constexpr uint64_t kStagingRotateMin = 8 << 10;

// How often a rank that waits looks for peers that will never come (that wait for it in another
// kind of call, or are known to be elsewhere), and lets the caller look, too; sooner where the wait
// may not last so long.
inline constexpr int64_t kMismatchLookNs = 50'000'000;

class Parcel;

// Parameters of a task over lists.
inline constexpr uint32_t kPieceParamsMax = 16;
// No number of a task: one that runs on each tensor of lists by itself.
inline constexpr TaskOp kInPieces = TaskOp(uint16_t(TaskOp::kUserFirst) - 1);

class CpuProgram final : public Program {
 public:
  static Result<std::unique_ptr<Program>> lower(std::shared_ptr<const Plan> plan,
                                                uint64_t fingerprint, Shared& shared);

  const Plan& plan() const override { return *plan_; }
  Status run(const RunArgs& args) override;
  Status decline(const RunArgs& args, const OpDesc& op, int32_t code) override;
  Refusal take_refusal() override { return std::exchange(refusal_, {}); }

 private:
  struct LoweredWait {
    const std::atomic<uint64_t>* word;
    const uint64_t* base;
    uint64_t target;
    uint32_t producer;
  };
  struct LoweredPost {
    std::atomic<uint64_t>* word;            // At the peer; null where it is not mapped.
    const std::atomic<uint32_t>* sleeping;  // Of who waits; null where it is not mapped.
    uint64_t* posted;                       // The own running count of that word.
    uint32_t rank, index, add;
  };
  struct LoweredTask {
    TaskOp op;       // kUserFirst for all of users, kInPieces for all that go over lists;
    TaskOp runs_as;  // that, where `op` is a nop because a run has nothing left for it.
    uint32_t wait_count, post_count;
    TileFn fn;
    uint64_t least_ns;  // As PreparedTile has it.
    bool after_all;     // Starts once all earlier ones of its queue have finished.
    bool any_worker;    // Where its queue is open, others may run it,
    bool admitted;      // but not before the first queue has read the peers' entries.
    const TileOp* own;  // A user's.
    const LoweredWait* waits;
    const LoweredPost* posts;
  };
  // A caller's buffer: its address is known at run, a peer's at its entry.
  struct Patch {
    uint32_t buffer, rank, operand;
    bool list;           // Of which a run may say otherwise where it lies.
    std::byte* segment;  // The peer's, where mapped.
  };
  // Where a region of some task points into a buffer.
  struct Use {
    uint32_t pointer;  // Index in Addresses::pointers.
    uint64_t offset;
  };
  struct Staged {  // A staging buffer: its place in the segments differs from run to run.
    uint32_t buffer;
    std::byte* segment;  // The owner's, where mapped.
  };
  // Where a queue stands. Others than its own worker touch it where it is open, with the lock; who
  // looks without it sees at worst what was.
  struct alignas(64) Head {
    Head(uint32_t number, uint32_t first, uint32_t behind)
        : queue(number), begin(first), end(behind) {}
    const uint32_t queue, begin, end;
    bool open = false;
    mutable std::mutex lock{};
    std::atomic<uint32_t> next{0};     // Of tasks, the next to start.
    std::atomic<uint32_t> retired{0};  // Tasks before it have finished, and their posts are out.
    std::vector<uint8_t> finished{};   // By task, from `begin` on.
    uint32_t satisfied = 0;            // Waits, or peers' entries, of the next task already met.
    int64_t waiting_since = 0;

    bool started_all() const { return next.load(std::memory_order_relaxed) == end; }
  };
  struct Worker {
    std::vector<Head*> heads;     // Its own,
    std::vector<Head*> others{};  // and open ones of others.
    std::vector<TaskEvent> events;
    uint64_t events_lost = 0;   // There was no memory for them.
    int64_t busy_until_ns = 0;  // While a trace is on: the end of the last of them.
  };

  explicit CpuProgram(Shared& shared) : shared_(shared) {}
  Status lower_signals();
  Status lower_tasks();
  void lower_queues();
  void lower_uses();
  void lower_addresses();
  void resolve(uint32_t buffer, std::byte* address);
  void place_staging();
  void put_in_effect(uint64_t extent);
  // What all ranks have posted in a run that went well.
  void grow_signals() {
    for (const auto& [base, posts] : growth_) *base += posts;
  }

  Status reserve();
  Status stay_out(const RunArgs& args, const OpDesc& op, std::span<const uint32_t> peers,
                  int32_t code);
  Status run_straight();
  Status run_queues();
  void await_workers() noexcept;
  void run_worker(uint32_t worker) noexcept;
  Status walk_queues(Worker& worker, bool drives);
  Status run_ready(Worker& worker, bool& finished);
  Status run_queue(Worker& worker, Head& head);
  bool any_ready(Worker& worker);
  static bool has_started_all(const Worker& worker);
  bool ready(Head& head);
  bool entries_arrived(std::span<const uint32_t> peers, uint32_t& arrived) const;
  // Whether all of the call's ranks have entered, and told what they tell; goes on with that.
  bool all_entered(uint32_t& arrived);
  bool has_entered(uint32_t peer) const;
  std::optional<uint32_t> awaited_peer(const Head& head) const;
  Status execute(Worker& worker, Head& head);
  // Queues that several workers run (open_queues.cpp).
  void open_queues();
  bool claimable(const Head& head, bool is_own) const;
  bool any_claimable(Head& head, bool is_own);
  bool claim(Head& head, bool is_own, uint32_t& index, int64_t& waiting_since);
  Status run_claimed(Worker& worker, Head& head, bool is_own, bool& any);
  Status retire(Head& head, uint32_t index);
  // One task whose waits are met. `admits`: it is the first queue's, which compares the entries.
  Status perform(uint32_t index, const LoweredTask& task, bool admits) {
    if (task.op == TaskOp::kPut) return run_put(index, task);  // Its post travels with the bytes.
    SK_RETURN_IF_ERROR(work(index, task, admits));
    return task.post_count == 0 ? Status() : post(task);
  }
  // All but its posts.
  Status work(uint32_t index, const LoweredTask& task, bool admits) {
    switch (task.op) {
      case TaskOp::kNop:
        break;
      case TaskOp::kEnter:
        SK_RETURN_IF_ERROR(enter());
        break;
      case TaskOp::kAwait:
        if (admits) SK_RETURN_IF_ERROR(admit());
        break;
      case TaskOp::kUserFirst:
        run_own(index, task);
        break;
      default:
        // A tile operation: lowering refuses all other numbers.
        if (task.op == kInPieces)
          run_in_pieces(index, task);
        else
          task.fn(tiles_[index]);
    }
    return {};
  }
  Status run_put(uint32_t index, const LoweredTask& task);
  template <typename Put>
  Status await_put(uint32_t peer, const Session& session, Sent sent, const Put& put);
  void run_own(uint32_t index, const LoweredTask& task) noexcept;
  void run_in_pieces(uint32_t index, const LoweredTask& task) const;
  Status take_own_failure();
  Status post(const LoweredTask& task);
  Status enter();
  Status send(EntrySlot& entry, uint64_t seq, std::span<const uint32_t> peers);
  Status tell_each(EntrySlot& entry, std::span<const uint32_t> peers);
  Status tell_once(EntrySlot& entry, uint32_t peer);
  Status tell_late();
  // Of a call of all ranks that meet so.
  bool along_tree() const { return shared_.tree.used() && args_->lane == kCollectiveLane; }
  Status admit();  // All entries are here: compare them, learn the peers' operands.
  // Waits for `ready`, which needs some of `worker`'s heads; now and then looks whether it ever
  // will be. Time runs only while a peer is awaited: what the own workers are at ends with their
  // tiles and their own waits.
  template <typename Ready>
  Status wait_for(Waiter& waiter, const Worker& worker, const Ready& ready) {
    Awaited awaited(shared_.awaited, shared_.endpoint);
    LongWait long_wait(shared_.still_waiting);
    for (Allowance allowance(args_->timeout_ns, kMismatchLookNs);;) {
      Status status = waiter.wait(ready, allowance.slice());
      if (!ran_out(status)) return status;
      allowance.spend(waiter.began_ns());
      if (waiter.drives()) {
        SK_RETURN_IF_ERROR(tell_waiting());
        if (along_tree() && shared_.tree.crosses()) SK_RETURN_IF_ERROR(tell_late());
        SK_RETURN_IF_ERROR(find_mismatch());
      }
      SK_RETURN_IF_ERROR(find_absent());
      const std::optional<uint32_t> peer = awaited_peer(worker);
      if (peer) awaited.tell(*peer, allowance.is_long());
      if (peer && waiter.drives())
        long_wait.look([&](int64_t waited_ns) { return still_waits(*peer, waited_ns); });
      if (!peer) {
        allowance.renew();
        long_wait.renew();
      } else if (allowance.spent()) {
        return give_up(*peer, plan_->op);
      }
    }
  }
  // Of what only `peer` holds up, by the thread that drives the endpoint.
  template <typename Ready>
  Status wait_for_peer(uint32_t peer, const Ready& ready) {
    Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
    const auto over = [&] { return failed_.load(std::memory_order_relaxed) || ready(); };
    Awaited awaited(shared_.awaited, shared_.endpoint);
    LongWait long_wait(shared_.still_waiting);
    for (Allowance allowance(args_->timeout_ns, kMismatchLookNs);;) {
      Status status = waiter.wait(over, allowance.slice());
      if (!ran_out(status)) return status;
      allowance.spend(waiter.began_ns());
      awaited.tell(peer, allowance.is_long());
      long_wait.look([&](int64_t waited_ns) { return still_waits(peer, waited_ns); });
      SK_RETURN_IF_ERROR(tell_waiting());
      if (allowance.spent()) return give_up(peer, plan_->op);
    }
  }
  EntryLane other_lane() const {
    return args_->lane == kCollectiveLane ? kPairLane : kCollectiveLane;
  }
  Status desync();
  Status declined(uint32_t peer, const EntrySlot& entry) const;
  Status await_entry(const EntrySlot& slot, uint64_t seq, uint32_t peer, int64_t deadline_ns);
  // How often this rank has entered that lane with a peer, who has done so as often. Along a tree
  // there are no entries from each to each by which to know.
  uint64_t last_entry(const Session& session, EntryLane lane) const {
    if (lane != kCollectiveLane || !shared_.tree.used()) return session.entered(lane);
    return shared_.endpoint.header().entered.load(std::memory_order_relaxed);
  }
  Status exchange(std::span<const uint32_t> peers, EntryLane theirs, uint64_t their_seq,
                  const Parcel& own, std::span<Parcel> texts, uint64_t& rounds);
  Status find_mismatch();
  Status tell_waiting();
  Status find_absent();
  std::optional<uint32_t> awaited_peer(const Worker& worker) const;
  std::string name_awaited(uint32_t peer) const;
  std::vector<uint32_t> lacking_peers() const;
  std::string still_waits(uint32_t peer, int64_t waited_ns) const;
  Status give_up(uint32_t peer, const OpDesc& op) const;
  void fail(Status status);
  void note_event(Worker& worker, const TaskEvent& event) noexcept;
  void record_trace() noexcept;

  Shared& shared_;
  std::shared_ptr<const Plan> plan_;
  const RankPlan* part_ = nullptr;
  bool straight_ = false;         // One queue on the caller's thread.
  std::vector<Reserve> scratch_;  // What its tiles need of each thread.
  uint64_t fingerprint_ = 0;
  EntrySlot entry_{};
  uint32_t told_operands_ = 0;  // Peers may reach them.
  // Where ranks meet along a tree: some rank reaches another's operands, and each tells each where
  // its own are.
  bool tells_each_ = false;
  std::vector<LoweredWait> waits_;
  std::vector<LoweredPost> posts_;
  std::vector<LoweredTask> tasks_;
  std::vector<std::pair<uint64_t*, uint32_t>> growth_;  // Ledger bases and what a run adds.
  std::vector<Use> uses_;                               // Grouped by buffer:
  std::vector<uint32_t> first_use_;                     // where each buffer's begin, and the end.
  // Everything that has an address, resolved.
  std::vector<std::byte*> buffers_;   // Null where it cannot be loaded and stored.
  std::vector<uint64_t> offsets_;     // By buffer of a peer: in its segment, for puts.
  std::vector<std::byte*> pointers_;  // Of all tasks' regions, one after the other.
  std::vector<TileArgs> tiles_;       // By task.
  // Where the plan's free dimension is less than it was made for: as the last run had it.
  uint64_t free_extent_ = 0, extent_ = 0;
  std::vector<Region> regions_;
  std::vector<int64_t> params_;
  std::vector<RunValue> run_values_;
  std::vector<Along> along_;  // By task, where the operation has lists.
  std::vector<Patch> own_, peers_;
  std::vector<Staged> staged_;
  uint64_t area_bytes_ = kStagingBytes;  // Of each staging area.
  uint64_t staging_stride_ = 0;          // From one place to the next in an area.
  uint32_t staging_areas_ = 2, staging_places_ = 1;
  std::deque<Head> heads_;  // By queue; they stay where they are.
  std::vector<Worker> workers_;

  // Of the current run.
  const RunArgs* args_ = nullptr;
  bool told_late_ = false;             // Along a tree: who can be told has this entry.
  std::atomic<uint64_t> admitted_{0};  // seq + 1 of the last run whose entries have been compared.
  Refusal refusal_;
  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  Status failure_;
  // Of users' tiles: the run goes on without them, so that signals end where they should.
  std::atomic<bool> own_failed_{false};
  Status own_failure_;
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_PROGRAM_H_
