#include "lib/algo/sum_units.h"

#include <algorithm>

namespace sk::algo {
namespace {

// A strand has so many bytes at least, where there are several columns.
constexpr uint64_t kStrandBytesMin = 8 << 10;

}  // namespace

SumUnits::SumUnits(const Layout& layout, const Hosts& hosts, uint64_t sum_bytes)
    : hosts_(hosts),
      scatters_(layout.op().kind() == OpKind::kReduceScatter),
      count_(uint64_t(layout.call().count)),
      unit_(line_elements(layout.call().dtype)) {
  if (scatters_) {
    columns_ = hosts_.smallest();
    strands_ = hosts_.ranks();
  } else {
    const uint64_t worth = count_ * layout.element_bytes() / (hosts_.count() * kStrandBytesMin);
    columns_ = uint32_t(std::clamp<uint64_t>(worth, 1, hosts_.smallest()));
    strands_ = hosts_.count() * columns_;
  }
  for (uint32_t host = 0; host < hosts_.count(); ++host)
    trees_.push_back(tree_of(hosts_.count(), host));
  chunks_.emplace(layout, scatters_ ? count_ : slice(0).count,
                  /*pairs=*/uint64_t(hosts_.ranks()) * strands_, sum_bytes);
  for (uint32_t column = 0; column < columns_; ++column)
    units_.push_back(scatters_ ? of_blocks(column) : of_trees(column));
}

Slice SumUnits::slice(uint32_t strand) const { return slice_of(count_, strands_, strand, unit_); }

// Chunk by chunk of all blocks, so that all owners get results at any time.
std::vector<SumUnits::Unit> SumUnits::of_blocks(uint32_t column) const {
  std::vector<Unit> units;
  for (uint32_t chunk = 0; chunk < chunks_->count(count_); ++chunk) {
    const Slice piece = chunks_->of({0, count_}, chunk);
    for (uint32_t owner = 0; owner < hosts_.ranks(); ++owner) {
      if (hosts_.place(owner) % columns_ != column) continue;
      const uint64_t in = owner * count_ + piece.begin;
      units.push_back({owner, in, piece.begin, piece.count, units.size()});
    }
  }
  return units;
}

// Tree after tree. A rank may be nearer to the last host in the next one: times leave room, so that
// results come to it in the order of units all the same.
std::vector<SumUnits::Unit> SumUnits::of_trees(uint32_t column) const {
  std::vector<Unit> units;
  uint64_t time = 0;
  for (uint32_t tree = 0; tree < hosts_.count(); ++tree) {
    uint32_t nearer = 0;
    for (uint32_t host = 0; tree > 0 && host < hosts_.count(); ++host) {
      const uint32_t before = trees_[tree - 1].depth[host], now = trees_[tree].depth[host];
      nearer = std::max(nearer, before - std::min(before, now));
    }
    time += kHopTimes * nearer;
    const Slice whole = slice(tree * columns_ + column);
    for (uint32_t chunk = 0; chunk < chunks_->count(whole.count); ++chunk) {
      const Slice piece = chunks_->of(whole, chunk);
      units.push_back({tree, piece.begin, piece.begin, piece.count, time++});
    }
  }
  return units;
}

uint32_t SumUnits::giver(uint32_t column, const Unit& unit, uint32_t rank) const {
  const uint32_t host = hosts_.of(rank), source = carrier(hosts_.last(), column);
  if (scatters_) return rank == unit.strand ? source : rank;
  if (rank == source) return rank;
  const uint32_t own = carrier(host, column);
  return rank == own ? carrier(trees_[unit.strand].parent[host], column) : own;
}

uint64_t SumUnits::hops(uint32_t column, const Unit& unit, uint32_t rank) const {
  if (scatters_) return 1;
  const uint32_t host = hosts_.of(rank);
  return trees_[unit.strand].depth[host] + (rank == carrier(host, column) ? 0 : 1);
}

}  // namespace sk::algo
