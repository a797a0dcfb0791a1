#include "lib/plan/check/scene.h"

#include <algorithm>
#include <utility>

#include "lib/op/schema.h"
#include "lib/plan/builder.h"
#include "lib/plan/check/refuse.h"
#include "lib/tile/all.h"

namespace sk::check {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;
constexpr uint32_t kSlotsMax = 64;
constexpr uint64_t kStepsMax = uint64_t(1) << 62;

bool between(const Flow& flow, uint32_t a, uint32_t b) {
  return (flow.from == a && flow.to == b) || (flow.from == b && flow.to == a);
}

Status check_flow(const Plan& plan, const Flow& flow, uint32_t rank) {
  const uint32_t world = plan.target.world_size;
  if (flow.from >= world || flow.to >= world || flow.from == flow.to ||
      (flow.from != rank && flow.to != rank)) {
    return refuse('0', "a flow of rank {} goes from rank {} to rank {}", rank, flow.from, flow.to);
  }
  const auto wrong = [&](const char* what) {
    return refuse('0', "the flow from rank {} to rank {} {}", flow.from, flow.to, what);
  };
  if (flow.slots == 0 || flow.slots > kSlotsMax) return wrong("has too few slots, or too many");
  if (flow.chunks.empty()) return wrong("carries nothing");
  if (flow.inbox >= plan.buffers.size()) return wrong("ends in no buffer");
  const Buffer& inbox = plan.buffers[flow.inbox];
  if (inbox.owner != flow.to || inbox.kind != BufferKind::kWorkspace || inbox.generations != 1) {
    return wrong("ends in no workspace of its receiver");
  }
  uint64_t sent = 0, taken = 0;
  for (const Chunk& chunk : flow.chunks) {
    if (chunk.bytes == 0 || chunk.bytes > flow.slot_bytes) return wrong("overfills its slots");
    // A wait for several posts is met with the last of them.
    if (chunk.sent < sent || chunk.taken < taken) return wrong("goes back in its steps");
    if (chunk.sent >= kStepsMax || chunk.taken >= kStepsMax) return wrong("has too many steps");
    sent = chunk.sent;
    taken = chunk.taken;
  }
  return Status();
}

Status check_neighbour(const std::vector<Flow>& mine, const std::vector<Flow>& theirs,
                       uint32_t rank, uint32_t neighbour) {
  const auto ours = [&](const Flow& flow) { return between(flow, rank, neighbour); };
  const bool alike =
      std::count_if(mine.begin(), mine.end(), ours) ==
          std::count_if(theirs.begin(), theirs.end(), ours) &&
      std::all_of(theirs.begin(), theirs.end(), [&](const Flow& flow) {
        return !ours(flow) || std::find(mine.begin(), mine.end(), flow) != mine.end();
      });
  if (alike) return Status();
  return refuse('0', "ranks {} and {} see what passes between them otherwise", rank, neighbour);
}

class Maker {
 public:
  Maker(const Plan& plan, const FlowsOf& flows_of) : plan_(plan), flows_of_(flows_of) {}

  Result<Scene> make() {
    SK_RETURN_IF_ERROR(check_plan());
    const RankPlan& part = plan_.ranks[0];
    scene_.flows = flows_of_(part.rank);
    scene_.ranks = {part.rank};
    for (const Flow& flow : scene_.flows) {
      SK_RETURN_IF_ERROR(check_flow(plan_, flow, part.rank));
      scene_.ranks.push_back(flow.from == part.rank ? flow.to : flow.from);
    }
    // Somebody to meet, before whose entry nothing may be touched.
    if (scene_.flows.empty() && plan_.target.world_size > 1) {
      scene_.ranks.push_back(part.rank == 0 ? 1 : 0);
    }
    std::sort(scene_.ranks.begin(), scene_.ranks.end());
    scene_.ranks.erase(std::unique(scene_.ranks.begin(), scene_.ranks.end()), scene_.ranks.end());
    scene_.self = number_of(part.rank);
    for (const uint32_t rank : scene_.ranks) {
      if (rank == part.rank) continue;
      SK_RETURN_IF_ERROR(check_neighbour(scene_.flows, flows_of_(rank), part.rank, rank));
    }
    take_buffers();
    for (uint32_t number = 0; number < scene_.ranks.size(); ++number) {
      if (number != scene_.self) {
        scene_.plan.ranks.push_back(end_of(number));
        continue;
      }
      scene_.plan.ranks.push_back(part);
      SK_RETURN_IF_ERROR(renumber(scene_.plan.ranks.back()));
    }
    return std::move(scene_);
  }

