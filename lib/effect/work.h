// The bound on how much a judge does: hostile plans end within seconds.
#ifndef SK_LIB_EFFECT_WORK_H_
#define SK_LIB_EFFECT_WORK_H_

#include <cstdint>

namespace sk::effect {

// What a piece that is kept counts as: so many of them take some 2 GB at most.
inline constexpr uint64_t kPieceSteps = 64;

// Steps are a few nanoseconds each.
class Work {
 public:
  void spend(uint64_t steps) { left_ = steps > left_ ? 0 : left_ - steps; }
  bool exhausted() const { return left_ == 0; }

 private:
  uint64_t left_ = 2'000'000'000;
};

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_WORK_H_
