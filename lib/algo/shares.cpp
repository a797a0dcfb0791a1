#include "lib/algo/shares.h"

#include <algorithm>

namespace sk::algo {
namespace {

// Blocks of all ranks in one output, each in turns of its own, cut it into as many parts as there
// are ranks, squared, times turns; all of them are judged.
uint64_t turns_max(uint32_t world_size) { return std::clamp(128 / world_size, 8u, 32u); }

}  // namespace

Shares::Shares(const Layout& layout, uint64_t count, uint32_t ranks, uint32_t lanes)
    : count_(count),
      element_bytes_(layout.element_bytes()),
      unit_(line_elements(layout.call().dtype)),
      ranks_(ranks) {
  const Target& target = layout.target();
  const uint64_t per_rank = count * element_bytes_ / ranks;
  const uint64_t least = std::max<uint64_t>(1, target.queue_bytes_min);
  const uint32_t most =
      std::clamp<uint32_t>(target.workers, 1, std::max(1u, layout.lanes_max() / lanes));
  queues_ = uint32_t(std::clamp<uint64_t>(per_rank / least, 1, most));
  if (queues_ == 1 || target.turn_bytes < 64) return;
  const uint64_t least_turn = target.turn_bytes / 64 * unit_;
  const uint64_t turns = count / (least_turn * sharers());
  // An odd number of the least ones: the queues' places go through all of the memory's channels, as
  // they do with those.
  const uint64_t most_turns = turns_max(layout.ranks());
  turn_ = least_turn * (turns > most_turns ? turns / most_turns | 1 : 1);
  if (count / (turn_ * sharers()) > most_turns) turn_ += 2 * least_turn;
  turns_ = uint32_t(count / (turn_ * sharers()));
  least_piece_ = 4 * least_turn;  // What a hand-over is worth.
}

Slice Shares::rest(uint32_t rank, uint32_t queue) const {
  const uint64_t turns = turns_ * turn_ * sharers();
  const Slice slice = slice_of(count_ - turns, sharers(), rank * queues_ + queue, unit_);
  return {turns + slice.begin, slice.count};
}

bool Shares::has(uint32_t rank, uint32_t queue) const {
  return turns_ > 0 || rest(rank, queue).count > 0;
}

std::vector<Share> Shares::of(uint32_t rank, uint32_t queue) const {
  std::vector<Share> shares;
  if (turns_ > 0) {
    shares.push_back({(rank * queues_ + queue) * turn_, turn_, turn_ * sharers(), turns_});
  }
  const Slice last = rest(rank, queue);
  if (last.count > 0) shares.push_back({last.begin, last.count, last.count, 1});
  return shares;
}

std::vector<Share> Shares::pieces(uint32_t rank, uint32_t queue) const {
  std::vector<Share> pieces;
  for (const Share& share : of(rank, queue)) {
    const auto worth = uint32_t((least_piece_ + share.count - 1) / share.count);
    const uint32_t rows = std::max(worth, (share.rows + kPiecesMax - 2) / (kPiecesMax - 1));
    for (uint32_t row = 0; row < share.rows; row += rows) {
      Share piece = share;
      piece.begin += row * share.pitch;
      piece.rows = std::min(rows, share.rows - row);
      pieces.push_back(piece);
    }
  }
  return pieces;
}

Region Shares::region(const Share& share, uint32_t buffer, uint64_t offset, RegionAccess access,
                      uint32_t buffer_count) const {
  const uint64_t bytes = share.count * element_bytes_;
  return {.offset = offset + share.begin * element_bytes_,
          .row_bytes = bytes,
          .pitch = share.rows > 1 ? share.pitch * element_bytes_ : bytes,
          .rows = share.rows,
          .buffer = buffer,
          .buffer_count = buffer_count,
          .access = access};
}

}  // namespace sk::algo
