// How ranks of several hosts meet, gather, connect, and meet again where some are lost: the code as
// it is, its processes fibers of one thread, its time and its network a seed's.
//
// SK_SIM_SEEDS=100000 tries so many seeds, SK_SIM_SEED=N begins with seed N; of one seed with
// SK_SIM_SEEDS=1 the story is told.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/transport/bootstrap/sim/judge.h"
#include "tests/unit/transport/bootstrap/sim/library.h"

namespace sk::sim {
namespace {

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr uint64_t kSeeds = 3'000;
constexpr int kToldMost = 5;

TEST(Simulation, EverySeedKeepsWhatMustHold) {
  const uint64_t first = number_of("SK_SIM_SEED", 1), count = number_of("SK_SIM_SEEDS", kSeeds);
  int told = 0;
  for (uint64_t seed = first; seed < first + count && told < kToldMost; ++seed) {
    const Plan plan = draw_plan(seed);
    const Outcome outcome = run(plan);
    const std::string wrong = judge(plan, outcome);
    if (wrong.empty()) continue;
    ++told;
    ADD_FAILURE() << "SK_SIM_SEED=" << seed << ":\n" << wrong;
  }
}

TEST(Simulation, IsTheSameBySeed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Plan plan = draw_plan(seed);
    const Outcome once = run(plan), again = run(plan);
    EXPECT_EQ(once.ended_ns, again.ended_ns) << plan.text();
    for (size_t i = 0; i < plan.parts.size(); ++i) {
      EXPECT_EQ(once.logs[i].ended_ns, again.logs[i].ended_ns) << plan.text();
      ASSERT_EQ(once.logs[i].steps.size(), again.logs[i].steps.size()) << plan.text();
      for (size_t k = 0; k < once.logs[i].steps.size(); ++k)
        EXPECT_EQ(once.logs[i].steps[k].message, again.logs[i].steps[k].message) << plan.text();
    }
  }
}

}  // namespace
}  // namespace sk::sim
