// What passes from one rank to another in one run, and what both may take for granted of it.
//
// A plan for many ranks is judged part by part: a rank knows its own part, and of its neighbours
// only the flows between them. Everything that crosses two ranks, but for the entry exchange, is in
// some flow. Chunk by chunk `from` puts bytes into slots of an inbox of `to`, once the slot is free
// again; `to` posts a credit when it is.
//
// Steps are what keeps a world of parts that each look sound from waiting in a circle: whatever a
// task has waited for, it or the tasks before it in its queue, was posted in an earlier step than
// what it posts itself. So of all posts that are still to come one of the least step can be made.
#ifndef SK_LIB_PLAN_FLOW_H_
#define SK_LIB_PLAN_FLOW_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "lib/op/dtype.h"

namespace sk {

// A rectangle of elements of an operand, in the words of the operation's meaning: those of rank
// `first`, or what has been joined of ranks [first, last) in their order, as accumulators hold it.
struct Content {
  uint32_t operand = 0;
  uint32_t first = 0, last = 1;
  std::optional<RedOp> joined = std::nullopt;
  uint64_t row = 0, rows = 1, column = 0, columns = 0;

  bool operator==(const Content&) const = default;
};

struct Chunk {
  uint64_t bytes = 0;
  Content content = {};
  uint64_t sent = 0, taken = 0;  // The steps of its put and of its slot's credit.

  bool operator==(const Chunk&) const = default;
};

struct Flow {
  uint32_t from = 0, to = 0;
  uint32_t inbox = 0;       // A buffer of `to`.
  uint32_t slots = 1;       // Chunk i lies in slot i % slots.
  uint64_t slot_bytes = 0;  // From one slot to the next.
  // The first of `slots` signals from `from` to `to`, which say that a chunk has arrived in a slot,
  // and of as many back, which say that it has been taken. Each post adds one.
  uint32_t data = 0, credit = 0;
  std::vector<Chunk> chunks;

  uint32_t count() const { return uint32_t(chunks.size()); }
  // Chunks that one slot carries in a run. The last one has no credit: the next entry is it.
  uint32_t uses(uint32_t slot) const {
    return count() > slot ? (count() - slot - 1) / slots + 1 : 0;
  }
  bool has_credit(uint32_t chunk) const { return uint64_t(chunk) + slots < count(); }
  uint64_t offset(uint32_t chunk) const { return chunk % slots * slot_bytes; }

  bool operator==(const Flow&) const = default;
};

// All flows that begin or end at a rank. The flows of two ranks say the same of what lies between.
using FlowsOf = std::function<std::vector<Flow>(uint32_t rank)>;

// What stands for all flows of a world where ranks compare their plans (Plan::flows_hash). They are
// computed from what is compared anyway; this tells builds apart that compute them otherwise, by
// the flows of the first rank and of the last. Never 0.
uint64_t flows_hash(const FlowsOf& flows_of, uint32_t world_size);

}  // namespace sk

#endif  // SK_LIB_PLAN_FLOW_H_
