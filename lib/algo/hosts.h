// Which ranks share a host, as planners look at it.
#ifndef SK_LIB_ALGO_HOSTS_H_
#define SK_LIB_ALGO_HOSTS_H_

#include <vector>

#include "lib/plan/plan.h"

namespace sk::algo {

// Hosts are numbered from 0 on by their least ranks, a host's ranks by their places in it.
class Hosts {
 public:
  explicit Hosts(const Target& target);

  uint32_t count() const { return uint32_t(ranks_.size()); }
  uint32_t ranks() const { return uint32_t(host_.size()); }
  uint32_t of(uint32_t rank) const { return host_[rank]; }
  uint32_t place(uint32_t rank) const { return place_[rank]; }
  const std::vector<uint32_t>& on(uint32_t host) const { return ranks_[host]; }
  uint32_t size(uint32_t host) const { return uint32_t(ranks_[host].size()); }
  uint32_t last() const { return count() - 1; }

  uint32_t smallest() const { return smallest_; }
  uint32_t largest() const { return largest_; }
  // There are several, and some ranks share one.
  bool shared() const { return count() > 1 && largest_ > 1; }
  // The ranks of each follow one another, so that what is joined host by host is in rank order.
  bool in_order() const { return in_order_; }

 private:
  std::vector<std::vector<uint32_t>> ranks_;
  std::vector<uint32_t> host_, place_;
  uint32_t smallest_ = 0, largest_ = 0;
  bool in_order_ = true;
};

// All ranks one after another, `first` to begin with, so that those of a host follow one another:
// what goes from each to the next crosses once for each host, however its ranks are numbered.
class HostByHost {
 public:
  HostByHost(const Target& target, uint32_t first);
  uint32_t rank_at(uint32_t place) const { return ranks_[place]; }
  uint32_t place_of(uint32_t rank) const { return places_[rank]; }
  // As a ring: the rank so many places on, or back.
  uint32_t after(uint32_t rank, uint32_t places) const {
    return ranks_[(places_[rank] + places) % ranks_.size()];
  }
  uint32_t before(uint32_t rank, uint32_t places) const {
    return after(rank, uint32_t(ranks_.size()) - places);
  }

 private:
  std::vector<uint32_t> ranks_, places_;
};

// One way from the last host to all others: to whom each of them owes what it gets.
struct HostTree {
  std::vector<uint32_t> parent;  // Of the last host itself.
  std::vector<uint32_t> depth;
};

// One tree for each of as many strands as there are hosts. In two of them the last host sends once,
// in the others twice, and each other host is a leaf of two: what it has sent on the way up
// counted, every host sends 2 (hosts - 1) times.
HostTree tree_of(uint32_t hosts, uint32_t strand);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_HOSTS_H_