 private:
  // What flows say nothing of: staging areas, which rest on who meets whom in other plans, and
  // memory that peers reach without a put. All ranks meet, so that it need not be asked who has.
  Status check_plan() const {
    if (plan_.ranks.size() != 1 || plan_.ranks[0].rank >= plan_.target.world_size) {
      return refuse('0', "one rank's part is to be judged, here are {}", plan_.ranks.size());
    }
    const RankPlan& part = plan_.ranks[0];
    if (part.queues.size() > plan_.target.workers) {
      return refuse('b', "rank {} has {} queues, but {} workers", part.rank, part.queues.size(),
                    plan_.target.workers);
    }
    if (plan_.free.number != 0) return refuse('0', "a plan of parts has no free dimension");
    if (is_pair(plan_.op)) {
      return refuse('0', "{} is of two ranks, a plan of parts of all", describe(plan_.op));
    }
    uint32_t next = 0;
    bool all = part.peers.size() + 1 == plan_.target.world_size;
    for (const uint32_t peer : part.peers) {
      next += next == part.rank ? 1 : 0;
      all = all && peer == next++;
    }
    if (!all)
      return refuse('0', "rank {} does not meet all {} ranks", part.rank, plan_.target.world_size);
    for (size_t id = 0; id < plan_.buffers.size(); ++id) {
      if (plan_.buffers[id].generations == 1) continue;
      return refuse('0', "buffer {} is staged, in a plan of parts", id);
    }
    return Status();
  }

  uint32_t number_of(uint32_t rank) const {
    const auto at = std::lower_bound(scene_.ranks.begin(), scene_.ranks.end(), rank);
    return at == scene_.ranks.end() || *at != rank ? kNowhere : uint32_t(at - scene_.ranks.begin());
  }

  // The own buffers, the neighbours' inboxes for what the part sends, and for each flow some memory
  // that its other end takes chunks from or to.
  void take_buffers() {
    Plan& plan = scene_.plan;
    plan.op = plan_.op;
    plan.target = plan_.target;
    plan.target.mapped = false;
    plan.target.workers = UINT32_MAX;  // Of the ends, whose slots have a queue each.
    const uint32_t self = scene_.ranks[scene_.self];
    std::vector<uint32_t> kept;
    for (uint32_t id = 0; id < plan_.buffers.size(); ++id) {
      if (plan_.buffers[id].owner == self) kept.push_back(id);
    }
    for (const Flow& flow : scene_.flows) {
      if (flow.from == self) kept.push_back(flow.inbox);
    }
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    scene_.buffers = std::move(kept);
    std::vector<uint64_t> end(scene_.ranks.size(), 0);
    for (const uint32_t id : scene_.buffers) {
      Buffer buffer = plan_.buffers[id];
      buffer.owner = number_of(buffer.owner);
      if (buffer.kind == BufferKind::kWorkspace) {
        end[buffer.owner] = std::max(end[buffer.owner], buffer.offset + buffer.bytes);
      }
      plan.buffers.push_back(buffer);
    }
    for (Flow& flow : scene_.flows) {
      flow.inbox = buffer_of(flow.inbox);
      flow.from = number_of(flow.from);
      flow.to = number_of(flow.to);
      const uint32_t owner = flow.from == scene_.self ? flow.to : flow.from;
      ends_memory_.push_back(uint32_t(plan.buffers.size()));
      const uint64_t bytes = flow.slots * flow.slot_bytes;
      end[owner] = align_up(end[owner], kWorkspaceAlign);
      plan.buffers.push_back({.owner = owner, .bytes = bytes, .offset = end[owner]});
      end[owner] += bytes;
    }
  }

  uint32_t buffer_of(uint32_t id) const {
    const std::vector<uint32_t>& all = scene_.buffers;
    const auto at = std::lower_bound(all.begin(), all.end(), id);
    return at == all.end() || *at != id ? kNowhere : uint32_t(at - all.begin());
  }

  std::vector<uint32_t> all_but(uint32_t number) const {
    std::vector<uint32_t> peers;
    for (uint32_t other = 0; other < scene_.ranks.size(); ++other) {
      if (other != number) peers.push_back(other);
    }
    return peers;
  }

