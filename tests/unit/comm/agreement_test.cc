// What all ranks make of what each of them says before the first plan.
#include "lib/comm/agreement.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace sk {
namespace {

constexpr int64_t kLong = 60'000'000'000;

// Each on a thread of its own; what `body` makes of the ranks' meeting.
template <typename T>
std::vector<Result<T>> on_ranks(int ranks, const std::function<Result<T>(Bootstrap&)>& body) {
  std::vector<Result<T>> results;
  for (int rank = 0; rank < ranks; ++rank) results.emplace_back(error(SK_ERR_INTERNAL, "unset"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      BootstrapConfig config;
      config.kind = SK_BOOTSTRAP_THREADS;
      config.rank = rank;
      config.world_size = ranks;
      config.name = "agreement";
      config.timeout_ns = kLong;
      auto bootstrap = make_bootstrap(config);
      ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().message();
      results[size_t(rank)] = body(**bootstrap);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Agreement, AnotherVersionIsRefusedByAllWithBoth) {
  const auto all = on_ranks<Agreement>(3, [](Bootstrap& bootstrap) {
    RankFacts mine;
    mine.version = bootstrap.rank() == 2 ? 0x010203 : 0x010204;
    return agree_on_target(bootstrap, mine, kLong);
  });
  for (const auto& each : all) {
    ASSERT_FALSE(each.ok());
    EXPECT_EQ(each.status().code(), SK_ERR_DESYNC);
    EXPECT_EQ(each.status().message(),
              "rank 2 runs libsk 1.2.3, rank 0 1.2.4; all ranks of a communicator need the same");
  }
}

TEST(Agreement, OnLinksIsTheLeastOfAll) {
  const auto all = on_ranks<Links>(3, [](Bootstrap& bootstrap) {
    LinkFacts mine;
    mine.mapped = bootstrap.rank() != 1;
    mine.put_bytes_max = 100u + uint64_t(bootstrap.rank());
    return agree_on_links(bootstrap, mine, kLong);
  });
  for (const auto& each : all) {
    ASSERT_TRUE(each.ok()) << each.status().message();
    EXPECT_FALSE(each.value().mapped);
    EXPECT_EQ(each.value().put_bytes_max, 100u);
    EXPECT_TRUE(each.value().host_of.empty());
  }
}

TEST(Agreement, OnLinksSaysWhichRanksShareAHost) {
  const auto all = on_ranks<Links>(4, [](Bootstrap& bootstrap) {
    LinkFacts mine;
    mine.host = bootstrap.rank() == 2 ? 0 : uint32_t(bootstrap.rank() & ~2);
    return agree_on_links(bootstrap, mine, kLong);
  });
  for (const auto& each : all) {
    ASSERT_TRUE(each.ok()) << each.status().message();
    EXPECT_EQ(each.value().host_of, (std::vector<uint32_t>{0, 1, 0, 1}));
  }
}

TEST(Agreement, OnLinksSaysWhetherPidsMeanTheSameToAll) {
  struct {
    std::vector<uint64_t> spaces;
    bool one;
  } const table[] = {{{7, 7, 7}, true}, {{7, 8, 7}, false}, {{7, 7, 0}, false}, {{0, 0, 0}, false}};
  for (const auto& row : table) {
    const auto all = on_ranks<Links>(3, [&](Bootstrap& bootstrap) {
      LinkFacts mine;
      mine.process_space = row.spaces[size_t(bootstrap.rank())];
      return agree_on_links(bootstrap, mine, kLong);
    });
    for (const auto& each : all) {
      ASSERT_TRUE(each.ok()) << each.status().message();
      EXPECT_EQ(each.value().one_process_space, row.one);
    }
  }
}

// Plans of ranks that differ in it would not fit together.
TEST(Agreement, OnLinksRefusesHostsThatDoNotFitTogether) {
  const auto all = on_ranks<Links>(3, [](Bootstrap& bootstrap) {
    LinkFacts mine;
    mine.host = bootstrap.rank() == 0 ? 0 : uint32_t(bootstrap.rank() - 1);
    return agree_on_links(bootstrap, mine, kLong);
  });
  for (const auto& each : all) {
    EXPECT_EQ(each.status().code(), SK_ERR_INTERNAL);
    EXPECT_EQ(each.status().message(),
              "rank 2 shares a host with rank 1, which says that it does with rank 0");
  }
}

// The others must not wait for it, nor find out by its end.
TEST(Agreement, ARankThatCannotGoOnEndsTheCreationOnAll) {
  const auto all = on_ranks<Links>(3, [](Bootstrap& bootstrap) {
    LinkFacts mine;
    if (bootstrap.rank() > 0) {
      mine.fail(error(SK_ERR_NO_MEMORY, "no memory for the signals of {} ranks {}", 3,
                      std::string(1000, 'x')));
    }
    return agree_on_links(bootstrap, mine, kLong);
  });
  for (const auto& each : all) {
    EXPECT_EQ(each.status().code(), SK_ERR_NO_MEMORY);
    EXPECT_EQ(each.status().message().rfind("rank 1: no memory for the signals of 3 ranks x", 0),
              0u)
        << each.status().message();
  }
}

// Facts of ranks that may run on `cpus` CPUs each, all the same ones.
std::vector<RankFacts> on_cpus(size_t ranks, size_t cpus) {
  std::vector<RankFacts> all(ranks);
  for (RankFacts& facts : all) {
    for (size_t cpu = 0; cpu < cpus; ++cpu) facts.cpus.set(cpu);
  }
  return all;
}

TEST(Agreement, OnWorkersIsWhatControlGroupsLetRun) {
  const std::vector<int> one_host(4, 0);
  std::vector<RankFacts> all = on_cpus(4, 64);
  EXPECT_EQ(agree_on(all, one_host)->target.workers, 16u);
  for (RankFacts& facts : all) facts.cpu_limit = {8, 77};  // Shared by all.
  EXPECT_EQ(agree_on(all, one_host)->target.workers, 2u);
  EXPECT_EQ(agree_on(all, one_host)->target.cores, 8u);
  for (size_t rank = 0; rank < 4; ++rank) all[rank].cpu_limit = {8, 77 + rank};  // Each its own.
  EXPECT_EQ(agree_on(all, one_host)->target.workers, 8u);
  EXPECT_EQ(agree_on(all, one_host)->target.cores, 32u);
  all[2].cpu_limit = {1, 79};
  EXPECT_EQ(agree_on(all, one_host)->target.workers, 1u);
}

TEST(Agreement, OnWorkersIsNoMoreThanMayBeAskedFor) {
  EXPECT_EQ(agree_on(on_cpus(1, 1000), std::vector<int>{0})->target.workers, kWorkersMax);
}

}  // namespace
}  // namespace sk
