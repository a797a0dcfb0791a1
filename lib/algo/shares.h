// How the queues of one rank, or of all, share out a vector that each of them can reach.
#ifndef SK_LIB_ALGO_SHARES_H_
#define SK_LIB_ALGO_SHARES_H_

#include <vector>

#include "lib/algo/layout.h"

namespace sk::algo {

// Runs of `count` elements, `pitch` elements apart.
struct Share {
  uint64_t begin = 0, count = 0, pitch = 0;
  uint32_t rows = 1;
};

class Shares {
 public:
  // Of `count` elements among the queues of `ranks` ranks, each of which has `lanes` on an edge.
  Shares(const Layout& layout, uint64_t count, uint32_t ranks, uint32_t lanes = 1);

  uint32_t queues() const { return queues_; }  // Of each rank.
  bool has(uint32_t rank, uint32_t queue) const;
  // What a queue of the `rank`-th of them has, in order: turns, then what no whole turn of all is
  // left for. Nothing, one of them, or both.
  std::vector<Share> of(uint32_t rank, uint32_t queue) const;
  // The same in smaller pieces, for whoever waits for each: at most kPiecesMax.
  std::vector<Share> pieces(uint32_t rank, uint32_t queue) const;

  // The share in operands that begin at `offset` (bytes) of each buffer.
  Region region(const Share& share, uint32_t buffer, uint64_t offset, RegionAccess access,
                uint32_t buffer_count = 1) const;

  static constexpr uint32_t kPiecesMax = 17;

 private:
  uint32_t sharers() const { return ranks_ * queues_; }
  Slice rest(uint32_t rank, uint32_t queue) const;

  uint64_t count_, element_bytes_, unit_;
  uint32_t ranks_, queues_;
  uint64_t turn_ = 0, least_piece_ = 0;  // Elements.
  uint32_t turns_ = 0;                   // That everybody has.
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_SHARES_H_
