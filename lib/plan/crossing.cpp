#include "lib/plan/crossing.h"

#include <algorithm>
#include <map>

namespace sk {

std::vector<LinkLoad> crossing_of(const Plan& world) {
  const std::vector<uint32_t>& host_of = world.target.host_of;
  if (host_of.empty()) return {};
  std::map<uint32_t, LinkLoad> loads;
  for (const uint32_t host : host_of) loads[host].host = host;
  for (const RankPlan& part : world.ranks) {
    const uint32_t from = host_of[part.rank];
    for (const Task& task : part.tasks) {
      for (const Post& post : part.posts_of(task))
        loads[from].messages_out += host_of[post.rank] != from;
      if (task.op != TaskOp::kPut) continue;
      const Region& dst = part.regions_of(task)[1];
      const uint32_t to = host_of[world.buffers[dst.buffer].owner];
      if (to == from) continue;
      loads[from].bytes_out += dst.row_bytes;
      loads[to].bytes_in += dst.row_bytes;
    }
  }
  std::vector<LinkLoad> out;
  for (const auto& [host, load] : loads) out.push_back(load);
  return out;
}

CrossingSum sum_of(const std::vector<LinkLoad>& loads) {
  CrossingSum sum;
  for (const LinkLoad& load : loads) {
    sum.bytes_out_max = std::max(sum.bytes_out_max, load.bytes_out);
    sum.messages += load.messages_out;
  }
  return sum;
}

}  // namespace sk
