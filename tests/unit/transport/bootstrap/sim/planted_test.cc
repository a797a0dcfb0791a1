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

// What it shows by, in the judge's words.
struct Shows {
  Bug bug;
  const char* by;
};

bool is_found(const Shows& shows) {
  const Planted scope(shows.bug);
  for (uint64_t seed = 1; seed <= kSeedsMost; ++seed) {
    const Plan plan = draw_plan(seed);
    if (judge(plan, run(plan)).find(shows.by) == std::string::npos) continue;
    testing::Test::RecordProperty("seeds", int(seed));
    return true;
  }
  return false;
}

class PlantedBug : public testing::TestWithParam<Shows> {};

TEST_P(PlantedBug, IsFound) { EXPECT_TRUE(is_found(GetParam())); }

INSTANTIATE_TEST_SUITE_P(
    Each, PlantedBug,
    testing::Values(Shows{Bug::kWholeLost, "fails, and nothing was done to it"},
                    Shows{Bug::kPartsSwapped, "has something else of gather"},
                    Shows{Bug::kErrorUntold, "does not name who is missing, and nobody else"},
                    Shows{Bug::kMemberNeverLate, "hangs"}, Shows{Bug::kHubNeverLate, "hangs"},
                    Shows{Bug::kProofUnread, "met ranks that are none"},
                    Shows{Bug::kDescriptorKept, "descriptors open"},
                    Shows{Bug::kLeftCountedAlone, "takes others for those that are left"},
                    Shows{Bug::kSleepsTooLong, "hangs"}, Shows{Bug::kDeathUnseen, "spins"}),
    [](const testing::TestParamInfo<Shows>& info) { return name_of(info.param.bug); });

}  // namespace
}  // namespace sk::sim
