// More ranks, connected by puts alone, than talk to all others in one plan: theirs pass everything
// to neighbours, and each rank makes and judges its own part only.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"
#include "tests/support/own_tiles.h"

namespace sk::testing_ops {
namespace {

using testing_support::matrix;

constexpr int kRanks = 70;

void in_large_world(const std::function<void(sk_comm*, int)>& body) {
  in_thread_ranks(kRanks, body, [](sk_comm_config& config) {
    config.flags = SK_COMM_PUT_ONLY;
    config.timeout_ms = 120'000;
  });
}

// Whole numbers so small that no sum is rounded; of a rank and a call.
float value(int rank, uint32_t call, size_t i) {
  return float((uint32_t(rank) * 31 + call * 17 + uint32_t(i) * 7) % 101) - 50;
}

std::vector<float> values(int rank, uint32_t call, size_t count) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = value(rank, call, i);
  return all;
}

float sum(uint32_t call, size_t i) {
  float total = 0;
  for (int rank = 0; rank < kRanks; ++rank) total += value(rank, call, i);
  return total;
}

const float kPoison = 1e30F;

// The first element that is not `must`, in words; "" if all are.
template <typename Must>
std::string wrong(const std::vector<float>& is, const Must& must) {
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i] == must(i)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(is[i]) + ", not " +
           std::to_string(must(i));
  }
  return "";
}

// Bytes that the segments of this process's ranks take, by segment.
std::vector<uint64_t> segments_taken() {
  std::vector<uint64_t> taken;
  std::error_code gone;  // The iterator's own descriptor.
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat info = {};
    if (target.find("memfd:sk-segment") == std::string::npos) continue;
    if (stat(entry.path().c_str(), &info) == 0) taken.push_back(uint64_t(info.st_blocks) * 512);
  }
  return taken;
}

// What the control memory of them all takes: only its mapping is left. 0: this user, or a root
// without the right to, may not look behind mappings.
uint64_t control_taken() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:sk-control") == std::string::npos) continue;
    struct stat info = {};
    const std::string file = "/proc/self/map_files/" + line.substr(0, line.find(' '));
    if (stat(file.c_str(), &info) == 0) return uint64_t(info.st_blocks) * 512;
    EXPECT_TRUE(errno == EPERM || errno == EACCES) << file << ": errno " << errno;
    return 0;
  }
  ADD_FAILURE() << "no control memory is mapped";
  return 0;
}

// Header, entries, signals and staging areas.
TEST(LargeWorld, ARankTakesAPageForEachOther) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer leaves no address space for so many ranks of one process";
#endif
  constexpr int kMany = 256;
  in_thread_ranks(kMany, [](sk_comm* comm, int rank) {
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
    if (rank == 0) {
      const std::vector<uint64_t> taken = segments_taken();
      EXPECT_EQ(taken.size(), size_t(kMany));
      const uint64_t control = control_taken();
      for (const uint64_t bytes : taken) ASSERT_LE(bytes + control / kMany, kMany * 4096u);
    }
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
  });
}

