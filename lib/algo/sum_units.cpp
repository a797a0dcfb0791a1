#include "lib/algo/sum_units.h"

#include <algorithm>

namespace sk::algo {
namespace {

// A strand has so many bytes at least, where there are several columns.
constexpr uint64_t kStrandBytesMin = 8 << 10;

}  // namespace

uint32_t SumUnits::columns_of(const Hosts& hosts, uint64_t elements, uint64_t element_bytes) {
  const uint64_t worth = elements * element_bytes / (hosts.count() * kStrandBytesMin);
  return uint32_t(std::clamp<uint64_t>(worth, 1, hosts.smallest()));
}

SumUnits::SumUnits(const Layout& layout, const Hosts& hosts, uint64_t sum_bytes)
    : hosts_(hosts), scatters_(layout.op().kind() == OpKind::kReduceScatter) {
  const uint64_t count = uint64_t(layout.call().count), unit = line_elements(layout.call().dtype);
  columns_ = scatters_ ? hosts_.smallest() : columns_of(hosts_, count, layout.element_bytes());
  const uint32_t strands = scatters_ ? hosts_.ranks() : hosts_.count() * columns_;
  const auto slice = [&](uint32_t strand) { return slice_of(count, strands, strand, unit); };
  const Chunks chunks(layout, scatters_ ? count : slice(0).count,
                      /*pairs=*/uint64_t(hosts_.ranks()) * strands, sum_bytes);
  elements_max_ = chunks.elements();
  if (scatters_) {
    for (uint32_t column = 0; column < columns_; ++column)
      units_.push_back(of_blocks(column, count, chunks));
    return;
  }
  add_trees([&](uint32_t strand) {
    std::vector<Piece> pieces;
    const Slice whole = slice(strand);
    for (uint32_t chunk = 0; chunk < chunks.count(whole.count); ++chunk) {
      const Slice piece = chunks.of(whole, chunk);
      pieces.push_back({piece.begin, piece.begin, piece.count});
    }
    return pieces;
  });
}

SumUnits::SumUnits(const Hosts& hosts, const std::vector<Piece>& pieces, uint64_t element_bytes)
    : hosts_(hosts) {
  uint64_t elements = 0;
  for (const Piece& piece : pieces) {
    elements += piece.count;
    elements_max_ = std::max(elements_max_, piece.count);
  }
  columns_ = columns_of(hosts_, elements, element_bytes);
  // Each to the strand in whose share of all elements its middle lies.
  std::vector<std::vector<Piece>> strands(uint64_t(hosts_.count()) * columns_);
  uint64_t before = 0;
  for (const Piece& piece : pieces) {
    strands[(2 * before + piece.count) * strands.size() / (2 * elements)].push_back(piece);
    before += piece.count;
  }
  add_trees([&](uint32_t strand) { return strands[strand]; });
}

void SumUnits::add_trees(const Cut& pieces_of) {
  for (uint32_t host = 0; host < hosts_.count(); ++host)
    trees_.push_back(tree_of(hosts_.count(), host));
  for (uint32_t column = 0; column < columns_; ++column)
    units_.push_back(of_trees(column, pieces_of));
}

// Chunk by chunk of all blocks, so that all owners get results at any time.
std::vector<SumUnits::Unit> SumUnits::of_blocks(uint32_t column, uint64_t count,
                                                const Chunks& chunks) const {
  std::vector<Unit> units;
  for (uint32_t chunk = 0; chunk < chunks.count(count); ++chunk) {
    const Slice piece = chunks.of({0, count}, chunk);
    for (uint32_t owner = 0; owner < hosts_.ranks(); ++owner) {
      if (hosts_.place(owner) % columns_ != column) continue;
      const uint64_t in = owner * count + piece.begin;
      units.push_back({owner, in, piece.begin, piece.count, units.size()});
    }
  }
  return units;
}

// Tree after tree. A rank may be nearer to the last host in the next one: times leave room, so that
// results come to it in the order of units all the same.
std::vector<SumUnits::Unit> SumUnits::of_trees(uint32_t column, const Cut& pieces_of) const {
  std::vector<Unit> units;
  uint64_t time = 0;
  for (uint32_t tree = 0; tree < hosts_.count(); ++tree) {
    uint32_t nearer = 0;
    for (uint32_t host = 0; tree > 0 && host < hosts_.count(); ++host) {
      const uint32_t before = trees_[tree - 1].depth[host], now = trees_[tree].depth[host];
      nearer = std::max(nearer, before - std::min(before, now));
    }
    time += kHopTimes * nearer;
    for (const Piece& piece : pieces_of(tree * columns_ + column))
      units.push_back({tree, piece.in, piece.out, piece.count, time++});
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