  // A neighbour's end of all flows between it and the part.
  RankPlan end_of(uint32_t number) const {
    uint32_t queues = 0;
    std::vector<Signal> signals;
    for (const Flow& flow : scene_.flows) {
      if (!between(flow, number, scene_.self)) continue;
      queues += flow.slots;
      for (uint32_t slot = 0; slot < flow.slots; ++slot) {
        const uint32_t uses = flow.uses(slot);
        if (flow.to == number && uses > 0) signals.push_back({flow.from, flow.data + slot, uses});
        if (flow.from == number && uses > 1)
          signals.push_back({flow.to, flow.credit + slot, uses - 1});
      }
    }
    std::sort(signals.begin(), signals.end(),
              [](const Signal& a, const Signal& b) { return a.number < b.number; });
    RankBuilder end(number, std::max(1u, queues));
    for (const Signal& signal : signals) end.add_signal(signal);
    end.set_peers(all_but(number));
    end.add({.op = TaskOp::kEnter});
    if (queues == 0) end.add({.op = TaskOp::kAwait});
    uint32_t queue = 0;
    for (size_t i = 0; i < scene_.flows.size(); ++i) {
      const Flow& flow = scene_.flows[i];
      if (!between(flow, number, scene_.self)) continue;
      for (uint32_t slot = 0; slot < flow.slots; ++slot, ++queue) {
        end.add({.op = TaskOp::kAwait, .queue = queue});
        for (uint32_t chunk = slot; chunk < flow.count(); chunk += flow.slots) {
          pass(flow, ends_memory_[i], chunk, queue, end);
        }
      }
    }
    return end.finish();
  }

  void pass(const Flow& flow, uint32_t memory, uint32_t chunk, uint32_t queue,
            RankBuilder& end) const {
    const uint64_t at = flow.offset(chunk), bytes = flow.chunks[chunk].bytes;
    const uint32_t slot = chunk % flow.slots, use = chunk / flow.slots;
    if (flow.to == scene_.self) {
      const Wait credit{flow.to, flow.credit + slot, use};
      const Post arrived{flow.to, flow.data + slot, 1};
      end.add({.op = TaskOp::kPut,
               .queue = queue,
               .regions = {flat(memory, at, bytes, kRead), flat(flow.inbox, at, bytes, kWrite)},
               .waits = {&credit, use > 0 ? 1u : 0u},
               .posts = {&arrived, 1}});
      return;
    }
    const Wait arrival{flow.from, flow.data + slot, use + 1};
    const Post taken{flow.from, flow.credit + slot, 1};
    const int64_t hint = kStoreDefault;
    end.add({.op = tiles::kCopy.id,
             .queue = queue,
             .regions = {flat(flow.inbox, at, bytes, kRead), flat(memory, at, bytes, kWrite)},
             .params = {&hint, 1},
             .waits = {&arrival, 1},
             .posts = {&taken, flow.has_credit(chunk) ? 1u : 0u}});
  }

  // The part in the numbers of here.
  Status renumber(RankPlan& part) const {
    const uint32_t rank = part.rank;
    part.rank = scene_.self;
    part.peers = all_but(scene_.self);
    const auto settle = [&](uint32_t& named, const char* what) {
      const uint32_t number = number_of(named);
      if (number == kNowhere) {
        return refuse('f', "rank {} {} rank {}, and there is no flow between them", rank, what,
                      named);
      }
      named = number;
      return Status();
    };
    for (Signal& each : part.signals) {
      SK_RETURN_IF_ERROR(settle(each.producer, "has a signal from"));
    }
    for (Wait& each : part.waits) SK_RETURN_IF_ERROR(settle(each.producer, "waits for"));
    for (Post& each : part.posts) SK_RETURN_IF_ERROR(settle(each.rank, "posts to"));
    for (Region& region : part.regions) {
      const uint32_t first = buffer_of(region.buffer);
      // Ids that follow one another must do so here, too.
      const bool whole = region.buffer_count <= 1 ||
                         (uint64_t(region.buffer) + region.buffer_count <= UINT32_MAX &&
                          buffer_of(region.buffer + region.buffer_count - 1) ==
                              uint64_t(first) + region.buffer_count - 1);
      if (first == kNowhere || !whole) {
        return refuse('f', "rank {} touches buffer {}, which no flow of it ends in", rank,
                      region.buffer);
      }
      region.buffer = first;
    }
    return Status();
  }

  const Plan& plan_;
  const FlowsOf& flows_of_;
  std::vector<uint32_t> ends_memory_;  // By flow.
  Scene scene_;
};

}  // namespace

Result<Scene> make_scene(const Plan& part, const FlowsOf& flows_of) {
  return Maker(part, flows_of).make();
}

}  // namespace sk::check
