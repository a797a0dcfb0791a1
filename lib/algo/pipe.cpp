#include "lib/algo/pipe.h"

#include <algorithm>

namespace sk::algo {
namespace {

uint64_t longest_block(const Layout& layout, const PipeSpec& spec) {
  uint64_t longest = 0;
  for (uint32_t source = 0; source < layout.ranks(); ++source) {
    longest = std::max(longest, spec.block(source).count);
  }
  return longest;
}

}  // namespace

Pipe::Pipe(Layout& layout, PipeSpec spec)
    : layout_(layout),
      spec_(std::move(spec)),
      traffic_{layout.ranks(), spec_.only_source, spec_.only_owner},
      chunks_(layout, longest_block(layout, spec_), traffic_.pairs()) {
  if (!spec_.direct) {
    ring_.emplace(layout, traffic_, longest_block(layout, spec_), /*first_lane=*/0);
  }
}

uint32_t Pipe::posts(uint32_t rank, uint32_t producer, uint32_t lane) const {
  const uint64_t inbound = spec_.flows(producer, rank) ? spec_.block(producer).count : 0;
  if (!ring_) return chunks_.count(inbound);
  return ring_->posts(lane, inbound, spec_.flows(rank, producer) ? spec_.block(rank).count : 0);
}

void Pipe::write(Part& part) const {
  uint32_t steps = 0;
  for (uint32_t source = 0; source < layout_.ranks(); ++source) {
    steps = std::max(steps, chunks_.count(spec_.block(source).count));
  }
  // One step of slack between putting a chunk and copying the peers' out hides the hand-off.
  for (uint32_t step = 0; step < steps + 1; ++step) {
    send(part, step);
    if (step >= 1 && ring_) receive(part, step - 1);
  }
}

void Pipe::send(Part& part, uint32_t chunk) const {
  const uint32_t rank = part.rank();
  const Slice block = spec_.block(rank);
  if (chunk >= chunks_.count(block.count)) return;
  const Slice piece = chunks_.of(block, chunk);
  for (uint32_t i = 1; i < layout_.ranks(); ++i) {
    const uint32_t receiver = (rank + i) % layout_.ranks();
    if (!spec_.flows(rank, receiver)) continue;
    if (!ring_) {
      part.put(spec_.from(rank, receiver, piece), spec_.to(rank, receiver, piece),
               part.to(receiver, /*lane=*/0), false, {});
    } else {
      ring_->put(part, receiver, chunk, spec_.from(rank, receiver, piece), false);
    }
  }
}

void Pipe::receive(Part& part, uint32_t chunk) const {
  const uint32_t rank = part.rank();
  for (uint32_t i = 1; i < layout_.ranks(); ++i) {
    const uint32_t source = (rank + layout_.ranks() - i) % layout_.ranks();
    const Slice block = spec_.block(source);
    if (!spec_.flows(source, rank) || chunk >= chunks_.count(block.count)) continue;
    const Slice piece = chunks_.of(block, chunk);
    const Wait arrival = ring_->arrival(part, source, chunk);
    const auto credit = ring_->credit(part, source, chunk, block.count);
    part.copy(0, ring_->slot(rank, source, chunk, piece.count, kRead),
              spec_.to(source, rank, piece), false, {&arrival, 1},
              credit ? std::span(&*credit, 1) : std::span<const Post>(), kTakeInputs);
  }
}

}  // namespace sk::algo
