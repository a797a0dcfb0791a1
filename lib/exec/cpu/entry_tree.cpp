#include "lib/exec/cpu/entry_tree.h"

#include <algorithm>
#include <numeric>

namespace sk::cpu {

TreePlace::TreePlace(uint32_t rank, uint32_t world_size, uint32_t arity)
    : is_root(rank == 0), parent(is_root ? 0 : (rank - 1) / arity) {
  const uint64_t first = uint64_t(rank) * arity + 1;
  if (first >= world_size) return;
  first_child = uint32_t(first);
  children = std::min(arity, world_size - first_child);
}

EntryTree::EntryTree(Endpoint& endpoint, uint32_t arity)
    : endpoint_(endpoint), used_(endpoint.world_size() > kEnterEachMax) {
  if (used_) place({endpoint.rank(), endpoint.world_size(), arity});
}

void EntryTree::place(const TreePlace& place) {
  below_.resize(place.children);
  std::iota(below_.begin(), below_.end(), place.first_child);
  if (!place.is_root) above_ = {place.parent};
}

void EntryTree::follow_hosts(std::span<const uint32_t> host_of) {
  if (host_of.empty()) return;
  crosses_ = true;
  uint32_t hosts = 0;
  for (uint32_t rank = 0; rank < host_of.size(); ++rank) hosts += host_of[rank] == rank;
  const bool shared = hosts < host_of.size();
  used_ = shared || host_of.size() > kEnterEachMax;
  below_.clear();
  above_.clear();
  const uint32_t own = endpoint_.rank(), first = host_of[own];
  if (!shared || hosts > kEnterEachMax) {
    // Hosts may differ in whether their ranks share cores.
    if (used_) place({own, endpoint_.world_size(), kArityAlone});
    return;
  }
  if (own != first) {
    above_ = {first};
    for (const uint32_t host : host_of) far_.push_back(host != first);
    return;
  }
  for (uint32_t i = 1; i < host_of.size(); ++i) {  // Rotated, so that no rank is hit by all.
    const uint32_t rank = uint32_t((own + i) % host_of.size());
    if (host_of[rank] == own) below_.push_back(rank);
    if (host_of[rank] == rank) above_.push_back(rank);
  }
}

Status EntryTree::begin(uint64_t seq, uint64_t fingerprint) {
  seq_ = seq;
  fingerprint_ = fingerprint;
  heard_ = 0;
  alike_ = fingerprint != 0;
  stage_ = Stage::kBelow;
  endpoint_.header().entered.store(seq, std::memory_order_release);
  return go_on();
}

bool EntryTree::step() {
  if (stage_ == Stage::kOver) return true;
  status_ = go_on();
  return stage_ == Stage::kOver || !status_.ok();
}

Status EntryTree::go_on() {
  if (stage_ == Stage::kBelow) {
    if (!hear_all(below_)) return {};
    stage_ = Stage::kAbove;
    heard_ = 0;
    for (const uint32_t peer : above_) SK_RETURN_IF_ERROR(tell(peer));
  }
  if (stage_ == Stage::kAbove) {
    if (!hear_all(above_)) return {};
    stage_ = Stage::kOver;
    for (const uint32_t peer : below_) SK_RETURN_IF_ERROR(tell(peer));
  }
  return {};
}

bool EntryTree::hear_all(const std::vector<uint32_t>& peers) {
  for (; heard_ < peers.size(); ++heard_) {
    if (!arrived(peers[heard_])) return false;
    hear(peers[heard_]);
  }
  return true;
}

Status EntryTree::tell(uint32_t peer) {
  EntrySlot entry{};
  entry.fingerprint = alike_ ? fingerprint_ : 0;
  return endpoint_.session(peer).enter(entry, kTreeLane, seq_);
}

bool EntryTree::arrived(uint32_t peer) const {
  return endpoint_.entry(peer, kTreeLane, seq_).seq.load(std::memory_order_acquire) == seq_;
}

void EntryTree::hear(uint32_t peer) {
  alike_ = alike_ && endpoint_.entry(peer, kTreeLane, seq_).fingerprint == fingerprint_;
}

uint32_t EntryTree::awaited() const {
  for (uint32_t peer = 0; peer < endpoint_.world_size(); ++peer) {
    if (endpoint_.entered_by(peer) < seq_) return peer;
  }
  return (stage_ == Stage::kBelow ? below_ : above_)[heard_];
}

}  // namespace sk::cpu
