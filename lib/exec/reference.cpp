#include "lib/exec/reference.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "lib/exec/reference_memory.h"
#include "lib/plan/task_info.h"

namespace sk {
namespace {

constexpr uint64_t kWorldBytesMax = 1 << 30;

class Reference {
 public:
  Reference(const Plan& plan, World& world, uint64_t seed)
      : plan_(plan),
        world_(world),
        runs_(uint32_t(world.inputs.size())),
        random_(seed),
        memory_(plan, seed + 1),
        ranks_(plan.ranks.size()),
        favour_(plan.ranks.size()),
        side_by_side_(1 + seed % 3) {
    std::iota(favour_.begin(), favour_.end(), 0u);
    std::shuffle(favour_.begin(), favour_.end(), random_);
    world_.outputs.assign(runs_, std::vector<OperandBytes>(plan.ranks.size()));
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].signals.resize(plan.ranks[rank].signals.size(), 0);
      ranks_[rank].queues.resize(plan.ranks[rank].queues.size());
    }
  }

  Status run() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
    for (;;) {
      actions_.clear();
      for (uint32_t rank = 0; rank < ranks_.size(); ++rank) collect(rank);
      for (uint32_t i = 0; i < puts_.size(); ++i) actions_.push_back({Action::kArrive, 0, 0, i});
      if (actions_.empty()) break;
      SK_RETURN_IF_ERROR(perform(choose()));
    }
    for (const RankState& state : ranks_) {
      if (state.run < runs_) return stuck();
    }
    return Status();
  }

 private:
  struct Action {
    enum Kind { kStart, kFinish, kEnd, kArrive } kind;
    uint32_t rank, queue, index;
  };
  struct QueueState {
    uint32_t next = 0;
    std::vector<uint32_t> started;  // Indices in the queue of tasks that have not ended, ascending.
  };
  struct RankState {
    uint32_t run = 0;
    uint32_t entered = 0;
    std::vector<uint64_t> signals;
    std::vector<QueueState> queues;
  };
  struct Put {      // Has left its sender.
    uint32_t from;  // The sender.
    uint32_t buffer, run;
    Region to;
    Post post;
    std::vector<std::byte> bytes;
  };

  const Task& task(uint32_t rank, uint32_t queue, uint32_t index) const {
    const RankPlan& part = plan_.ranks[rank];
    return part.tasks[part.queues[queue].first_task + index];
  }

  void begin(uint32_t rank) {
    const RankState& state = ranks_[rank];
    if (state.run < runs_) memory_.begin(rank, world_.inputs[state.run][rank]);
  }

  // Why the task may not start yet, or "".
  std::string obstacle(uint32_t rank, uint32_t queue, const Task& task) const {
    const RankPlan& part = plan_.ranks[rank];
    const RankState& state = ranks_[rank];
    for (const Wait& wait : part.waits_of(task)) {
      const uint32_t place = part.find_signal(wait.producer, wait.signal);
      const uint64_t before = uint64_t(state.run) * part.signals[place].posts_per_run;
      if (state.signals[place] >= before + wait.target) continue;
      return fmt::format("signal {} from rank {} >= {}", wait.signal, wait.producer, wait.target);
    }
    if (task.op == TaskOp::kAwait) {
      for (const uint32_t peer : part.peers) {
        if (ranks_[peer].entered <= state.run) return fmt::format("rank {} to enter", peer);
      }
    }
    if ((task.flags & kAfterAll) && !state.queues[queue].started.empty()) return "earlier tasks";
    return "";
  }

  void collect(uint32_t rank) {
    const RankState& state = ranks_[rank];
    if (state.run == runs_) return;
    bool over = true;
    for (uint32_t q = 0; q < state.queues.size(); ++q) {
      const QueueState& queue = state.queues[q];
      for (uint32_t i = 0; i < queue.started.size(); ++i) {
        // It posts as it finishes.
        if (i > 0 && (task(rank, q, queue.started[i]).flags & kPostsInOrder) != 0) continue;
        actions_.push_back({Action::kFinish, rank, q, i});
      }
      const bool more = queue.next < plan_.ranks[rank].queues[q].task_count;
      if (more || !queue.started.empty()) over = false;
      if (more && queue.started.size() < side_by_side_ &&
          obstacle(rank, q, task(rank, q, queue.next)).empty()) {
        actions_.push_back({Action::kStart, rank, q, queue.next});
      }
    }
    if (over) actions_.push_back({Action::kEnd, rank, 0, 0});
  }

  // Half of the time the rank that this seed favours most goes on, so that ranks drift apart.
  Action choose() {
    if (random_() % 2 == 0) return actions_[random_() % actions_.size()];
    return *std::min_element(actions_.begin(), actions_.end(),
                             [&](const Action& a, const Action& b) {
                               return (a.kind == Action::kArrive) != (b.kind == Action::kArrive)
                                          ? b.kind == Action::kArrive
                                          : favour_[a.rank] < favour_[b.rank];
                             });
  }

  Status perform(const Action& action) {
    RankState& state = ranks_[action.rank];
    switch (action.kind) {
      case Action::kStart:
        state.queues[action.queue].started.push_back(action.index);
        ++state.queues[action.queue].next;
        return Status();
      case Action::kFinish:
        return finish(action);
      case Action::kEnd:
        return end(action.rank);
      case Action::kArrive:
        return arrive(action.index);
    }
    return Status();
  }

  Status finish(const Action& action) {
    std::vector<uint32_t>& started = ranks_[action.rank].queues[action.queue].started;
    const Task& done = task(action.rank, action.queue, started[action.index]);
    started.erase(started.begin() + action.index);
    const RankPlan& part = plan_.ranks[action.rank];
    if (done.op == TaskOp::kPut) return send(part, done);
    if (done.op == TaskOp::kEnter) ++ranks_[action.rank].entered;
    SK_RETURN_IF_ERROR(work(part, done));
    for (const Post& post : part.posts_of(done)) count_post(part.rank, post);
    return Status();
  }

  void count_post(uint32_t from, const Post& post) {
    const uint32_t place = plan_.ranks[post.rank].find_signal(from, post.signal);
    ranks_[post.rank].signals[place] += post.add;
  }

  Status work(const RankPlan& part, const Task& task) {
    const TileOp* tile = tile_op(task.op);
    if (tile == nullptr) {
      if (signature_of(task.op) != nullptr) return Status();
      return error(SK_ERR_UNSUPPORTED, "rank {}: there is no operation {}", part.rank,
                   int(task.op));
    }
    std::vector<std::byte*> addresses[kRegionCountMax];
    TileArgs args{};
    args.regions = part.regions_of(task).data();
    args.params = part.params_of(task).data();
    args.region_count = task.region_count;
    for (uint32_t i = 0; i < task.region_count; ++i) {
      const Region& region = args.regions[i];
      for (uint32_t j = 0; j < region.buffer_count; ++j) {
        addresses[i].push_back(memory_.address(region.buffer + j, ranks_[part.rank].run) +
                               region.offset);
        if (region.access == kWrite) {
          SK_RETURN_IF_ERROR(memory_.count_write(region, region.buffer + j));
        }
      }
      args.pointers[i] = addresses[i].data();
    }
    if (tile->own == nullptr) {
      tile->reference(args);
    } else if (!tile->own(*tile, args)) {
      return error(SK_ERR_TILE, "rank {}: tile {} failed", part.rank, tile->signature.name);
    }
    return Status();
  }

  Status send(const RankPlan& part, const Task& task) {
    const std::span<const Region> regions = part.regions_of(task);
    const uint32_t run = ranks_[part.rank].run;
    const std::byte* from = memory_.address(regions[0].buffer, run) + regions[0].offset;
    puts_.push_back({part.rank, regions[1].buffer, run, regions[1], part.posts_of(task)[0],
                     std::vector<std::byte>(from, from + regions[0].row_bytes)});
    return Status();
  }

  Status arrive(uint32_t index) {
    const Put put = std::move(puts_[index]);
    puts_.erase(puts_.begin() + index);
    SK_RETURN_IF_ERROR(memory_.count_write(put.to, put.buffer));
    std::copy(put.bytes.begin(), put.bytes.end(),
              memory_.address(put.buffer, put.run) + put.to.offset);
    count_post(put.from, put.post);
    return Status();
  }

  Status end(uint32_t rank) {
    RankState& state = ranks_[rank];
    const RankPlan& part = plan_.ranks[rank];
    SK_RETURN_IF_ERROR(memory_.end(rank, world_.outputs[state.run][rank]));
    ++state.run;
    for (size_t place = 0; place < part.signals.size(); ++place) {
      const Signal& signal = part.signals[place];
      if (state.signals[place] == uint64_t(state.run) * signal.posts_per_run) continue;
      return error(SK_ERR_INTERNAL, "rank {} ends run {} with signal {} from rank {} at {}", rank,
                   state.run - 1, signal.number, signal.producer, state.signals[place]);
    }
    for (QueueState& queue : state.queues) queue.next = 0;
    begin(rank);
    return Status();
  }

  Status stuck() const {
    std::string who;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].run == runs_) continue;
      for (uint32_t q = 0; q < ranks_[rank].queues.size(); ++q) {
        const uint32_t next = ranks_[rank].queues[q].next;
        if (next == plan_.ranks[rank].queues[q].task_count) continue;
        const Task& waiting = task(rank, q, next);
        who += fmt::format("{}rank {} queue {} task {} ({}) for {}", who.empty() ? "" : "; ", rank,
                           q, next, task_op_name(waiting.op), obstacle(rank, q, waiting));
      }
    }
    return error(SK_ERR_TIMEOUT, "no task can go on; waiting: {}", who);
  }

  const Plan& plan_;
  World& world_;
  uint32_t runs_;
  std::mt19937_64 random_;
  ReferenceMemory memory_;
  std::vector<RankState> ranks_;
  std::vector<uint32_t> favour_;  // By rank: the lowest goes first.
  uint64_t side_by_side_;         // Tasks of a queue that may be under way at once.
  std::vector<Put> puts_;
  std::vector<Action> actions_;
};

}  // namespace

Status run_reference(const Plan& plan, World& world, uint64_t seed) {
  uint64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers) bytes += buffer.offset + buffer.bytes;
  if (bytes > kWorldBytesMax) {
    return error(SK_ERR_NO_MEMORY, "a world of {} bytes is more than the reference's {}", bytes,
                 kWorldBytesMax);
  }
  return Reference(plan, world, seed).run();
}

}  // namespace sk
