// Which of the names at which a job on one host may meet a rank must pass over.
#ifndef SK_TRANSPORT_BOOTSTRAP_NAMES_H_
#define SK_TRANSPORT_BOOTSTRAP_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sk {

enum class NameState {
  kFree,
  kStrangers,  // Another user listens there.
  kDumb,       // Held, and nobody takes connections: perhaps not yet, perhaps never.
};

class NameWatch {
 public:
  explicit NameWatch(size_t count) : dumb_since_ns_(count, kNever) {}

  void saw(size_t i, NameState state, int64_t now_ns) {
    int64_t& since_ns = dumb_since_ns_[i];
    if (state != NameState::kDumb) since_ns = kNever;
    if (state == NameState::kDumb && since_ns == kNever) since_ns = now_ns;
  }
  // A rank of this job answered: what is held is held by it, whatever becomes of it.
  void answered() {
    for (int64_t& since_ns : dumb_since_ns_) since_ns = kNever;
  }
  // Dumb for too long to be a rank that is about to listen.
  bool given_up(size_t i, int64_t now_ns) const {
    return dumb_since_ns_[i] != kNever && now_ns - dumb_since_ns_[i] > kDumbNs;
  }
  // Whether one of `states`, those of the first names now, may still come to listen.
  bool undecided(const std::vector<NameState>& states, int64_t now_ns) const {
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] == NameState::kDumb && !given_up(i, now_ns)) return true;
    }
    return false;
  }

  static constexpr int64_t kDumbNs = 3'000'000'000;

 private:
  static constexpr int64_t kNever = -1;
  std::vector<int64_t> dumb_since_ns_;
};

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_NAMES_H_
