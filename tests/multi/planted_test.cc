// Would the tests see a bug in the executor? Each planted one must make a result differ from the
// oracle's: over kind shared memory, or over faulty sessions where a kind transport hides it.
//
// Bugs of lib/exec/cpu that cannot be planted from outside have been tried by hand; caught by
// (O: multi_ops_test, F: multi_fault_test, B: multi_bad_input_test):
//
//   ready() ignores the base of a wait              O F B  element differs
//   ready() looks at a task's last wait only        O F    element differs
//   a tile's posts before the tile                  O      element differs
//   one staging area for both parities              B      expect_usable() between desyncs
//   own operands patched at the wrong parity        O F B  crash
//   peers' operands taken from the entry before     O F    element differs
//   peers' entries not awaited                      O F B  "has no memory to take part"
//   queues but the first do not await the entries   O      crash in OpsLarge, 3 workers
//   helpers of the first queue do not await them    A      crash (exec_cpu_admission_test; O under
//                                                          ThreadSanitizer, one run of six)
//   a put's bytes without signal, then its post     F      element differs
//   a post's amount stored for its running count    O F B  timeout that names the rank
//   bases not moved on after a run                  O F B  element differs
//   pairs enter in the collective lane              O F B  timeout that names the rank
#include "tests/multi/planted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/multi/fault_backend.h"
#include "tests/multi/op_case.h"

namespace sk::testing_ops {
namespace {

// Threads interleave as they like, so a bug may need more than one row to show.
constexpr int kRowsMax = 200;

struct Planted {
  const char* name;
  Bug bug;
  bool faults;
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

class PlantedBug : public testing::TestWithParam<Planted> {
 protected:
  std::string run(uint64_t seed) const {
    const Planted& planted = GetParam();
    use_backend(planted.faults ? make_fault_network({.seed = seed}) : nullptr,
                [&](std::unique_ptr<Executor> sound, Ledger& ledger) {
                  return plant(planted.bug, std::move(sound), ledger);
                });
    std::string wrong = run_threads({.ranks = int(2 + seed % 3), .cases = 40, .seed = seed});
    use_backend(nullptr);
    return wrong;
  }
};

TEST_P(PlantedBug, ShowsInAResult) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "these bugs are data races, at which ThreadSanitizer ends the test";
#endif
  const uint64_t seed = base_seed();
  for (int i = 0; i < kRowsMax; ++i) {
    const std::string wrong = run(seed + uint64_t(i));
    if (wrong.empty()) continue;
    EXPECT_THAT(wrong, testing::ContainsRegex("element [0-9]+ of [0-9]+ is"));
    std::printf("caught in row %d: %s", i, wrong.c_str());
    return;
  }
  FAIL() << "not seen in " << kRowsMax << " rows, SK_TEST_SEED=" << seed;
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedBug,
    testing::Values(Planted{"ignores_waits", Bug::kIgnoresWaits, false},
                    Planted{"ignores_waits_under_faults", Bug::kIgnoresWaits, true},
                    Planted{"ignores_base", Bug::kIgnoresBase, false},
                    Planted{"ignores_base_under_faults", Bug::kIgnoresBase, true},
                    Planted{"posts_before_tile", Bug::kPostsBeforeTile, false},
                    Planted{"signals_put_apart_under_faults", Bug::kSignalsPutApart, true},
                    Planted{"one_staging_area", Bug::kOneStagingArea, false},
                    Planted{"forgets_its_own_work", Bug::kForgetsItsOwnWork, false}),
    [](const auto& info) { return std::string(info.param.name); });

// What is caught above is the bug, not the way it is planted.
TEST(Planting, IsNoBugByItself) {
  for (const bool faults : {false, true}) {
    const uint64_t seed = base_seed();
    use_backend(faults ? make_fault_network({.seed = seed}) : nullptr,
                [](std::unique_ptr<Executor> sound, Ledger& ledger) {
                  return plant(Bug::kNone, std::move(sound), ledger);
                });
    const std::string wrong = run_threads({.ranks = 3, .cases = 80, .seed = seed});
    use_backend(nullptr);
    EXPECT_EQ(wrong, "") << "SK_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace sk::testing_ops
