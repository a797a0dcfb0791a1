// Callers whose threads round, flush or trap as they like: the results are the same bits, and the
// callers' modes are as they were.
#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>
#include <random>

#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

struct Mode {
  const char* name;
  void (*set)();
};

void flush() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  asm volatile("msr fpcr, %0" ::"r"(word | uint64_t(1) << 24));
#endif
}

const Mode kModes[] = {
    {"Flush", flush},
    {"Upward", [] { ASSERT_EQ(std::fesetround(FE_UPWARD), 0); }},
    {"TowardZero", [] { ASSERT_EQ(std::fesetround(FE_TOWARDZERO), 0); }},
    {"Trap", [] { ASSERT_NE(feenableexcept(FE_ALL_EXCEPT), -1); }},
};

// Rounding, flushing and trapping in one word of bytes.
std::fenv_t environment() {
  std::fenv_t now;
  std::memset(&now, 0, sizeof now);
  std::fegetenv(&now);
  return now;
}

bool flushes() {
  volatile float small = 1e-39f;
  return small * 1.0f == 0.0f;
}

struct ModeCase {
  Mode mode;
  int workers;
  bool before;  // Set before the communicator is made, so that its threads could inherit it.
};

class FloatModes : public testing::TestWithParam<ModeCase> {};

// Sums of thirds, and of subnormal numbers.
template <typename T>
std::vector<T> numbers(int rank, size_t count, T smallest) {
  std::mt19937 draw(unsigned(rank) + 1);
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    const T value = T(int(draw() % 2001) - 1000) / 3;
    values[i] = i % 2 == 0 ? value : value * smallest;
  }
  return values;
}

template <typename T>
void expect_alike(sk_comm* comm, int ranks, const std::vector<T>& mine, const char* what) {
  const size_t bytes = mine.size() * sizeof(T);
  std::vector<unsigned char> all(bytes * size_t(ranks));
  ASSERT_EQ(sk_allgather(comm, mine.data(), all.data(), int64_t(mine.size()),
                         sizeof(T) == 8 ? SK_I64 : SK_I32, nullptr),
            SK_OK)
      << sk_last_error();
  for (int r = 1; r < ranks; ++r) {
    EXPECT_EQ(std::memcmp(all.data(), all.data() + size_t(r) * bytes, bytes), 0)
        << what << ": rank 0 and " << r;
  }
}

TEST_P(FloatModes, OfOneRankChangeNoBit) {
  const Mode mode = GetParam().mode;
  const int workers = GetParam().workers;
  const bool before = GetParam().before;
  constexpr int kRanks = 2;
  constexpr size_t count = 20'001;
  constexpr int64_t kSide = 96;
  // Drawn here, for a thread that traps could not.
  struct Inputs {
    std::vector<float> singles, a, b;
    std::vector<double> doubles;
  } inputs[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    inputs[rank] = {
        numbers<float>(rank, count, 1e-41f), numbers<float>(rank + 10, kSide * kSide, 1e-41f),
        numbers<float>(rank + 20, kSide * kSide, 1e-41f), numbers<double>(rank, count, 1e-310)};
  }
  const auto body = [&](sk_comm* comm, int rank) {
    auto& [singles, a, b, doubles] = inputs[rank];
    if (rank == 0 && !before) mode.set();
    const std::fenv_t wanted = environment();
    const bool flushed = rank == 0 && std::strcmp(mode.name, "Flush") == 0;
    std::vector<float> sums(count), quotients(count);
    std::vector<double> products(count);
    sk_status status =
        sk_allreduce(comm, singles.data(), sums.data(), int64_t(count), SK_F32, SK_SUM, nullptr);
    EXPECT_EQ(status, SK_OK) << sk_last_error();
    status = sk_allreduce(comm, singles.data(), quotients.data(), int64_t(count), SK_F32, SK_AVG,
                          nullptr);
    EXPECT_EQ(status, SK_OK) << sk_last_error();
    status = sk_allreduce(comm, doubles.data(), products.data(), int64_t(count), SK_F64, SK_PROD,
                          nullptr);
    EXPECT_EQ(status, SK_OK) << sk_last_error();
    sk_tensor left{};
    left.struct_size = sizeof left;
    left.dtype = SK_F32;
    left.data = a.data();
    left.ndim = 2;
    left.shape[0] = left.shape[1] = left.strides[0] = kSide;
    left.strides[1] = 1;
    sk_tensor right = left, out = left;
    right.data = b.data();
    std::vector<float> c(size_t(kSide) * kSide);
    out.data = c.data();
    status = sk_allreduce_gemm(comm, &left, &right, nullptr, &out, 0, nullptr);
    EXPECT_EQ(status, SK_OK) << sk_last_error();
    const std::fenv_t after = environment();
    const bool flushes_after = flushes();
    std::fesetenv(FE_DFL_ENV);
    if (!before) {
      EXPECT_EQ(std::memcmp(&after, &wanted, sizeof after), 0) << "rank " << rank;
      EXPECT_EQ(flushes_after, flushed);
    }
    expect_alike(comm, kRanks, sums, "sum of f32");
    expect_alike(comm, kRanks, quotients, "avg of f32");
    expect_alike(comm, kRanks, products, "prod of f64");
    expect_alike(comm, kRanks, c, "product of matrices");
  };
  in_thread_ranks(kRanks, body, [&](sk_comm_config& config) {
    config.workers = workers;
    if (before && config.rank == 0) mode.set();
  });
}

std::vector<ModeCase> cases() {
  std::vector<ModeCase> all;
  for (const Mode& mode : kModes) {
    for (const int workers : {1, 2}) {
      for (const bool before : {false, true}) all.push_back({mode, workers, before});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, FloatModes, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(info.param.mode.name) + "Workers" + std::to_string(info.param.workers) +
         (info.param.before ? "Before" : "");
});

}  // namespace
}  // namespace sk::testing_ops
