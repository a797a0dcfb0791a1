#include "lib/exec/cpu/entry_tree.h"

#include <algorithm>

namespace sk::cpu {

TreePlace::TreePlace(uint32_t rank, uint32_t world_size, uint32_t arity)
    : is_root(rank == 0), parent(is_root ? 0 : (rank - 1) / arity) {
  const uint64_t first = uint64_t(rank) * arity + 1;
  if (first >= world_size) return;
  first_child = uint32_t(first);
  children = std::min(arity, world_size - first_child);
}

EntryTree::EntryTree(Endpoint& endpoint, uint32_t arity)
    : endpoint_(endpoint),
      used_(endpoint.world_size() > kEnterEachMax),
      place_(endpoint.rank(), endpoint.world_size(), arity) {}

Status EntryTree::begin(uint64_t seq, uint64_t fingerprint) {
  seq_ = seq;
  fingerprint_ = fingerprint;
  heard_ = 0;
  alike_ = fingerprint != 0;
  stage_ = Stage::kChildren;
  endpoint_.header().entered.store(seq, std::memory_order_release);
  return go_on();
}

bool EntryTree::step() {
  if (stage_ == Stage::kOver) return true;
  status_ = go_on();
  return stage_ == Stage::kOver || !status_.ok();
}

Status EntryTree::go_on() {
  if (stage_ == Stage::kChildren) {
    for (; heard_ < place_.children; ++heard_) {
      if (!arrived(place_.first_child + heard_)) return {};
      hear(place_.first_child + heard_);
    }
    stage_ = Stage::kParent;
    if (!place_.is_root) SK_RETURN_IF_ERROR(tell(place_.parent));
  }
  if (stage_ == Stage::kParent) {
    if (!place_.is_root) {
      if (!arrived(place_.parent)) return {};
      hear(place_.parent);
    }
    stage_ = Stage::kOver;
    for (uint32_t i = 0; i < place_.children; ++i) {
      SK_RETURN_IF_ERROR(tell(place_.first_child + i));
    }
  }
  return {};
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
  return stage_ == Stage::kChildren ? place_.first_child + heard_ : place_.parent;
}

}  // namespace sk::cpu
