// What every rank of a stage does in the session suite. A body returns the first broken promise as
// SK_ERR_INTERNAL, or the status that ended its waits.
#ifndef SK_TESTS_CTS_SESSION_BODIES_H_
#define SK_TESTS_CTS_SESSION_BODIES_H_

#include "lib/base/status.h"
#include "tests/cts/registry.h"
#include "tests/support/stage.h"

namespace sk::cts {

// Stamped messages of random sizes between all pairs at once, with credits; numbers as
// SessionNumber says. session_traffic.cc.
Status traffic(testing_support::RankContext& context);

// session_flow.cc.
Status unlooked(testing_support::RankContext& context);
Status drains(testing_support::RankContext& context);

// session_first.cc.
Status first_words(testing_support::RankContext& context);
Status leaves_first(testing_support::RankContext& context);
Status dies_first(testing_support::RankContext& context);

// session_bodies.cc.
Status entries(testing_support::RankContext& context);
Status memory(testing_support::RankContext& context);
Status bad_arguments(testing_support::RankContext& context);
Status sleepers(testing_support::RankContext& context);
Status aborts(testing_support::RankContext& context);
Status two_aborts(testing_support::RankContext& context);
Status leaves(testing_support::RankContext& context);
Status outlives(testing_support::RankContext& context);
Status late_look(testing_support::RankContext& context);

// Runs `body` and says what it has left behind: descriptors, threads, mappings. Only where the
// rank has a process of its own.
Status leaving_nothing(testing_support::RankContext& context,
                       Status (*body)(testing_support::RankContext&));

// A broken promise.
template <typename... Args>
Status broken(fmt::format_string<Args...> format, Args&&... args) {
  return error(SK_ERR_INTERNAL, format, std::forward<Args>(args)...);
}

// Small numbers from a seed that both ends of a message know.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0)
      : state_(seed * 0x9e3779b97f4a7c15 ^ a << 48 ^ b << 32 ^ c) {}
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace sk::cts

#endif  // SK_TESTS_CTS_SESSION_BODIES_H_
