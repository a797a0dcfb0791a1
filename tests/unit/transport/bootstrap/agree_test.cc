// Ranks that all come find each other, in whatever order they come, again and again.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <numeric>
#include <random>
#include <thread>

#include "tests/unit/transport/bootstrap/world.h"

namespace sk {
namespace {

using namespace sk::testing_support;

TEST(BootstrapSingle, IsAWorldOfOne) {
  BootstrapConfig config = env_config({}, kLong);
  config.kind = SK_BOOTSTRAP_AUTO;
  auto made = make_bootstrap(config);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ((*made)->world_size(), 1);
  EXPECT_EQ((*made)->local_size(), 1);
  expect_gathers(**made, 33, 1);
}

TEST(BootstrapEnv, AWorldOfOneNeedsNoPort) {
  auto made = make_bootstrap(env_config({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, kLong));
  ASSERT_TRUE(made.ok()) << made.status().message();
  expect_gathers(**made, 8, 2);
}

TEST(BootstrapEnv, GathersInRankOrderWhateverTheOrderOfArrival) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const int world_size = 1 + int(seed % 6);
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const HeldPort port;
    std::vector<int> order(static_cast<size_t>(world_size));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
    std::vector<std::thread> threads;
    for (const int rank : order) {
      threads.emplace_back([&, rank] {
        auto made =
            make_bootstrap(env_config(job_variables(rank, world_size, port.number()), kLong));
        ASSERT_TRUE(made.ok()) << made.status().message();
        EXPECT_EQ((*made)->rank(), rank);
        EXPECT_EQ((*made)->local_rank(), rank);
        EXPECT_EQ((*made)->local_size(), world_size);
        EXPECT_TRUE((*made)->one_host());
        for (const size_t bytes : {size_t(0), size_t(1), size_t(17), size_t(300'001)}) {
          expect_gathers(**made, bytes, seed + bytes);
        }
      });
      std::this_thread::yield();
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// The port is used again at once, also while ranks of the earlier communicator still finish.
TEST(BootstrapEnv, TheSamePortServesOneCommunicatorAfterAnother) {
  const HeldPort port;
  on_ranks(3, [&](int rank) {
    std::vector<std::unique_ptr<Bootstrap>> alive;
    for (uint64_t i = 0; i < 20; ++i) {
      auto made = make_bootstrap(env_config(job_variables(rank, 3, port.number()), kLong));
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 24, i);
      if (i % 3 == 0) alive.push_back(std::move(made).value());
    }
    for (auto& bootstrap : alive) expect_gathers(*bootstrap, 5, 99);
  });
}

TEST(BootstrapEnv, CommunicatorsOfDifferentNamesMeetAtTheSameTime) {
  const HeldPort port;
  on_ranks(9, [&](int thread) {
    const int rank = thread % 3;
    BootstrapConfig config = env_config(job_variables(rank, 3, port.number()), kLong);
    config.name = std::string(1, char('a' + thread / 3));
    auto made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 40, uint64_t(thread / 3));
  });
}

TEST(BootstrapEnv, ANameMayStandForSeveralAddresses) {
  const HeldPort port;
  on_ranks(2, [&](int rank) {
    Variables variables = job_variables(rank, 2, port.number());
    variables["MASTER_ADDR"] = "localhost";
    auto made = make_bootstrap(env_config(variables, kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 9, 3);
  });
}

TEST(BootstrapThreads, GroupsOfOneNameFollowEachOther) {
  on_ranks(5, [&](int rank) {
    for (uint64_t i = 0; i < 200; ++i) {
      auto made = make_bootstrap(threads_config(rank, 5, "again", kLong));
      ASSERT_TRUE(made.ok()) << made.status().message();
      EXPECT_EQ((*made)->local_rank(), rank);
      EXPECT_EQ((*made)->local_size(), 5);
      expect_gathers(**made, 3 + i, i);
      expect_gathers(**made, 0, i);
    }
  });
}

TEST(BootstrapThreads, GroupsOfDifferentNamesDoNotMix) {
  on_ranks(8, [&](int thread) {
    const std::string name = thread < 4 ? "left" : "right";
    auto made = make_bootstrap(threads_config(thread % 4, 4, name, kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 11, name.size());
  });
}

struct Table {
  explicit Table(int n) : barrier(n) {}
  std::barrier<> barrier;
  std::vector<std::byte> whole = std::vector<std::byte>(1 << 16);
};
struct Caller {
  Table* table;
  int rank;
  int32_t answer = 0;
};

int32_t gather_by_table(void* user, const void* in, size_t bytes, void* out) {
  auto* caller = static_cast<Caller*>(user);
  std::copy_n(static_cast<const std::byte*>(in), bytes,
              caller->table->whole.begin() + ptrdiff_t(bytes) * caller->rank);
  caller->table->barrier.arrive_and_wait();
  std::copy_n(caller->table->whole.begin(), bytes * 4, static_cast<std::byte*>(out));
  caller->table->barrier.arrive_and_wait();
  return caller->answer;
}

TEST(BootstrapCallback, UsesTheCallersAllGather) {
  Table table(4);
  on_ranks(4, [&](int rank) {
    Caller caller{&table, rank};
    BootstrapConfig config;
    config.kind = SK_BOOTSTRAP_CALLBACK;
    config.rank = rank;
    config.world_size = 4;
    config.allgather = gather_by_table;
    config.user = &caller;
    auto made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)->local_rank(), rank);
    expect_gathers(**made, 77, 4);
    caller.answer = 5;
    const auto failed = (*made)->allgather(blob(rank, 4, 0), kLong);
    EXPECT_EQ(failed.status().code(), SK_ERR_TRANSPORT);
    EXPECT_NE(failed.status().message().find("returned 5"), std::string::npos);
  });
}

}  // namespace
}  // namespace sk
