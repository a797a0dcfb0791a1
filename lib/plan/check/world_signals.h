// The signals of a world, numbered through: those to rank 0 first, ascending by producer, then by
// their number on the edge. Replay looks them up for every wait and post that it meets.
#ifndef SK_LIB_PLAN_CHECK_WORLD_SIGNALS_H_
#define SK_LIB_PLAN_CHECK_WORLD_SIGNALS_H_

#include <algorithm>
#include <vector>

#include "lib/plan/plan.h"

namespace sk::check {

class WorldSignals {
 public:
  // Of a plan whose signal tables have been checked.
  explicit WorldSignals(const Plan& plan) : ranks_(uint32_t(plan.ranks.size())) {
    edges_.reserve(size_t(ranks_) * ranks_ + 1);
    for (const RankPlan& part : plan.ranks) {
      auto signal = part.signals.begin();
      for (uint32_t producer = 0; producer < ranks_; ++producer) {
        edges_.push_back(count());
        for (; signal != part.signals.end() && signal->producer == producer; ++signal)
          numbers_.push_back(signal->number);
      }
    }
    edges_.push_back(count());
  }

  uint32_t count() const { return uint32_t(numbers_.size()); }
  uint32_t first(uint32_t rank) const { return edges_[size_t(rank) * ranks_]; }
  // What one of the rank's tasks waits for, or posts; kNoSignal: there is none such.
  uint32_t of(uint32_t rank, const Wait& wait) const {
    return find(rank, wait.producer, wait.signal);
  }
  uint32_t of(uint32_t rank, const Post& post) const { return find(post.rank, rank, post.signal); }

 private:
  uint32_t find(uint32_t consumer, uint32_t producer, uint32_t number) const {
    if (consumer >= ranks_ || producer >= ranks_) return kNoSignal;
    const size_t edge = size_t(consumer) * ranks_ + producer;
    const uint32_t begin = edges_[edge], end = edges_[edge + 1];
    // An edge's numbers have few gaps.
    if (number < end - begin && numbers_[begin + number] == number) return begin + number;
    const auto last = numbers_.begin() + end;
    const auto at = std::lower_bound(numbers_.begin() + begin, last, number);
    return at == last || *at != number ? kNoSignal : uint32_t(at - numbers_.begin());
  }

  uint32_t ranks_;
  std::vector<uint32_t> edges_;  // Each one's first; by consumer, then producer; then the end.
  std::vector<uint32_t> numbers_;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_WORLD_SIGNALS_H_
