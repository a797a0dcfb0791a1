// Kernels whose waits are watched, on the CPU: a launch that hangs is ended, and what is told names
// who waits where; one that does not has told where its warps lost their time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/exec/watching.h"
#include "cuda/kernel/bare_source.cuh"
#include "tests/devhost/kernels.h"
#include "tests/devhost/planted.h"
#include "tests/support/gemm_cases.h"
#include "tests/support/plans.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace devhost;
using namespace testing_support;
using testing::HasSubstr;
using testing::StartsWith;

// On this machine a cycle is a nanosecond.
constexpr uint32_t kNever = UINT32_MAX, kSoon = 500'000'000;

class Watched : public testing::Test {
 protected:
  ~Watched() override { loses_arrival_of_warp = -1; }
  void begin(uint32_t deadline_cycles) { cuda::sk_watch = {blocks_, deadline_cycles, 0}; }
  std::string sentence() const { return cuda::who_waits(blocks_, "this"); }
  double share(const std::string& role, const std::string& place) const {
    for (const cuda::StallShare& each : cuda::stalls_of(blocks_))
      if (each.role == role && each.place == place) return each.share;
    return 0;
  }
  cuda::WatchedBlock blocks_[16] = {};
};

constexpr char kTrapped[] = "the kernel has trapped";

// The first arrival of a work warp says that it has left the first stage.
TEST_F(Watched, AMissingArrivalIsNamed) {
  begin(kSoon);
  loses_arrival_of_warp = int(cuda::kWatchedWorkWarp);
  EXPECT_EQ(run_bare(128, 16, 64 * 6, {}), kTrapped);
  EXPECT_THAT(sentence(), HasSubstr("load at stage_empty, stage 0, parity 0, task 0 (block 0, "));
  // Those that wait for it in turn.
  EXPECT_THAT(sentence(), HasSubstr("work at stage_full, stage 0, parity 1, task 0 (block 0, 8 "));
  EXPECT_THAT(sentence(), HasSubstr("post at ring_done, stage 0, parity 0, task 0"));
  EXPECT_THAT(sentence(), StartsWith("a launch on this hung and was ended; who waited longest "));
}

// Who fetches waits for a slot that was never given back.
TEST_F(Watched, AMissingArrivalOfThePostWarpIsNamed) {
  begin(kSoon);
  loses_arrival_of_warp = 2;
  EXPECT_EQ(run_bare(128 * 5, 256, 64, {.blocks = 1}), kTrapped);
  EXPECT_THAT(sentence(), HasSubstr("fetch at ring_empty, stage 0, parity 0, task 3"));
}

// Both blocks tell, although the bug is in one of them.
TEST_F(Watched, BlocksOfAPairTellBoth) {
  begin(kSoon);
  loses_arrival_of_warp = int(cuda::kWatchedWorkWarp);
  const Plan plan =
      plan_gemm({.m = 256, .n = 64, .k = 64, .ranks = 1, .workers = 1, .tile_m = 256});
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  EXPECT_EQ(run(plan, world, {.pairs = true}), kTrapped);
  for (const uint32_t block : {0u, 1u})
    EXPECT_NE(blocks_[block].told_ns, 0u) << block << ": " << sentence();
}

// A signal that nobody posts, in a run that has more time than the watchman.
TEST_F(Watched, ASignalThatNeverComesIsNamed) {
  begin(kSoon);
  Plan plan = direct_allreduce(2, 33);
  for (Task& task : plan.ranks[1].tasks) task.post_count = 0;
  std::mt19937_64 random(1);
  World world = random_world(plan, 1, random);
  EXPECT_EQ(run(plan, world, {}), kTrapped);
  EXPECT_THAT(sentence(), HasSubstr("fetch at signal, stage "));
  EXPECT_THAT(sentence(), HasSubstr("work at ring_full"));
}

// The wide kernel, whose load warp takes each stage for empty one phase too late.
struct WrongParity {
  static constexpr uint32_t kCols = cuda::kBoxRowsB;
  using Shared = cuda::GemmBoxShared<kCols, false>;
  using Block = cuda::BlockShared<WrongParity>;
  static constexpr bool kLoads = true, kPair = false;

  static bool can(const cuda::FetchedTask&) { return true; }
  static void init(Block& shared) { cuda::init(shared.tile); }
  static void begin_helper() {}
  static void begin_worker() {}