TEST(LargeWorld, EveryCollectiveGivesWhatItShouldOfAnySize) {
  in_large_world([](sk_comm* comm, int rank) {
    uint32_t call = 0;
    for (const size_t count : {size_t(1), size_t(5), size_t(1000), size_t(70'001)}) {
      for (const bool in_place : {false, true}) {
        std::vector<float> in = values(rank, ++call, count), out(count, kPoison);
        if (in_place) out = in;
        ASSERT_EQ(sk_allreduce(comm, in_place ? out.data() : in.data(), out.data(), int64_t(count),
                               SK_F32, SK_SUM, nullptr),
                  SK_OK)
            << sk_last_error();
        ASSERT_EQ(wrong(out, [&](size_t i) { return sum(call, i); }), "") << "all-reduce " << count;
        std::fill(in.begin(), in.end(), kPoison);
      }
      {
        const int root = int(count % kRanks);
        const std::vector<float> in = values(rank, ++call, count);
        std::vector<float> out(count, kPoison);
        ASSERT_EQ(sk_broadcast(comm, rank == root ? in.data() : nullptr, out.data(), int64_t(count),
                               SK_F32, root, nullptr),
                  SK_OK)
            << sk_last_error();
        ASSERT_EQ(wrong(out, [&](size_t i) { return value(root, call, i); }), "")
            << "broadcast " << count;
      }
      const size_t block = std::min<size_t>(count, 3000);
      for (const bool in_place : {false, true}) {
        const std::vector<float> in = values(rank, ++call, block);
        std::vector<float> out(block * kRanks, kPoison);
        float* const own = out.data() + size_t(rank) * block;
        if (in_place) std::copy(in.begin(), in.end(), own);
        ASSERT_EQ(sk_allgather(comm, in_place ? own : in.data(), out.data(), int64_t(block), SK_F32,
                               nullptr),
                  SK_OK)
            << sk_last_error();
        ASSERT_EQ(wrong(out, [&](size_t i) { return value(int(i / block), call, i % block); }), "")
            << "all-gather " << block;
      }
      for (const bool in_place : {false, true}) {
        std::vector<float> in = values(rank, ++call, block * kRanks), out(block, kPoison);
        float* const own = in.data() + size_t(rank) * block;
        ASSERT_EQ(sk_reduce_scatter(comm, in.data(), in_place ? own : out.data(), int64_t(block),
                                    SK_F32, SK_SUM, nullptr),
                  SK_OK)
            << sk_last_error();
        if (in_place) std::copy(own, own + block, out.begin());
        ASSERT_EQ(wrong(out, [&](size_t i) { return sum(call, size_t(rank) * block + i); }), "")
            << "reduce-scatter " << block;
      }
      ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
    }
  });
}

// Ranks that map each other's memory pass on, too, where they are very many; what does not go from
// rank to rank is refused with what to do.
TEST(LargeWorld, VeryManyRanksThatMapEachOtherPassOn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer leaves no address space for so many ranks of one process";
#endif
  constexpr int kMany = 201;
  in_thread_ranks(
      kMany,
      [](sk_comm* comm, int rank) {
        constexpr size_t kCount = 3000, kBlock = 5;
        const std::vector<float> in = values(rank, 1, kCount);
        std::vector<float> out(kCount, kPoison), all(kBlock * kMany, kPoison);
        ASSERT_EQ(sk_allreduce(comm, in.data(), out.data(), kCount, SK_F32, SK_SUM, nullptr), SK_OK)
            << sk_last_error();
        ASSERT_EQ(wrong(out,
                        [&](size_t i) {
                          float total = 0;
                          for (int r = 0; r < kMany; ++r) total += value(r, 1, i);
                          return total;
                        }),
                  "");
        ASSERT_EQ(sk_allgather(comm, in.data(), all.data(), kBlock, SK_F32, nullptr), SK_OK)
            << sk_last_error();
        ASSERT_EQ(wrong(all, [&](size_t i) { return value(int(i / kBlock), 1, i % kBlock); }), "");
        ASSERT_EQ(sk_broadcast(comm, in.data(), out.data(), kCount, SK_F32, 7, nullptr), SK_OK)
            << sk_last_error();
        ASSERT_EQ(wrong(out, [&](size_t i) { return value(7, 1, i); }), "");
        if (rank == 3) {
          ASSERT_EQ(sk_send(comm, in.data(), kCount, SK_F32, 200, nullptr), SK_OK)
              << sk_last_error();
        }
        if (rank == 200) {
          ASSERT_EQ(sk_recv(comm, out.data(), kCount, SK_F32, 3, nullptr), SK_OK)
              << sk_last_error();
          ASSERT_EQ(wrong(out, [&](size_t i) { return value(3, 1, i); }), "");
        }
        EXPECT_EQ(sk_allreduce(comm, in.data(), out.data(), kCount, SK_F32, SK_AVG, nullptr),
                  SK_ERR_UNSUPPORTED);
        EXPECT_NE(std::string(sk_last_error()).find("up to 200 ranks, here are 201"),
                  std::string::npos)
            << sk_last_error();
      },
      [](sk_comm_config& config) { config.timeout_ms = 120'000; });
}

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Their sums need more digits than bf16 has: whoever rounds one on its way sees another.
TEST(LargeWorld, SumsOf16BitsAreRoundedOnce) {
  in_large_world([](sk_comm* comm, int rank) {
    uint32_t call = 1000;
    for (const size_t count : {size_t(1), size_t(777), size_t(9001)}) {
      for (const bool in_place : {false, true}) {
        ++call;
        std::vector<uint16_t> in(count), out(count, 0x7fff);
        for (size_t i = 0; i < count; ++i) in[i] = to_bf16(value(rank, call, i));
        if (in_place) out = in;
        ASSERT_EQ(sk_allreduce(comm, in_place ? out.data() : in.data(), out.data(), int64_t(count),
                               SK_BF16, SK_SUM, nullptr),
                  SK_OK)
            << sk_last_error();
        for (size_t i = 0; i < count; ++i)
          ASSERT_EQ(out[i], to_bf16(sum(call, i))) << "all-reduce " << count << ", " << i;
      }
      const size_t block = std::min<size_t>(count, 800);
      ++call;
      std::vector<uint16_t> in(block * kRanks), out(block, 0x7fff);
      for (size_t i = 0; i < in.size(); ++i) in[i] = to_bf16(value(rank, call, i));
      ASSERT_EQ(
          sk_reduce_scatter(comm, in.data(), out.data(), int64_t(block), SK_BF16, SK_SUM, nullptr),
          SK_OK)
          << sk_last_error();
      for (size_t i = 0; i < block; ++i)
        ASSERT_EQ(out[i], to_bf16(sum(call, size_t(rank) * block + i))) << "reduce-scatter " << i;
    }
  });
}

// Of small whole numbers, whose sums are exact in any order.
TEST(LargeWorld, ShardsThatGoRoundAreMultiplied) {
  in_large_world([](sk_comm* comm, int rank) {
    constexpr int64_t kN = 11;
    uint32_t call = 0;
    for (const int64_t m : {1, 3, 200}) {
      for (const int64_t k : {0, 1, 37}) {
        const int64_t lda = k + int64_t(m % 2) * 2 + 1;
        const auto whole = [&](int of, size_t i) { return float(int(value(of, call, i)) % 7); };
        ++call;
        std::vector<float> a(size_t(m * lda), kPoison), b(size_t(std::max<int64_t>(1, k) * kN)),
            c(size_t(kRanks * m * kN), kPoison);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < k; ++j) a[size_t(i * lda + j)] = whole(rank, size_t(i * k + j));
        }
        for (size_t i = 0; i < b.size(); ++i) b[i] = whole(99, i);
        sk_tensor ta = matrix(SK_F32, a.data(), m, k, lda),
                  tb = matrix(SK_F32, b.data(), k, kN, kN),
                  tc = matrix(SK_F32, c.data(), kRanks * m, kN, kN);
        ASSERT_EQ(sk_allgather_gemm(comm, &ta, &tb, nullptr, &tc, 0, nullptr), SK_OK)
            << sk_last_error();
        ASSERT_EQ(wrong(c,
                        [&](size_t at) {
                          const auto row = int64_t(at) / kN, column = int64_t(at) % kN;
                          float sum = 0;
                          for (int64_t j = 0; j < k; ++j) {
                            sum += whole(int(row / m), size_t(row % m * k + j)) *
                                   b[size_t(j * kN + column)];
                          }
                          return sum;
                        }),
                  "")
            << m << " x " << k;
      }
    }
  });
}

TEST(LargeWorld, CallsThatDifferAreToldAndTheWorldLivesOn) {
  in_large_world([](sk_comm* comm, int rank) {
    std::vector<float> in = values(rank, 1, 100), out(100 * kRanks, kPoison);
    for (int round = 0; round < 2; ++round) {
      const sk_status status =
          rank == 40 ? sk_allgather(comm, in.data(), out.data(), 100, SK_F32, nullptr)
                     : sk_allreduce(comm, in.data(), out.data(), 100, SK_F32, SK_SUM, nullptr);
      EXPECT_STREQ(sk_status_name(status), "SK_ERR_DESYNC") << sk_last_error();
      EXPECT_EQ(out[0], kPoison);
      float one = 1, all = kPoison;
      ASSERT_EQ(sk_allreduce(comm, &one, &all, 1, SK_F32, SK_SUM, nullptr), SK_OK)
          << sk_last_error();
      EXPECT_EQ(all, float(kRanks));
    }
  });
}

// A plan's text has the rank's own part, which nobody else can judge or run.
TEST(LargeWorld, PlansRunAndTheirTextIsOfOnePart) {
  in_large_world([](sk_comm* comm, int rank) {
    sk_plan_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = SK_OP_ALLREDUCE;
    desc.dtype = SK_F32;
    desc.op = SK_MAX;
    desc.count = 3000;
    sk_plan* plan = nullptr;
    ASSERT_EQ(sk_plan_create(comm, &desc, &plan), SK_OK) << sk_last_error();
    for (uint32_t call = 1; call <= 3; ++call) {
      const std::vector<float> in = values(rank, call, 3000);
      std::vector<float> out(3000, kPoison);
      ASSERT_EQ(sk_plan_run(plan, in.data(), nullptr, out.data(), nullptr), SK_OK)
          << sk_last_error();
      ASSERT_EQ(wrong(out,
                      [&](size_t i) {
                        float most = value(0, call, i);
                        for (int r = 1; r < kRanks; ++r) most = std::max(most, value(r, call, i));
                        return most;
                      }),
                "");
    }
    size_t size = 0;
    ASSERT_EQ(sk_plan_dump(plan, nullptr, 0, &size), SK_OK) << sk_last_error();
    std::string text(size + 1, '\0');  // And the NUL behind it.
    ASSERT_EQ(sk_plan_dump(plan, text.data(), text.size(), &size), SK_OK) << sk_last_error();
    sk_plan* parsed = nullptr;
    EXPECT_EQ(sk_plan_parse(comm, text.data(), size, &parsed), SK_ERR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sk_last_error()).find("1 ranks' parts, world size 70"), std::string::npos)
        << sk_last_error();
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
  });
}

}  // namespace
}  // namespace sk::testing_ops
