// Calls that come again: the same buffers in turn, plans of several sizes between each other, and
// memory that changes its kind. What a communicator remembers of a call must never outlive its
// truth, and two runs in a row must never share staging memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace {

using sk::testing_ops::in_thread_ranks;

uint64_t plans_of(const sk_comm* comm) {
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  EXPECT_EQ(sk_comm_query(comm, &info), SK_OK);
  return info.plans;
}

// An integer, so that sums are exact in every order.
float value(int call, int rank, int64_t i) { return float((call * 31 + rank * 17 + i) % 1021); }

struct Pair {
  float *in, *out;
};

void call_and_check(sk_comm* comm, int rank, int ranks, int call, Pair pair, int64_t count) {
  for (int64_t i = 0; i < count; ++i) pair.in[i] = value(call, rank, i);
  for (int64_t i = 0; i < count; ++i) pair.out[i] = -1.0f;
  const float* in = pair.in;
  ASSERT_EQ(sk_allreduce(comm, in, pair.out, count, SK_F32, SK_SUM, nullptr), SK_OK)
      << sk_last_error();
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(call, r, i);
    ASSERT_EQ(pair.out[i], sum) << "call " << call << ", element " << i << " of " << count;
  }
}

class Repeated : public testing::TestWithParam<int> {};

TEST_P(Repeated, BuffersInTurnAndSizesBetweenEachOther) {
  const char* given = std::getenv("SK_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE(testing::Message() << "replay with SK_TEST_SEED=" << seed);
  const int ranks = GetParam();
  in_thread_ranks(ranks, [&](sk_comm* comm, int rank) {
    std::mt19937_64 random(seed);  // The same on all ranks.
    // Around the sizes at which forms and staging areas change; the last ones use two chunks.
    const std::vector<int64_t> counts = {1, 100, 256, 300, 2047, 2048, 5000, 16384, 65536, 70000};
    constexpr int64_t kMax = 70000;
    std::vector<Pair> pairs;
    std::vector<std::vector<float>> ordinary;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 2; ++j) ordinary.emplace_back(kMax);
      pairs.push_back({ordinary[ordinary.size() - 2].data(), ordinary.back().data()});
      void *in = nullptr, *out = nullptr;
      ASSERT_EQ(sk_alloc(comm, kMax * sizeof(float), &in), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_alloc(comm, kMax * sizeof(float), &out), SK_OK) << sk_last_error();
      pairs.push_back({static_cast<float*>(in), static_cast<float*>(out)});
      pairs.push_back({static_cast<float*>(out), static_cast<float*>(in)});
    }
    for (int call = 0; call < 400 && !testing::Test::HasFatalFailure(); ++call) {
      const Pair pair = pairs[random() % pairs.size()];
      call_and_check(comm, rank, ranks, call, pair, counts[random() % counts.size()]);
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, Repeated, testing::Values(1, 2, 3, 4));

TEST(RepeatedCall, SeesThatMemoryIsNoLongerRegistered) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    constexpr int64_t kCount = 4096;
    constexpr uint64_t kBytes = kCount * sizeof(float);
    std::vector<float> in(kCount), out(kCount);
    const Pair pair = {in.data(), out.data()};
    for (int round = 0; round < 3; ++round) {
      call_and_check(comm, rank, 2, 4 * round, pair, kCount);
      const uint64_t plans = plans_of(comm);
      ASSERT_EQ(sk_register(comm, in.data(), kBytes), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_register(comm, out.data(), kBytes), SK_OK) << sk_last_error();
      call_and_check(comm, rank, 2, 4 * round + 1, pair, kCount);
      call_and_check(comm, rank, 2, 4 * round + 2, pair, kCount);
      if (round == 0) {
        EXPECT_GT(plans_of(comm), plans + 1) << "the call must have become another";
      }
      ASSERT_EQ(sk_deregister(comm, in.data()), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_deregister(comm, out.data()), SK_OK) << sk_last_error();
    }
  });
}

TEST(RepeatedCall, SeesMemoryThatWasFreedAndTakenAnew) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    constexpr int64_t kCount = 3000;
    for (int round = 0; round < 20; ++round) {
      // The same addresses come back, as one allocation or two, in this order or the other.
      void *a = nullptr, *b = nullptr;
      ASSERT_EQ(sk_alloc(comm, kCount * sizeof(float), &a), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_alloc(comm, kCount * sizeof(float), &b), SK_OK) << sk_last_error();
      const Pair pair = {static_cast<float*>(round % 2 ? a : b),
                         static_cast<float*>(round % 2 ? b : a)};
      call_and_check(comm, rank, 2, round, pair, kCount);
      call_and_check(comm, rank, 2, round + 1, pair, kCount);
      ASSERT_EQ(sk_free(comm, round % 3 ? a : b), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_free(comm, round % 3 ? b : a), SK_OK) << sk_last_error();
    }
  });
}

}  // namespace
