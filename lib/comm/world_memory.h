// Whether the hosts of a world have the memory that its ranks take when they connect.
//
// Signals and entry slots are one place for each pair of ranks, so what a world takes grows with
// the square of its ranks. It is asked before any rank takes any of it: ranks that take it each for
// itself all find enough, until the kernel ends processes.
#ifndef SK_LIB_COMM_WORLD_MEMORY_H_
#define SK_LIB_COMM_WORLD_MEMORY_H_

#include <span>

#include "lib/base/memory_limit.h"
#include "lib/comm/agreement.h"
#include "transport/session.h"

namespace sk {

// The part of the ranks' segments that depends on their number alone.
SegmentLayout control_layout(uint32_t world_size);

// What each rank of such a world commits when it connects: header, entry slots, signals, and its
// part of `staging_bytes` (staging_in()).
// The ledger is as many words, but untouched until a plan uses them, so it does not count.
uint64_t connected_bytes(uint32_t world_size, uint64_t staging_bytes);

// Smaller worlds do not ask: reading what is left takes longer than their first calls.
bool is_worth_asking(uint32_t world_size, uint64_t staging_bytes);

// As the others are told of it; a long name keeps its end.
void tell_room(const MemoryRoom& room, RankFacts& facts);

// The same on all ranks: SK_ERR_NO_MEMORY says how much the world would take, how much is left, and
// what to set.
Status check_memory(std::span<const RankFacts> all, std::span<const int> host_of);

}  // namespace sk

#endif  // SK_LIB_COMM_WORLD_MEMORY_H_
