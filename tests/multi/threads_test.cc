// Many threads and many communicators: each call has its results, whoever else calls what
// meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"

namespace {

constexpr int kComms = 4, kRanks = 2, kRounds = 60;

uint64_t seed_of_this_run() {
  const char* given = std::getenv("SK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

sk_comm* make_comm(sk_context* context, int number, int rank) {
  const std::string name = "of many " + std::to_string(number);
  sk_comm_config config{};
  config.struct_size = sizeof(config);
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.rank = rank;
  config.world_size = kRanks;
  config.name = name.c_str();
  config.timeout_ms = 60'000;
  config.symmetric_bytes_max = 8 << 20;
  sk_comm* comm = nullptr;
  EXPECT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  return comm;
}

// Sums and broadcasts of sizes that all ranks of the communicator draw alike. Whole numbers, so
// sums are exact; they differ between communicators, so whatever mixes them is seen.
void call_on(sk_comm* comm, int number, int rank, uint64_t seed) {
  std::mt19937_64 random(seed + uint64_t(number));
  for (int round = 0; round < kRounds; ++round) {
    const size_t count = 1 + random() % 5000;
    const auto value = [&](int of) { return float((number * 1000 + round * 10 + of) % 4096); };
    std::vector<float> in(count, value(rank)), out(count, -1.0f);
    if (random() % 3 == 0) {
      ASSERT_EQ(sk_broadcast(comm, in.data(), out.data(), count, SK_F32, round % kRanks, nullptr),
                SK_OK)
          << sk_last_error();
      ASSERT_EQ(out, std::vector<float>(count, value(round % kRanks))) << "round " << round;
    } else {
      ASSERT_EQ(sk_allreduce(comm, in.data(), out.data(), count, SK_F32, SK_SUM, nullptr), SK_OK)
          << sk_last_error();
      ASSERT_EQ(out, std::vector<float>(count, value(0) + value(1))) << "round " << round;
    }
  }
}

// Eight threads, each with its own of four communicators' ranks; other communicators come and go
// beside them.
TEST(Threads, OfManyCommunicatorsDoNotMeet) {
  const uint64_t seed = seed_of_this_run();
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(seed));
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::vector<std::thread> threads;
  for (int number = 0; number < kComms; ++number) {
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, number, rank] {
        sk_comm* comm = make_comm(context, number, rank);
        if (comm != nullptr) call_on(comm, number, rank, seed);
        EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
      });
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int again = 0; again < 5; ++again) {
        sk_comm* comm = make_comm(context, kComms + again, rank);
        EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
        EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

// All at once ask the same communicator for a call that only one may have begun: it goes on and is
TEST(Threads, OfOneCommunicatorAreRefusedWhileItIsInACall) {
  constexpr int kThreads = 8;
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::atomic<int> refused = 0, done = 0;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    sk_comm* comm = make_comm(context, 0, 0);
    while (refused < kThreads - 1) std::this_thread::yield();  // Until then the call below waits.
    EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
    while (done < kThreads) std::this_thread::yield();
    EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  });
  sk_comm* const comm = make_comm(context, 0, 1);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const sk_status status = sk_barrier(comm, nullptr);
      if (status == SK_ERR_BUSY) ++refused;
      EXPECT_TRUE(status == SK_OK || status == SK_ERR_BUSY) << sk_last_error();
      ++done;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, kThreads - 1);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

}  // namespace
