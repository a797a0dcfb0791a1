// Bugs in the code that meets, planted in the place of one decision each: the simulation finds
// every one within few seeds.
#include <gtest/gtest.h>

#include "tests/unit/transport/bootstrap/sim/judge.h"
#include "tests/unit/transport/bootstrap/sim/library.h"

namespace sk::sim {
namespace {

constexpr uint64_t kSeedsMost = 300;

class Planted {
 public:
  explicit Planted(Bug bug) { planted = bug; }
  ~Planted() { planted = Bug::kNone; }
};

// What is wrong first; "": nothing is.
std::string found(Bug bug) {
  const Planted scope(bug);
  for (uint64_t seed = 1; seed <= kSeedsMost; ++seed) {
    const Plan plan = draw_plan(seed);
    std::string wrong = judge(plan, run(plan));
    if (wrong.empty()) continue;
    testing::Test::RecordProperty("seeds", int(seed));
    return wrong;
  }
  return "";
}

class PlantedBug : public testing::TestWithParam<Bug> {};

TEST_P(PlantedBug, IsFound) { EXPECT_NE(found(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(
    Each, PlantedBug,
    testing::Values(Bug::kWholeLost, Bug::kPartsSwapped, Bug::kErrorUntold, Bug::kMemberNeverLate,
                    Bug::kHubNeverLate, Bug::kProofUnread, Bug::kDescriptorKept,
                    Bug::kLeftCountedAlone, Bug::kSleepsTooLong, Bug::kDeathUnseen),
    [](const testing::TestParamInfo<Bug>& info) { return name_of(info.param); });

}  // namespace
}  // namespace sk::sim
