// How ranks of several hosts meet, gather, connect, and meet again where some are lost: the code as
// it is, its processes fibers of one thread, its time and its network a seed's.
//
// SK_SIM_SEEDS=100000 tries so many seeds, SK_SIM_SEED=N begins with seed N; of one seed with
// SK_SIM_SEEDS=1 the story is told.
#include <gtest/gtest.h>

#include <cstdio>
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
    if (wrong.empty() && count == 1) printf("%s", story(plan, outcome).c_str());
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

// Rank 1's time is up as the last rank comes: it asks who is missing, and has what it waited for
// before it has an answer. What it asked must not end the gather in which it is by then.
TEST(Simulation, AQuestionThatCrossesWhatWasWaitedForIsOver) {
  constexpr int64_t kTimeoutNs = 10 * kS, kDelayNs = 20 * kMs, kLegs = 5;  // Until one is let in.
  int crossed = 0;
  for (int64_t ms = -10; ms <= 10; ++ms) {
    Plan plan;
    plan.seed = uint64_t(ms + 11);
    plan.weather.delay_least_ns = plan.weather.delay_most_ns = kDelayNs;
    plan.world_size = plan.hosts = 3;
    plan.timeout_ns = kTimeoutNs;
    const int64_t last_ns = kTimeoutNs + kDelayNs - kLegs * kDelayNs + ms * kMs;
    for (const int64_t begins_ns : {1 * kS, int64_t{0}, last_ns}) {
      Part& part = plan.parts.emplace_back();
      part.rank = part.host = int(plan.parts.size()) - 1;
      part.begins_ns = begins_ns;
      part.world_size = 3;
    }
    plan.gathers.push_back({.bytes = 8, .timeout_ns = kTimeoutNs});
    const Outcome outcome = run(plan);
    const Step& met = outcome.logs[1].steps.front();
    if (met.code != SK_OK || met.ended_ns <= kTimeoutNs) continue;
    ++crossed;
    EXPECT_EQ(judge(plan, outcome), "");
  }
  EXPECT_GT(crossed, 0);
}

}  // namespace
}  // namespace sk::sim
