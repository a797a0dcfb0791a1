// Session conformance: what every transport promises, written once, run for each (registry.h).
//
// Seeds decide sizes, contents, order and moments of death; a failure prints the seed. Ranks share
// only the sessions and the stage that starts them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/cts/registry.h"
#include "tests/cts/session_bodies.h"
#include "tests/support/stage.h"

namespace sk::testing_support {

Result<RankBody> body_of(const std::string& name) {
  using Body = Status (*)(RankContext&);
  static const std::map<std::string, Body> bodies = {
      {"traffic", cts::traffic},         {"entries", cts::entries},
      {"memory", cts::memory},           {"bad_arguments", cts::bad_arguments},
      {"sleepers", cts::sleepers},       {"aborts", cts::aborts},
      {"two_aborts", cts::two_aborts},   {"leaves", cts::leaves},
      {"outlives", cts::outlives},       {"unlooked", cts::unlooked},
      {"drains", cts::drains},           {"late_look", cts::late_look},
      {"first_words", cts::first_words}, {"leaves_first", cts::leaves_first},
      {"dies_first", cts::dies_first},
  };
  const auto found = bodies.find(name);
  if (found == bodies.end()) return error(SK_ERR_INVALID_ARGUMENT, "no body is named {}", name);
  return RankBody(
      [body = found->second](RankContext& context) { return cts::leaving_nothing(context, body); });
}

}  // namespace sk::testing_support

namespace sk::cts {
namespace {

using namespace testing_support;

class SessionCts : public testing::TestWithParam<SessionBackend> {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const Exclusion& exclusion : GetParam().exclusions) {
      if (test.substr(0, test.find('/')) == exclusion.test) GTEST_SKIP() << exclusion.reason;
    }
    if (const std::string why = GetParam().skip_reason(); !why.empty()) GTEST_SKIP() << why;
    std::thread([] {}).join();  // Sanitizers start a thread of their own with the first one.
    descriptors_ = open_descriptors();
    threads_ = settled_threads();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(open_descriptors(), descriptors_);
    EXPECT_EQ(settled_threads(), threads_);
    EXPECT_EQ(mapped_segments(), 0u);
  }

  StageSpec spec(const std::string& body, uint32_t ranks) const {
    StageSpec spec = {.backend = GetParam().name, .body = body, .ranks = ranks};
    spec.processes = std::min(ranks, GetParam().processes_max);
    spec.seed = base_seed() + ++worlds_;
    spec.numbers[kVictim] = kNoVictim;
    return spec;
  }

  std::vector<RankEnd> run(const StageSpec& spec) {
    Stage stage(spec);
    const Status started = stage.start();
    EXPECT_TRUE(started.ok()) << started.message();
    return stage.join();
  }

  void expect_all_well(const StageSpec& spec) {
    SCOPED_TRACE(fmt::format("{} of {} ranks, seed {}", spec.body, spec.ranks, spec.seed));
    const std::vector<RankEnd> ends = run(spec);
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      ASSERT_TRUE(ends[rank].ended) << "rank " << rank;
      ASSERT_EQ(ends[rank].code, SK_OK) << "rank " << rank << ": " << ends[rank].message;
    }
  }

  // The others end with PEER_LOST for a rank of the process that died; which of its ranks does not
  // matter. A victim that was not killed as a process learns that it is dead.
  void expect_named(const StageSpec& world, const std::vector<RankEnd>& ends, uint32_t victim) {
    for (uint32_t rank = 0; rank < world.ranks; ++rank) {
      const bool dead = world.processes != 0 && rank % world.processes == victim % world.processes;
      EXPECT_EQ(ends[rank].ended, !dead) << "rank " << rank << ": " << ends[rank].message;
      if (dead) continue;
      EXPECT_EQ(ends[rank].code, SK_ERR_PEER_LOST) << ends[rank].message;
      std::vector<std::string> names;
      for (uint32_t lost = 0; lost < world.ranks; ++lost) {
        if (lost == victim ||
            (world.processes != 0 && lost % world.processes == victim % world.processes)) {
          names.push_back(fmt::format("rank {} died", lost));
        }
      }
      const std::string named = ends[rank].message.substr(0, ends[rank].message.find(" ("));
      EXPECT_NE(std::find(names.begin(), names.end(), named), names.end()) << ends[rank].message;
    }
  }

  std::vector<uint32_t> rank_counts() const {
    std::vector<uint32_t> counts;
    for (uint32_t ranks = 2; ranks <= std::min(5u, GetParam().ranks_max); ++ranks) {
      counts.push_back(ranks);
    }
    return counts;
  }

  static uint64_t base_seed() {
    const char* given = getenv("SK_SEED");
    return given != nullptr ? std::stoull(given) : testing::UnitTest::GetInstance()->random_seed();
  }

  // A joined thread stays in /proc for a moment.
  size_t settled_threads() const {
    size_t count = threads();
    for (int i = 0; i < 10'000 && count > std::max<size_t>(threads_, 1); ++i) {
      std::this_thread::yield();
      count = threads();
    }
    return count;
  }

  mutable uint64_t worlds_ = 0;
  size_t descriptors_ = 0;
  size_t threads_ = 0;
};

