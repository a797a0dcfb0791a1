#include "lib/algo/part.h"

namespace sk::algo {

Part::Part(const Layout& layout, uint32_t rank, uint32_t queues, uint32_t lanes,
           const std::function<uint32_t(uint32_t, uint32_t)>& posts)
    : rank_(rank), ranks_(layout.ranks()), builder_(rank, queues) {
  for (uint32_t producer = 0; producer < ranks_; ++producer) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if (const uint32_t per_run = posts(producer, lane))
        builder_.add_signal({producer, lane, per_run});
    }
  }
  set_peers(peers_of(rank, ranks_));
}

void Part::set_peers(std::vector<uint32_t> peers) {
  peers_ = std::move(peers);
  builder_.set_peers(peers_);
}

void Part::enter(bool after_all) {
  if (ranks_ > 1) builder_.add({.op = TaskOp::kEnter, .after_all = after_all});
}

void Part::await(uint32_t queue) {
  if (ranks_ > 1) builder_.add({.op = TaskOp::kAwait, .queue = queue});
}

std::vector<Post> Part::to_all_peers(uint32_t lane) const {
  std::vector<Post> posts;
  for (const uint32_t peer : peers_) posts.push_back(to(peer, lane));
  return posts;
}

void Part::copy(uint32_t queue, Region src, Region dst, bool after_all, std::span<const Wait> waits,
                std::span<const Post> posts, StoreHintParam hint, bool posts_in_order) {
  src.access = kRead;
  dst.access = kWrite;
  const int64_t params[kCopyParamCount] = {hint};
  builder_.add({.op = TaskOp::kCopy,
                .queue = queue,
                .after_all = after_all,
                .posts_in_order = posts_in_order && !posts.empty(),
                .regions = {src, dst},
                .params = params,
                .waits = waits,
                .posts = posts});
}

void Part::put(Region src, Region dst, Post post, bool after_all, std::span<const Wait> waits) {
  src.access = kRead;
  dst.access = kWrite;
  builder_.add({.op = TaskOp::kPut,
                .after_all = after_all,
                .regions = {src, dst},
                .waits = waits,
                .posts = std::span(&post, 1)});
}

void Part::reduce(uint32_t queue, std::initializer_list<Region> regions, DType dtype,
                  DType out_dtype, RedOp op, bool after_all, std::span<const Wait> waits,
                  std::span<const Post> posts, StoreHintParam hint, bool posts_in_order) {
  reduce(queue, std::span(regions.begin(), regions.size()), dtype, out_dtype, op, after_all, waits,
         posts, hint, posts_in_order);
}

void Part::reduce(uint32_t queue, std::span<const Region> regions, DType dtype, DType out_dtype,
                  RedOp op, bool after_all, std::span<const Wait> waits,
                  std::span<const Post> posts, StoreHintParam hint, bool posts_in_order) {
  int64_t params[kReduceParamCount] = {};
  params[kReduceDtype] = int64_t(dtype);
  params[kReduceOutDtype] = int64_t(out_dtype);
  params[kReduceOp] = int64_t(op);
  params[kReduceHint] = hint;
  builder_.add({.op = TaskOp::kReduce,
                .queue = queue,
                .after_all = after_all,
                .posts_in_order = posts_in_order && !posts.empty(),
                .more_regions = regions,
                .params = params,
                .waits = waits,
                .posts = posts});
}

void Part::reduce_ranks(uint32_t queue, Region passed, Region own, Region out, DType dtype,
                        RedOp op, bool after_all, std::span<const Wait> waits,
                        std::span<const Post> posts, StoreHintParam hint) {
  Region low = passed, high = passed;
  low.buffer_count = rank_;
  high.buffer += rank_ + 1;
  high.buffer_count = ranks_ - rank_ - 1;
  const auto add = [&](std::initializer_list<Region> regions) {
    reduce(queue, regions, dtype, dtype, op, after_all, waits, posts, hint);
  };
  if (ranks_ == 1) return add({own, out});
  if (rank_ == 0) return add({own, high, out});
  if (rank_ == ranks_ - 1) return add({low, own, out});
  add({low, own, high, out});
}

void Part::nop(uint32_t queue, std::span<const Wait> waits, std::span<const Post> posts,
               bool after_all) {
  builder_.add({.queue = queue, .after_all = after_all, .waits = waits, .posts = posts});
}

RankPlan Part::finish() {
  std::vector<Wait> last;
  for (const Signal& signal : builder_.signals())
    last.push_back({signal.producer, signal.number, signal.posts_per_run});
  if (!last.empty()) nop(0, last);
  return builder_.finish();
}

}  // namespace sk::algo
