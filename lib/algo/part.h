// One rank's part in the vocabulary of planners: entry, fan-out posts, final waits.
#ifndef SK_LIB_ALGO_PART_H_
#define SK_LIB_ALGO_PART_H_

#include <functional>
#include <vector>

#include "lib/algo/layout.h"

namespace sk::algo {

// The number of a signal on its edge is its lane: one purpose ("data", "credit", "done") of one
// producing queue.
class Part {
 public:
  // Declares the signals to this rank: posts(producer, lane) is what `producer` adds in one run; 0
  // where there is none.
  Part(const Layout& layout, uint32_t rank, uint32_t queues, uint32_t lanes,
       const std::function<uint32_t(uint32_t producer, uint32_t lane)>& posts);

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }
  const std::vector<uint32_t>& peers() const { return peers_; }

  // The entry exchange: with the ranks `peers_` of the whole world, or with one. Of a world of one
  // there is nobody to agree with.
  void set_peers(std::vector<uint32_t> peers);
  void enter(bool after_all);
  void await(uint32_t queue);

  Wait from(uint32_t producer, uint32_t lane, uint32_t target) const {
    return {producer, lane, target};
  }
  Post to(uint32_t peer, uint32_t lane, uint32_t add = 1) const { return {peer, lane, add}; }
  std::vector<Post> to_all_peers(uint32_t lane) const;

  // Posts in order, of this and of a reduction: where there are any.
  void copy(uint32_t queue, Region src, Region dst, bool after_all = false,
            std::span<const Wait> waits = {}, std::span<const Post> posts = {},
            StoreHintParam hint = kStoreDefault, bool posts_in_order = false);
  // One row on both sides; the first post travels with the bytes.
  void put(Region src, Region dst, Post post, bool after_all, std::span<const Wait> waits);
  // `regions`: up to five inputs in rank order, then the output.
  void reduce(uint32_t queue, std::initializer_list<Region> regions, DType dtype, DType out_dtype,
              RedOp op, bool after_all, std::span<const Wait> waits, std::span<const Post> posts,
              StoreHintParam hint, bool posts_in_order = false);
  void reduce(uint32_t queue, std::span<const Region> regions, DType dtype, DType out_dtype,
              RedOp op, bool after_all, std::span<const Wait> waits, std::span<const Post> posts,
              StoreHintParam hint, bool posts_in_order = false);
  // Of what the other ranks passed on and this rank's own operand, in rank order. `passed` is rank
  // 0's copy, the others' copies have the buffers after it. What the rank passed on itself is not
  // read back: the operand is nearer.
  void reduce_ranks(uint32_t queue, Region passed, Region own, Region out, DType dtype, RedOp op,
                    bool after_all, std::span<const Wait> waits, std::span<const Post> posts,
                    StoreHintParam hint);
  void nop(uint32_t queue, std::span<const Wait> waits, std::span<const Post> posts = {},
           bool after_all = false);
  RankBuilder& builder() { return builder_; }

  // Waits for the last post of every signal: the run's end must have seen them all.
  RankPlan finish();

 private:
  uint32_t rank_, ranks_;
  std::vector<uint32_t> peers_;
  RankBuilder builder_;
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_PART_H_