TEST_P(SessionCts, BytesComeBeforeTheirSignal) {
  for (const uint32_t ranks : rank_counts()) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      StageSpec world = spec("traffic", ranks);
      world.numbers[kMessages] = 120 / ranks;
      ASSERT_NO_FATAL_FAILURE(expect_all_well(world));
    }
  }
}

TEST_P(SessionCts, NoPutWaitsForAPeerThatDoesNotLook) {
  for (const uint32_t ranks : rank_counts()) {
    ASSERT_NO_FATAL_FAILURE(expect_all_well(spec("unlooked", ranks)));
  }
}

TEST_P(SessionCts, WhatIsDrainedArrivesThoughTheSenderHasGone) {
  for (const uint32_t ranks : rank_counts()) {
    ASSERT_NO_FATAL_FAILURE(expect_all_well(spec("drains", ranks)));
  }
}

TEST_P(SessionCts, AWorldOfOneReachesItself) {
  StageSpec world = spec("traffic", 1);
  world.numbers[kMessages] = 200;
  expect_all_well(world);
}

TEST_P(SessionCts, EntriesAreReadAsWritten) {
  for (const uint32_t ranks : rank_counts()) {
    ASSERT_NO_FATAL_FAILURE(expect_all_well(spec("entries", ranks)));
  }
}

TEST_P(SessionCts, MemoryIsTakenAndGivenBack) {
  for (const uint32_t ranks : rank_counts()) {
    ASSERT_NO_FATAL_FAILURE(expect_all_well(spec("memory", ranks)));
  }
}

TEST_P(SessionCts, BadArgumentsMoveNothing) {
  for (const uint32_t ranks : rank_counts()) {
    ASSERT_NO_FATAL_FAILURE(expect_all_well(spec("bad_arguments", ranks)));
  }
}

TEST_P(SessionCts, SleepersAreWoken) {
  for (const uint32_t ranks : rank_counts()) {
    ASSERT_NO_FATAL_FAILURE(expect_all_well(spec("sleepers", ranks)));
  }
}

TEST_P(SessionCts, AnAbortEndsAllWaits) {
  for (const uint32_t ranks : rank_counts()) {
    StageSpec world = spec("aborts", ranks);
    Dice dice(world.seed, ranks);
    world.numbers[kVictim] = dice.below(ranks);
    world.numbers[kVictimCount] = dice.below(200);
    SCOPED_TRACE(fmt::format("{} ranks, seed {}", ranks, world.seed));
    for (const RankEnd& end : run(world)) {
      EXPECT_EQ(end.code, SK_ERR_ABORTED) << end.message;
      EXPECT_EQ(end.message,
                fmt::format("rank {} has aborted: the input is odd", world.numbers[kVictim]));
    }
  }
}

