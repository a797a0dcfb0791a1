#include "lib/algo/hosts.h"

#include <algorithm>

namespace sk::algo {

Hosts::Hosts(const Target& target) : host_(target.world_size), place_(target.world_size) {
  for (uint32_t rank = 0; rank < target.world_size; ++rank) {
    const uint32_t least = target.host_of.empty() ? 0 : target.host_of[rank];
    if (least == rank) {
      host_[rank] = count();
      ranks_.emplace_back();
    } else {
      host_[rank] = host_[least];
      in_order_ = in_order_ && host_[rank] == last();
    }
    std::vector<uint32_t>& its = ranks_[host_[rank]];
    place_[rank] = uint32_t(its.size());
    its.push_back(rank);
  }
  for (const std::vector<uint32_t>& each : ranks_) {
    const uint32_t size = uint32_t(each.size());
    smallest_ = smallest_ == 0 ? size : std::min(smallest_, size);
    largest_ = std::max(largest_, size);
  }
}

HostByHost::HostByHost(const Target& target, uint32_t first) : places_(target.world_size) {
  const Hosts hosts(target);
  for (uint32_t i = 0; i < hosts.count(); ++i) {
    std::vector<uint32_t> its = hosts.on((hosts.of(first) + i) % hosts.count());
    if (i == 0) std::rotate(its.begin(), its.begin() + hosts.place(first), its.end());
    ranks_.insert(ranks_.end(), its.begin(), its.end());
  }
  for (uint32_t place = 0; place < ranks_.size(); ++place) places_[ranks_[place]] = place;
}

HostTree tree_of(uint32_t hosts, uint32_t strand) {
  const uint32_t last = hosts - 1;
  std::vector<uint32_t> leaves;
  if (strand + 2 < hosts) {
    leaves = {strand, strand + 1};
  } else {
    leaves = {strand + 2 == hosts ? 0 : hosts - 2};
  }
  std::vector<std::vector<uint32_t>> chains(leaves.size());
  uint32_t next = 0;
  for (uint32_t host = 0; host < last; ++host) {
    if (std::find(leaves.begin(), leaves.end(), host) != leaves.end()) continue;
    chains[next++ % chains.size()].push_back(host);
  }
  HostTree tree{std::vector<uint32_t>(hosts, last), std::vector<uint32_t>(hosts, 0)};
  for (size_t i = 0; i < chains.size(); ++i) {
    chains[i].push_back(leaves[i]);
    uint32_t parent = last;
    for (const uint32_t host : chains[i]) {
      tree.parent[host] = parent;
      tree.depth[host] = tree.depth[parent] + 1;
      parent = host;
    }
  }
  return tree;
}

}  // namespace sk::algo
