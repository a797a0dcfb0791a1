#include "lib/comm/agreement.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "lib/comm/world_memory.h"
#include "transport/bootstrap/report.h"

namespace sk {
namespace {

// The ranks of one host, who may be pinned, each to its own cores.
struct Host {
  CpuMask cpus;
  uint32_t ranks = 0;
  std::map<uint64_t, uint64_t> limits;  // By control group; ranks of one share its CPUs.
  bool has_limit = true;                // Every rank has one.
  uint32_t cores() const {
    uint64_t least = cpus.count(), allowed = 0;
    for (const auto& [group, limit] : limits) allowed += limit;
    if (has_limit) least = std::min(least, allowed);
    return uint32_t(std::max<uint64_t>(1, least));
  }
};

std::map<int, Host> hosts_of(std::span<const RankFacts> all, std::span<const int> host_of) {
  std::map<int, Host> hosts;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    Host& host = hosts[host_of[rank]];
    host.cpus |= all[rank].cpus;
    ++host.ranks;
    const CpuLimit& limit = all[rank].cpu_limit;
    host.has_limit = host.has_limit && limit.cpus != UINT32_MAX;
    host.limits[limit.group] = limit.cpus;
  }
  return hosts;
}

uint32_t workers_of(const RankFacts& facts, const Host& host) {
  if (facts.workers != 0) return facts.workers;
  const uint32_t own = std::max(1u, std::min(uint32_t(facts.cpus.count()), facts.cpu_limit.cpus));
  return std::clamp(host.cores() / host.ranks, 1u, std::min(own, kWorkersMax));
}

// All that comes of one communicator by shrinking meets at one name, so those who meet may have
// meant different ones. One difference is right: where the last step of a shrink failed for some
// ranks alone, they are still at its parent, of which they have got nothing, when the others shrink
// what they got.
Status check_lineage(std::span<const RankFacts> all) {
  const auto other = std::ranges::find_if(
      all, [&](const RankFacts& facts) { return facts.parent != all[0].parent; });
  if (other == all.end()) return {};
  const auto fits = [&](const RankFacts& child, const RankFacts& parent) {
    return child.grandparent == parent.parent &&
           std::ranges::all_of(all, [&](const RankFacts& facts) {
             return facts.parent == child.parent ||
                    (facts.parent == parent.parent && facts.has_sibling == 0);
           });
  };
  if (fits(all[0], *other) || fits(*other, all[0])) return {};
  return error(SK_ERR_DESYNC,
               "rank 0 shrinks one communicator and rank {} another, which both come of the same "
               "one; all ranks shrink them in the same order, one after the other",
               other - all.begin());
}

}  // namespace

// A plan has one number of queues and one size of tiles for all ranks, so the least of each: more
// workers than queues would idle, and fewer would run several queues in turn.
Result<Agreement> agree_on(std::span<const RankFacts> all, std::span<const int> host_of) {
  const std::map<int, Host> hosts = hosts_of(all, host_of);
  Agreement agreement;
  Target& target = agreement.target;
  target.world_size = uint32_t(all.size());
  target.workers = target.cores = UINT32_MAX;
  agreement.memory_bytes = agreement.heap_bytes_max = UINT64_MAX;
  uint64_t cache_bytes = UINT64_MAX;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const RankFacts& facts = all[rank];
    if (facts.version != all[0].version) {
      return error(SK_ERR_DESYNC,
                   "rank {} runs libsk {}.{}.{}, rank 0 {}.{}.{}; all ranks of a communicator need "
                   "the same",
                   rank, facts.version >> 16, facts.version >> 8 & 0xff, facts.version & 0xff,
                   all[0].version >> 16, all[0].version >> 8 & 0xff, all[0].version & 0xff);
    }
    const Host& host = hosts.at(host_of[rank]);
    target.workers = std::min(target.workers, workers_of(facts, host));
    target.cores = std::min(target.cores, host.cores());
    agreement.memory_bytes = std::min(agreement.memory_bytes, facts.memory_bytes);
    agreement.heap_bytes_max =
        std::min(agreement.heap_bytes_max,
                 facts.heap_bytes_max != 0 ? facts.heap_bytes_max : facts.memory_bytes);
    cache_bytes = std::min(cache_bytes, facts.cache_bytes);
    agreement.kernel_sets |= 1u << facts.kernel_set;
    agreement.put_only = agreement.put_only || facts.put_only != 0;
  }
  SK_RETURN_IF_ERROR(check_lineage(all));
  agreement.name = std::max<uint64_t>(1, all[0].drawn);
  SK_RETURN_IF_ERROR(check_memory(all, host_of));
  tune(target, cache_bytes);
  return agreement;
}

Result<Agreement> agree_on_target(Bootstrap& bootstrap, const RankFacts& mine, int64_t timeout_ns) {
  SK_ASSIGN_OR_RETURN(const std::vector<RankFacts> all, gather_each(bootstrap, mine, timeout_ns));
  return agree_on(all, bootstrap.host_of());
}

void LinkFacts::fail(const Status& status) {
  code = status.code();
  status.message().copy(why, sizeof why - 1);
}

Result<Links> agree_on_links(Bootstrap& bootstrap, const LinkFacts& mine, int64_t timeout_ns) {
  SK_ASSIGN_OR_RETURN(const std::vector<LinkFacts> all, gather_each(bootstrap, mine, timeout_ns));
  Links least;
  least.one_process_space = all[0].process_space != 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const LinkFacts& each = all[rank];
    if (each.code != SK_OK) {
      return error(each.code, "rank {}: {}", rank,
                   std::string(each.why, strnlen(each.why, sizeof each.why)));
    }
    least.mapped = least.mapped && each.mapped;
    least.put_bytes_max = std::min(least.put_bytes_max, each.put_bytes_max);
    if (each.host > rank || all[each.host].host != each.host) {
      return error(SK_ERR_INTERNAL,
                   "rank {} shares a host with rank {}, which says that it does with rank {}", rank,
                   each.host, each.host < all.size() ? all[each.host].host : each.host);
    }
    least.host_of.push_back(each.host);
    if (each.process_space != all[0].process_space) least.one_process_space = false;
  }
  if (std::ranges::all_of(least.host_of, [](uint32_t host) { return host == 0; }))
    least.host_of.clear();
  return least;
}

}  // namespace sk
