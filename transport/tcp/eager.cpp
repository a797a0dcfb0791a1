#include "transport/tcp/eager.h"

#include <algorithm>
#include <map>

namespace sk::tcp {

std::vector<uint32_t> eager_peers(const std::vector<int>& host_of, uint32_t rank,
                                  uint32_t all_up_to) {
  std::map<int, uint32_t> sizes;
  std::vector<uint32_t> index;  // Of each rank among those of its host.
  for (const int host : host_of) index.push_back(sizes[host]++);
  const auto least = std::ranges::min_element(
      sizes, [](const auto& one, const auto& other) { return one.second < other.second; });
  const bool all = host_of.size() - least->second <= all_up_to;
  const uint32_t own_size = sizes[host_of[rank]];
  std::vector<uint32_t> peers;
  for (uint32_t peer = 0; peer < host_of.size(); ++peer) {
    if (host_of[peer] == host_of[rank]) continue;
    const uint32_t few = std::min(own_size, sizes[host_of[peer]]);
    if (all || index[peer] % few == index[rank] % few) peers.push_back(peer);
  }
  return peers;
}

}  // namespace sk::tcp