TEST_P(SessionCts, AllRanksSeeTheSameCause) {
  for (const uint32_t ranks : rank_counts()) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      const StageSpec world = spec("two_aborts", ranks);
      SCOPED_TRACE(fmt::format("{} ranks, seed {}", ranks, world.seed));
      const std::vector<RankEnd> ends = run(world);
      for (const RankEnd& end : ends) {
        EXPECT_EQ(end.code, ends[0].code) << end.message;
        EXPECT_TRUE(end.code == SK_ERR_ABORTED || end.code == SK_ERR_TIMEOUT) << end.message;
        // Who gave up words it shorter than the others do, but ends alike.
        ASSERT_GE(end.message.size(), strlen("reason N"));
        const std::string reason = end.message.substr(end.message.size() - strlen("reason N"));
        EXPECT_EQ(reason, ends[0].message.substr(ends[0].message.size() - reason.size()));
        EXPECT_EQ(reason.substr(0, strlen("reason ")), "reason ");
      }
    }
  }
}

TEST_P(SessionCts, OneThatLeavesIsMissedOnlyWhenNeeded) {
  for (const uint32_t ranks : rank_counts()) {
    StageSpec world = spec("leaves", ranks);
    const uint64_t victim = Dice(world.seed, ranks).below(ranks);
    world.numbers[kVictim] = victim;
    SCOPED_TRACE(fmt::format("{} ranks, seed {}", ranks, world.seed));
    const std::vector<RankEnd> ends = run(world);
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      EXPECT_TRUE(ends[rank].ended);
      EXPECT_EQ(ends[rank].code, rank == victim ? SK_OK : SK_ERR_PEER_LOST) << ends[rank].message;
      if (rank == victim) continue;
      EXPECT_EQ(ends[rank].message, fmt::format("rank {} has freed the communicator", victim));
    }
  }
}

// All at once, where connections are made when they are needed.
TEST_P(SessionCts, FirstWordsOfAllToAllArrive) {
  for (int repeat = 0; repeat < 4; ++repeat) {
    ASSERT_NO_FATAL_FAILURE(
        expect_all_well(spec("first_words", std::min(12u, GetParam().many_ranks_max))));
  }
}

TEST_P(SessionCts, OneThatLeftBeforeTheFirstWordIsMissedWhenNeeded) {
  for (const uint32_t ranks : rank_counts()) {
    StageSpec world = spec("leaves_first", ranks);
    const uint64_t victim = Dice(world.seed, ranks).below(ranks);
    world.numbers[kVictim] = victim;
    SCOPED_TRACE(fmt::format("{} ranks, seed {}", ranks, world.seed));
    const std::vector<RankEnd> ends = run(world);
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      EXPECT_TRUE(ends[rank].ended);
      EXPECT_EQ(ends[rank].code, rank == victim ? SK_OK : SK_ERR_PEER_LOST) << ends[rank].message;
      if (rank == victim) continue;
      EXPECT_EQ(ends[rank].message.find(fmt::format("rank {} ", victim)), 0u) << ends[rank].message;
      EXPECT_NE(ends[rank].message.find("has freed the communicator"), std::string::npos)
          << ends[rank].message;
    }
  }
}

TEST_P(SessionCts, OneThatDiedBeforeTheFirstWordIsNamed) {
  for (const uint32_t ranks : rank_counts()) {
    StageSpec world = spec("dies_first", ranks);
    const auto victim = uint32_t(Dice(world.seed, ranks).below(ranks));
    world.numbers[kVictim] = victim;
    SCOPED_TRACE(fmt::format("rank {} of {} dies, seed {}", victim, ranks, world.seed));
    expect_named(world, run(world), victim);
  }
}

// By itself after a random number of messages, or by the test at any instruction at all.
TEST_P(SessionCts, KilledRanksAreNamed) {
  for (const uint32_t ranks : rank_counts()) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      StageSpec world = spec("traffic", ranks);
      Dice dice(world.seed, ranks);
      const auto victim = static_cast<uint32_t>(dice.below(ranks));
      const uint64_t count = 1 + dice.below(100);
      const bool from_outside = repeat % 2 == 1 && world.processes != 0;
      world.numbers[kVictim] = from_outside ? kNoVictim : victim;
      world.numbers[kVictimCount] = count;
      SCOPED_TRACE(fmt::format("rank {} of {} dies, seed {}", victim, ranks, world.seed));
      Stage stage(world);
      const Status started = stage.start();
      ASSERT_TRUE(started.ok()) << started.message();
      if (from_outside) {
        // Ends: the ranks' own waits are bounded, so the count is reached or they have ended.
        const StageMemory::Rank& rank = stage.memory().ranks[victim];
        while (rank.progress.load() < count && rank.ended.load() == 0) std::this_thread::yield();
        ASSERT_EQ(kill(stage.process_of(victim), SIGKILL), 0);
      }
      const std::vector<RankEnd> ends = stage.join();
      expect_named(world, ends, victim);
    }
  }
}