  struct Loader {
    explicit Loader(const cuda::TensorMap*) {}
    void load(const cuda::FetchedTask&, Block& shared) {
      shared.tile.pipeline.begin_fill(shared.tile.kStages + 3);
    }
  };
  struct Workman {
    uint32_t slice = 0;
    void perform(const cuda::Team& team, const cuda::FetchedTask& task, Block& shared) {
      cuda::GemmBoxes<true, LayoutB::kColumns, kCols, false>(team, cuda::product_of(task),
                                                             shared.tile, slice)
          .run();
    }
  };
};

TEST_F(Watched, AWrongParityIsNamed) {
  begin(kSoon);
  cuda::BareGemm gemm{};
  gemm.m = gemm.n = gemm.k = 64;
  gemm.band_rows = 1;
  gemm.dtype = gemm.out_dtype = uint32_t(DType::kBF16);
  EXPECT_FALSE(launch(1, cuda::kBlockThreads, sizeof(WrongParity::Block),
                      [&] { cuda::run_bare<WrongParity>(gemm); }));
  EXPECT_THAT(sentence(), HasSubstr("load at stage_empty, stage 3, parity 0, task 0"));
  EXPECT_THAT(sentence(), HasSubstr("work at stage_full, stage 0, parity 0, task 0"));
}

TEST_F(Watched, AWarpThatDoesNotMeetItsTeamIsNamed) {
  begin(kSoon);
  EXPECT_FALSE(launch(1, cuda::kBlockThreads, 1024, [] {
    const uint32_t warp = cuda::ptx::warp();
    cuda::begin_watch();
    cuda::ptx::sync_block();
    if (warp == cuda::kWatchman) cuda::keep_watch();
    if (warp > cuda::kWatchedWorkWarp) cuda::meet_team(1, 8 * cuda::ptx::kLanes);
    cuda::end_watch();
  }));
  EXPECT_THAT(sentence(), HasSubstr("work at team, stage 0, parity 0, task 0 (block 0, 7 warps"));
}

// What comes out is right, nobody is told to have hung, and times are in order.
TEST_F(Watched, ALaunchThatEndsHasToldItsStalls) {
  begin(kNever);
  ASSERT_EQ(run_bare(300, 520, 64 * 6, {.blocks = 2}), "");
  EXPECT_EQ(sentence(), "");
  const cuda::FirstTimes times = cuda::first_times_of(blocks_);
  EXPECT_GT(times.begin_ns, 0u);
  EXPECT_GT(times.task_ns, 0u);
  EXPECT_GT(times.stage_ns, times.task_ns);
  EXPECT_GT(times.end_ns, times.stage_ns);
  for (const auto& [role, place] :
       std::initializer_list<std::pair<const char*, const char*>>{{"load", "stage_empty"},
                                                                  {"work", "stage_full"},
                                                                  {"post", "ring_done"},
                                                                  {"fetch", "ring_empty"},
                                                                  {"work", "ring_full"}}) {
    EXPECT_GT(share(role, place), 0) << role << " at " << place;
    EXPECT_LT(share(role, place), 1) << role << " at " << place;
  }
  EXPECT_EQ(share("load", "stage_full"), 0);
  EXPECT_EQ(share("work", "stage_empty"), 0);
  for (const char* role : {"fetch", "load", "post", "work"}) {
    double sum = 0;
    for (const cuda::StallShare& each : cuda::stalls_of(blocks_))
      sum += each.role == std::string(role) ? each.share : 0;
    EXPECT_LE(sum, 1) << role;
  }
}

TEST_F(Watched, PlansComputeWhatTheOpSays) {
  begin(kNever);
  std::mt19937_64 random(5);
  for (const Plan& plan : {staged_allreduce(3, 17), plan_gemm({.m = 150, .n = 280, .k = 40}),
                           plan_gemm({.m = 70, .n = 33, .k = 67})}) {
    World world = random_world(plan, /*runs=*/2, random);
    ASSERT_EQ(run(plan, world, {}), "");
    EXPECT_EQ(sentence(), "");
    EXPECT_GT(share("fetch", "signal"), 0);
  }
  EXPECT_GT(share("work", "team"), 0);  // The last one's kernel has no load warp.
}

}  // namespace
}  // namespace sk
