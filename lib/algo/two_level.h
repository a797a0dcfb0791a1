// Forms of collectives whose ranks are of several hosts: what crosses does so once for each host,
// not once for each rank, and ranks of a host hand it to each other. All of them only put.
#ifndef SK_LIB_ALGO_TWO_LEVEL_H_
#define SK_LIB_ALGO_TWO_LEVEL_H_

#include <optional>

#include "lib/algo/hosts.h"
#include "lib/algo/ops.h"
#include "lib/op/ops/product.h"

namespace sk::algo {

enum class Levels {
  kFlat,        // As if each rank had a host of its own.
  kWhole,       // Sums: each input is put whole to a rank of each host, which joins them all.
  kAlongHosts,  // Sums: joined host by host, in rank order. Broadcast: handed from host to host.
  kOncePerHost  // What a rank has for others is put to one rank of each host, which hands it on.
};

// Which form a plan of `op` has.
struct Choice {
  Levels levels = Levels::kFlat;
  // Why it is flat though ranks share hosts; null where there is nothing to say.
  const char* why_flat = nullptr;
};
Choice choose_levels(const OpDesc& op, const Target& target);
// In the form that is chosen; none where that is flat. Not of an all-gather with a product, which
// has but another way for what it puts.
std::optional<Plan> plan_in_levels(const OpDesc& op, const Target& target, Ranks ranks);

// All-reduce and reduce-scatter.
Plan sum_whole(const OpDesc& op, const Target& target, Ranks ranks);
Plan sum_along_hosts(const OpDesc& op, const Target& target, Ranks ranks);
Plan allreduce_gemm_along_hosts(const OpDesc& op, const Target& target, Ranks ranks);
// As many tiles as such a product wants, of which each rank multiplies all.
uint32_t tiles_along_hosts(const GemmCall& call, const Target& target);
// All-gather and broadcast.
Plan relay(const OpDesc& op, const Target& target, Ranks ranks, Levels levels);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_TWO_LEVEL_H_
