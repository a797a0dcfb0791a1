// The forms of collectives for many ranks. Each rank talks to its neighbours alone, by puts, and
// their plans are judged part by part (lib/plan/flow.h): a rank makes and judges its own, however
// many others there are.
#ifndef SK_LIB_ALGO_LARGE_WORLDS_H_
#define SK_LIB_ALGO_LARGE_WORLDS_H_

#include "lib/algo/ops.h"

namespace sk::algo {

// From so many ranks on none talks to all others in one plan: what each kept for all of them would
// be more than its share of the work.
inline constexpr uint32_t kAllPairsMax = 64;

// Ranks that map each other's memory do so in up to so many: a call of a few bytes is one hand-over
// then, and not one for each rank of a chain. In larger worlds a plan of all ranks would take each
// of them too long to make and judge.
inline constexpr uint32_t kMappedPairsMax = 200;

inline bool is_large(const Target& target) {
  return target.world_size > (target.mapped ? kMappedPairsMax : kAllPairsMax);
}

// All-reduce and reduce-scatter.
bool sum_chain_does(const OpDesc& op, const Target& target);
Plan sum_chain(const OpDesc& op, const Target& target, Ranks ranks);
FlowsOf sum_chain_flows(const OpDesc& op, const Target& target);
uint64_t sum_chain_chunks(const OpDesc& op, const Target& target);

Plan allgather_ring(const OpDesc& op, const Target& target, Ranks ranks);
FlowsOf allgather_ring_flows(const OpDesc& op, const Target& target);
uint64_t allgather_ring_chunks(const OpDesc& op, const Target& target);

Plan broadcast_chain(const OpDesc& op, const Target& target, Ranks ranks);
FlowsOf broadcast_chain_flows(const OpDesc& op, const Target& target);
uint64_t broadcast_chain_chunks(const OpDesc& op, const Target& target);

bool allgather_gemm_ring_does(const OpDesc& op, const Target& target);
Plan allgather_gemm_ring(const OpDesc& op, const Target& target, Ranks ranks);
FlowsOf allgather_gemm_ring_flows(const OpDesc& op, const Target& target);
uint64_t allgather_gemm_ring_chunks(const OpDesc& op, const Target& target);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_LARGE_WORLDS_H_
