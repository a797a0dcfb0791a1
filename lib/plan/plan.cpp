#include "lib/plan/plan.h"

#include <algorithm>
#include <utility>

#include "lib/base/hash.h"
#include "lib/op/schema.h"
#include "lib/tile/tile_op.h"

namespace sk {
namespace {

bool operator==(const Region& a, const Region& b) {
  return a.offset == b.offset && a.row_bytes == b.row_bytes && a.pitch == b.pitch &&
         a.rows == b.rows && a.buffer == b.buffer && a.buffer_count == b.buffer_count &&
         a.access == b.access;
}
bool operator==(const Wait& a, const Wait& b) {
  return a.producer == b.producer && a.signal == b.signal && a.target == b.target;
}
bool operator==(const Post& a, const Post& b) {
  return a.rank == b.rank && a.signal == b.signal && a.add == b.add;
}

template <typename T>
bool same(std::span<const T> a, std::span<const T> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return x == y; });
}

bool same_task(const RankPlan& a, const Task& x, const RankPlan& b, const Task& y) {
  return x.op == y.op && x.flags == y.flags && same(a.params_of(x), b.params_of(y)) &&
         same(a.regions_of(x), b.regions_of(y)) && same(a.waits_of(x), b.waits_of(y)) &&
         same(a.posts_of(x), b.posts_of(y));
}

bool same_part(const RankPlan& a, const RankPlan& b) {
  if (a.rank != b.rank || a.signals != b.signals || a.peers != b.peers ||
      a.queues.size() != b.queues.size()) {
    return false;
  }
  for (size_t q = 0; q < a.queues.size(); ++q) {
    const Queue x = a.queues[q], y = b.queues[q];
    if (x.task_count != y.task_count) return false;
    for (uint32_t i = 0; i < x.task_count; ++i) {
      if (!same_task(a, a.tasks[x.first_task + i], b, b.tasks[y.first_task + i])) return false;
    }
  }
  return true;
}

class Hash {
 public:
  explicit Hash(uint64_t start) : value_(start) {}
  template <typename... Values>
  void add(Values... values) {
    ((value_ = hash_mix(value_, uint64_t(values))), ...);
  }
  template <typename Values, typename Add>
  void add_all(const Values& values, const Add& add_one) {
    add(values.size());  // So that two tables in a row are not one.
    for (const auto& value : values) add_one(value);
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

void add_target(Hash& hash, const Target& t) {
  hash.add(t.world_size, t.mapped, t.workers, t.cores, t.tile_m, t.tile_n, t.packed_bytes,
           t.chunk_bytes, t.slot_count, t.one_shot_bytes, t.one_shot_symmetric_bytes,
           t.stream_bytes, t.put_bytes_max, t.band_rows, t.packed_pitch, t.edge_signals_max,
           t.raw_b, t.queue_bytes_min, t.turn_bytes);
  if (!t.host_of.empty()) hash.add_all(t.host_of, [&](uint32_t host) { hash.add(host); });
  if (t.one_level) hash.add(t.one_level);
}

void add_part(Hash& hash, const RankPlan& part) {
  const auto number = [&](auto value) { hash.add(value); };
  hash.add(part.rank);
  hash.add_all(part.signals,
               [&](const Signal& s) { hash.add(s.producer, s.number, s.posts_per_run); });
  hash.add_all(part.peers, number);
  hash.add_all(part.queues, [&](const Queue& q) { hash.add(q.first_task, q.task_count); });
  hash.add_all(part.tasks, [&](const Task& t) {
    const TileOp* tile = tile_op(t.op);
    hash.add(t.op, tile == nullptr ? 0 : tile->version, t.flags);
    hash.add_all(part.regions_of(t), [&](const Region& r) {
      hash.add(r.offset, r.row_bytes, r.pitch, r.rows, r.buffer, r.buffer_count, r.access);
    });
    hash.add_all(part.params_of(t), number);
    hash.add_all(part.waits_of(t),
                 [&](const Wait& w) { hash.add(w.producer, w.signal, w.target); });
    hash.add_all(part.posts_of(t), [&](const Post& p) { hash.add(p.rank, p.signal, p.add); });
  });
}

}  // namespace

BufferKind kind_of(const Operands& operands, const OpDesc& op, uint32_t operand) {
  if (operands.shared(operands.home(operand))) return BufferKind::kInOut;
  return op.schema().operands[operand].role == Role::kIn ? BufferKind::kInput : BufferKind::kOutput;
}

uint32_t RankPlan::find_signal(uint32_t producer, uint32_t number) const {
  const auto at = std::lower_bound(signals.begin(), signals.end(), std::pair(producer, number),
                                   [](const Signal& signal, const auto& name) {
                                     return std::pair(signal.producer, signal.number) < name;
                                   });
  if (at == signals.end() || at->producer != producer || at->number != number) return kNoSignal;
  return uint32_t(at - signals.begin());
}

uint64_t fingerprint(const Plan& world) {
  Hash hash(world.op.hash());
  add_target(hash, world.target);
  hash.add_all(world.buffers, [&](const Buffer& b) {
    hash.add(b.kind, b.access, b.operand, b.generations, b.owner, b.bytes, b.offset);
  });
  if (world.flows_hash == 0) {
    hash.add_all(world.ranks, [&](const RankPlan& part) { add_part(hash, part); });
  } else {
    hash.add(world.flows_hash);
    for (const TileOp* const tile : all_tile_ops()) hash.add(tile->id, tile->version);
  }
  hash.add(world.free.number, world.free.block);
  return hash.value() == 0 ? 1 : hash.value();
}

bool operator==(const Plan& a, const Plan& b) {
  return a.op == b.op && a.target == b.target && a.free == b.free && a.buffers == b.buffers &&
         std::equal(a.ranks.begin(), a.ranks.end(), b.ranks.begin(), b.ranks.end(), same_part);
}

Plan part_of(const Plan& plan, uint32_t rank) {
  return {plan.op, plan.target, plan.buffers, {*plan.part(rank)}, plan.free, plan.flows_hash};
}

uint64_t workspace_bytes(const Plan& plan, uint32_t rank, uint8_t generations) {
  uint64_t end = 0;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind != BufferKind::kWorkspace || buffer.owner != rank) continue;
    if (buffer.generations == generations) end = std::max(end, buffer.offset + buffer.bytes);
  }
  return end;
}

}  // namespace sk
