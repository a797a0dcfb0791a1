#include "lib/plan/flow.h"

#include "lib/base/hash.h"

namespace sk {

uint64_t flows_hash(const FlowsOf& flows_of, uint32_t world_size) {
  uint64_t hash = 1;
  const auto add = [&](auto... values) { ((hash = hash_mix(hash, uint64_t(values))), ...); };
  for (const uint32_t rank : {0u, world_size - 1}) {
    const std::vector<Flow> flows = flows_of(rank);
    add(flows.size());
    for (const Flow& flow : flows) {
      add(flow.from, flow.to, flow.inbox, flow.slots, flow.slot_bytes, flow.data, flow.credit,
          flow.count());
      for (const Chunk& chunk : flow.chunks) {
        const Content& what = chunk.content;
        add(chunk.bytes, chunk.sent, chunk.taken, what.operand, what.first, what.last,
            what.joined ? 1 + uint64_t(*what.joined) : 0, what.row, what.rows, what.column,
            what.columns);
      }
    }
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace sk