// Whoever has looked after the others may go before the end.
TEST_P(SessionCts, WhoStaysSeesWhoDiesWhenOthersHaveLeft) {
  for (const uint32_t ranks : rank_counts()) {
    for (uint32_t leavers = 0; leavers + 2 <= ranks; ++leavers) {
      StageSpec world = spec("outlives", ranks);
      const uint64_t victim = leavers + Dice(world.seed, ranks).below(ranks - leavers);
      world.numbers[kVictim] = victim;
      world.numbers[kVictimCount] = leavers;
      SCOPED_TRACE(fmt::format("{} of {} ranks leave, rank {} dies, seed {}", leavers, ranks,
                               victim, world.seed));
      const std::vector<RankEnd> ends = run(world);
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(ends[rank].ended, rank != victim) << "rank " << rank;
        if (rank == victim) continue;
        EXPECT_EQ(ends[rank].code, rank < leavers ? SK_OK : SK_ERR_PEER_LOST) << ends[rank].message;
        if (rank < leavers) continue;
        EXPECT_EQ(ends[rank].message.substr(0, ends[rank].message.find(" (")),
                  fmt::format("rank {} died", victim));
      }
    }
  }
}

// Though the first to die was followed by whoever might have seen it, and nobody was looking.
TEST_P(SessionCts, TheFirstToDieIsNamedByWhoLooksLater) {
  for (const uint32_t follower : {0u, 1u}) {
    const StageSpec world = spec("late_look", 4);
    SCOPED_TRACE(fmt::format("rank {} follows rank 2, seed {}", follower, world.seed));
    Stage stage(world);
    const Status started = stage.start();
    ASSERT_TRUE(started.ok()) << started.message();
    auto& ranks = stage.memory().ranks;
    // Ends: a rank that cannot come says so, or is given up.
    for (uint32_t rank = 0; rank < 4; ++rank)
      while (ranks[rank].flag.load() == 0 && ranks[rank].ended.load() == 0)
        std::this_thread::yield();
    for (const uint32_t victim : {2u, follower}) {
      siginfo_t info = {};
      ASSERT_EQ(kill(stage.process_of(victim), SIGKILL), 0);
      ASSERT_EQ(waitid(P_PID, id_t(stage.process_of(victim)), &info, WEXITED | WNOWAIT), 0);
    }
    for (uint32_t rank = 0; rank < 4; ++rank) ranks[rank].progress.store(1);
    const std::vector<RankEnd> ends = stage.join();
    for (uint32_t rank = 0; rank < 4; ++rank) {
      if (rank == 2 || rank == follower) continue;
      EXPECT_EQ(ends[rank].code, SK_ERR_PEER_LOST) << ends[rank].message;
      EXPECT_EQ(ends[rank].message.substr(0, ends[rank].message.find(" (")), "rank 2 died");
    }
  }
}

// An exclusion that outlives its test, or is misspelt, would go unnoticed.
TEST(SessionRegistry, ExclusionsNameTestsAndReasons) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string tests;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      tests += std::string(suite.GetTestInfo(j)->name()) + "\n";
    }
  }
  for (const SessionBackend& backend : session_backends()) {
    for (const Exclusion& exclusion : backend.exclusions) {
      EXPECT_NE(tests.find(exclusion.test + "/" + backend.name + "\n"), std::string::npos)
          << exclusion.test << " of " << backend.name;
      EXPECT_FALSE(exclusion.reason.empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SessionCts, testing::ValuesIn(session_backends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sk::cts

int main(int argc, char** argv) {
  int exit_code = 0;
  if (sk::testing_support::run_as_stage_process(argc, argv, exit_code)) return exit_code;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
