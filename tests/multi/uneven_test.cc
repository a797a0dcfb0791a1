// Worlds whose ranks are not alike: other workers, CPUs, instruction sets, flags and limits. Plans
// are made for what all of them have, so every operation is right all the same.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/multi/process_rows.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

// SK_TEST_WORLDS says how many; a normal run takes seconds.
int worlds(int normally) {
  const char* given = std::getenv("SK_TEST_WORLDS");
  return given != nullptr ? std::atoi(given) : normally;
}

Row uneven_row(uint64_t seed) {
  Row row;
  row.uneven = true;
  row.seed = seed;
  row.ranks = int(2 + seed % 5);
  row.large = seed % 7 == 0;
  row.cases = row.large ? 3 : 7;
  return row;
}

TEST(Uneven, WorkersOfOneAndOfTwoReduceSymmetricMemory) {
  in_thread_ranks(
      2,
      [](sk_comm* comm, int rank) {
        constexpr int kCount = 1024;
        void *in = nullptr, *out = nullptr;
        ASSERT_EQ(sk_alloc(comm, kCount * sizeof(float), &in), SK_OK) << sk_last_error();
        ASSERT_EQ(sk_alloc(comm, kCount * sizeof(float), &out), SK_OK) << sk_last_error();
        auto* const from = static_cast<float*>(in);
        for (int i = 0; i < kCount; ++i) from[i] = float(1000 * rank + i);
        ASSERT_EQ(sk_allreduce(comm, in, out, kCount, SK_F32, SK_SUM, nullptr), SK_OK)
            << sk_last_error();
        for (int i = 0; i < kCount; ++i) {
          ASSERT_EQ(static_cast<float*>(out)[i], float(1000 + 2 * i)) << "element " << i;
        }
        sk_comm_info info{};
        info.struct_size = sizeof info;
        ASSERT_EQ(sk_comm_query(comm, &info), SK_OK);
        EXPECT_EQ(info.workers, 1);
      },
      [](sk_comm_config& config) {
        config.workers = 1 + config.rank;
        config.timeout_ms = 5000;
      });
}

TEST(Uneven, FlagsAndLimitsOfOneRankHoldForAll) {
  in_thread_ranks(
      3,
      [](sk_comm* comm, int) {
        sk_comm_info info{};
        info.struct_size = sizeof info;
        ASSERT_EQ(sk_comm_query(comm, &info), SK_OK);
        EXPECT_EQ(info.mapped, 0);
        void* memory = nullptr;
        EXPECT_EQ(sk_alloc(comm, 2 << 20, &memory), SK_ERR_OUT_OF_RANGE) << sk_last_error();
        float in[300], out[300];
        for (float& value : in) value = 2;
        ASSERT_EQ(sk_allreduce(comm, in, out, 300, SK_F32, SK_SUM, nullptr), SK_OK)
            << sk_last_error();
        for (const float value : out) EXPECT_EQ(value, 6.0f);
      },
      [](sk_comm_config& config) {
        if (config.rank == 1) config.flags = SK_COMM_PUT_ONLY;
        if (config.rank == 2) config.symmetric_bytes_max = 1 << 20;
      });
}

TEST(Uneven, WorldsOfThreadsEqualTheOracle) {
  const uint64_t seed = base_seed();
  for (int world = 0; world < worlds(30); ++world) {
    const Row row = uneven_row(seed + uint64_t(world));
    ASSERT_EQ(run_threads(row), "") << "replay with SK_TEST_SEED=" << row.seed;
  }
}

TEST(Uneven, WorldsOfProcessesEqualTheOracle) {
  const uint64_t seed = base_seed();
  for (int world = 0; world < worlds(10); ++world) {
    const Row row = uneven_row(seed + uint64_t(world));
    ASSERT_EQ(run_processes(row), "") << "replay with SK_TEST_SEED=" << row.seed;
  }
}

}  // namespace
}  // namespace sk::testing_ops
