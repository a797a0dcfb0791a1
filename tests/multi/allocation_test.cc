// Every allocation that a call makes may fail. The call says so then, peers are not left waiting,
// and none of the calls that still succeed has wrong data.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace {

// Of this thread: so many succeed yet; -1: all do.
thread_local int64_t allocations_left = -1;
thread_local bool all_after_it = false;  // Once one has failed, all others do.
thread_local bool has_failed = false;
// Of threads that are none of the test's.
thread_local bool of_the_test = false;
std::atomic<bool> others_fail{false};
std::atomic<int> others_failed{0};

bool fails_now() {
  if (!of_the_test) {
    if (!others_fail.load()) return false;
    ++others_failed;
    return true;
  }
  if (allocations_left < 0) return false;
  if (allocations_left > 0) {
    --allocations_left;
    return false;
  }
  allocations_left = all_after_it ? 0 : -1;
  has_failed = true;
  return true;
}

}  // namespace

// Not inlined: the compiler would see memory of malloc() that delete gives back.
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = fails_now() ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Sorts ask so for their buffers, and give them back as all others do.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return fails_now() ? nullptr : std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace sk::testing_ops {
namespace {

constexpr int64_t kCount = 30'000, kSize = 256;
constexpr int kRanks = 2;

struct Rank {
  sk_comm* comm;
  int rank;
  std::vector<float> in, out, a, b, c;

  Rank(sk_comm* with, int who)
      : comm(with),
        rank(who),
        in(kCount),
        out(kRanks * kCount),
        a(kSize * kSize),
        b(kSize * kSize),
        c(kSize * kSize) {}
};

sk_tensor matrix(std::vector<float>& data) {
  sk_tensor tensor{};
  tensor.struct_size = sizeof(tensor);
  tensor.data = data.data();
  tensor.dtype = SK_F32;
  tensor.ndim = 2;
  tensor.shape[0] = tensor.shape[1] = tensor.strides[0] = kSize;
  tensor.strides[1] = 1;
  return tensor;
}

bool all_are(const float* data, int64_t count, float value) {
  return std::all_of(data, data + count, [&](float each) { return each == value; });
}

// What a rank calls, with fresh values in `turn`: the code, and whether the result is right.
struct Outcome {
  sk_status status = SK_OK;
  bool right = true;
};
using Call = std::function<Outcome(Rank&, int turn)>;

Outcome allgather(Rank& r, int turn) {
  std::fill(r.in.begin(), r.in.end(), float(10 * turn + r.rank));
  const sk_status status = sk_allgather(r.comm, r.in.data(), r.out.data(), kCount, SK_F32, nullptr);
  return {status, all_are(r.out.data(), kCount, float(10 * turn)) &&
                      all_are(r.out.data() + kCount, kCount, float(10 * turn + 1))};
}

Outcome product(Rank& r, int turn) {
  std::fill(r.a.begin(), r.a.end(), float(turn));
  std::fill(r.b.begin(), r.b.end(), float(1 + r.rank));
  const sk_tensor a = matrix(r.a), b = matrix(r.b);
  sk_tensor c = matrix(r.c);
  const sk_status status = sk_allreduce_gemm(r.comm, &a, &b, nullptr, &c, 0, nullptr);
  return {status, all_are(r.c.data(), kSize * kSize, float(turn * kSize * 3))};
}

Outcome pass_on(Rank& r, int turn) {
  std::fill(r.in.begin(), r.in.end(), float(turn));
  if (r.rank == 0) return {sk_send(r.comm, r.in.data(), kCount, SK_F32, 1, nullptr), true};
  const sk_status status = sk_recv(r.comm, r.out.data(), kCount, SK_F32, 0, nullptr);
  return {status, all_are(r.out.data(), kCount, float(turn))};
}

Outcome allocate(Rank& r, int) {
  void* memory = nullptr;
  return {sk_alloc(r.comm, 4096, &memory), true};
}

Outcome enlist(Rank& r, int turn) {
  return {sk_register(r.comm, r.in.data() + 16 * turn, 64), true};
}

void arm(int64_t failing, bool all) {
  has_failed = false;
  all_after_it = all;
  allocations_left = failing;
}

struct Case {
  const char* name;
  Call call;
  bool traced;
};

class Allocation : public testing::TestWithParam<Case> {
 protected:
  // Rank 0's third call lacks its allocation number `failing` (and with `all` every later one).
  // Whether there was such a one.
  bool run_world(int64_t failing, bool all) {
    constexpr int kCalls = 6, kArmed = 2;
    Outcome outcomes[kRanks][kCalls];
    std::string sentences[kRanks][kCalls];
    std::atomic<bool> happened{false};
    in_thread_ranks(
        kRanks,
        [&](sk_comm* comm, int rank) {
          of_the_test = true;
          if (GetParam().traced) {
            ASSERT_EQ(sk_trace_start(comm, 1 << 16), SK_OK);
          }
          Rank self(comm, rank);
          for (int i = 0; i < kCalls; ++i) {
            const Call& call = i < kArmed ? warm_up_ : i == kArmed ? GetParam().call : after_;
            if (rank == 0 && i == kArmed) arm(failing, all);
            const Outcome outcome = call(self, i + 1);
            allocations_left = -1;
            outcomes[rank][i] = outcome;
            if (outcome.status != SK_OK) sentences[rank][i] = sk_last_error();
          }
          if (rank == 0) happened = has_failed;
        },
        [](sk_comm_config& config) { config.workers = 2; });
    for (int i = 0; i < kCalls; ++i) {
      SCOPED_TRACE(testing::Message() << "allocation " << failing
                                      << (all ? " and all later ones" : "") << ", call " << i);
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto [status, right] = outcomes[rank][i];
        EXPECT_TRUE(status == SK_OK || status == SK_ERR_NO_MEMORY || status == SK_ERR_ABORTED)
            << "rank " << rank << ": " << sk_status_name(status) << ": " << sentences[rank][i];
        EXPECT_TRUE(status != SK_OK || right) << "wrong data at rank " << rank;
        EXPECT_EQ(status == SK_OK, sentences[rank][i].empty());
      }
      if (i < kArmed) {
        EXPECT_EQ(outcomes[0][i].status, SK_OK) << sentences[0][i];
      }
      if (i > kArmed) {  // Either both are done with it, or none.
        EXPECT_EQ(outcomes[0][i].status == SK_OK, outcomes[1][i].status == SK_OK)
            << sentences[0][i] << " and " << sentences[1][i];
      }
    }
    return happened;
  }

  // Of another size than the armed call's, which so has to make its plan.
  const Call warm_up_ = [](Rank& r, int) -> Outcome { return {sk_barrier(r.comm, nullptr), true}; };
  const Call after_ = allgather;
};

TEST_P(Allocation, ThatFailsIsSaidAndLeavesNobodyWaiting) {
  for (const bool all : {false, true}) {
    int64_t failing = 0;
    while (run_world(failing, all) && !HasFailure()) failing += 1 + failing / 5;
    EXPECT_GT(failing, 0) << "the call allocates nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Calls, Allocation,
    testing::Values(Case{"Allgather", allgather, false}, Case{"AllgatherTraced", allgather, true},
                    Case{"Product", product, false}, Case{"ProductTraced", product, true},
                    Case{"SendAndReceive", pass_on, false}, Case{"Alloc", allocate, false},
                    Case{"Register", enlist, false}),
    [](const auto& info) { return info.param.name; });

// All ranks have refused the call, whoever lacks the memory to say why: the communicator goes on.
TEST(AllocationInARefusedCall, ThatFailsEndsNothing) {
  for (const bool declines : {false, true}) {
    for (const bool all : {false, true}) {
      bool happened = true;
      for (int64_t failing = 0; happened && !testing::Test::HasFailure();
           failing += 1 + failing / 8) {
        SCOPED_TRACE(testing::Message() << "allocation " << failing << (all ? " and later" : "")
                                        << (declines ? ", a rank declines" : ""));
        in_thread_ranks(kRanks, [&](sk_comm* comm, int rank) {
          of_the_test = true;
          float in[8] = {}, out[8] = {};
          ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
          if (rank == 0) arm(failing, all);
          void* memory = nullptr;
          const sk_status status =
              rank == 1 && declines
                  ? sk_alloc(comm, uint64_t(1) << 40, &memory)
                  : sk_allreduce(comm, in, out, 4 + rank, SK_F32, SK_SUM, nullptr);
          allocations_left = -1;
          if (rank == 0) happened = has_failed;
          if (declines && rank == 1) {
            EXPECT_EQ(status, SK_ERR_OUT_OF_RANGE) << sk_last_error();
          } else {
            EXPECT_TRUE(status == SK_ERR_DESYNC || status == SK_ERR_NO_MEMORY) << sk_last_error();
          }
          EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
        });
      }
    }
  }
}

// A worker's thread has nobody above it to catch what it throws.
TEST(AllocationOfAWorker, ThatFailsEndsTheCallAndNotTheProcess) {
  std::atomic<bool> rank_0_has_ended{false};
  in_thread_ranks(
      kRanks,
      [&](sk_comm* comm, int rank) {
        of_the_test = true;
        Rank self(comm, rank);
        ASSERT_EQ(product(self, 1).status, SK_OK) << sk_last_error();
        // Rank 0's worker waits for the others, and needs some memory to go on doing so. They come
        // once the call has ended: sooner, its other worker might end their part before it is told.
        if (rank == 0) {
          others_failed = 0;
          others_fail = true;
        } else {
          while (!rank_0_has_ended.load()) std::this_thread::yield();
        }
        const Outcome ended = product(self, 2);
        if (rank == 0) {
          EXPECT_GT(others_failed.load(), 0);
          others_fail = false;
          rank_0_has_ended = true;
        }
        EXPECT_EQ(ended.status, rank == 0 ? SK_ERR_NO_MEMORY : SK_ERR_ABORTED) << sk_last_error();
        EXPECT_NE(std::string(sk_last_error()).find("memory ran out"), std::string::npos);
        EXPECT_NE(sk_barrier(comm, nullptr), SK_OK);
      },
      [](sk_comm_config& config) { config.workers = 2; });
}

// It takes no call with it: the events are counted as dropped.
TEST(AllocationOfAWorker, ForATraceIsDispensable) {
  in_thread_ranks(
      1,
      [&](sk_comm* comm, int rank) {
        of_the_test = true;
        Rank self(comm, rank);
        const auto run = [&](int turn) {
          std::fill(self.a.begin(), self.a.end(), float(turn));
          std::fill(self.b.begin(), self.b.end(), 1.0f);
          const sk_tensor a = matrix(self.a), b = matrix(self.b);
          sk_tensor c = matrix(self.c);
          ASSERT_EQ(sk_allreduce_gemm(comm, &a, &b, nullptr, &c, 0, nullptr), SK_OK)
              << sk_last_error();
          EXPECT_TRUE(all_are(self.c.data(), kSize * kSize, float(turn * kSize)));
        };
        run(1);
        ASSERT_EQ(sk_trace_start(comm, 1 << 16), SK_OK);
        std::string trace(2 << 20, '\0');
        const auto has_dropped = [&] {
          size_t size = 0;
          EXPECT_EQ(sk_trace_dump(comm, trace.data(), trace.size(), &size), SK_OK);
          return trace.find("\"dropped\": 0") == std::string::npos;
        };
        others_fail = true;
        // Until the other worker has come to run a task: the caller's takes those that it is late
        // to.
        constexpr int kTurnsMax = 1000;
        int turn = 2;
        do {
          run(turn);
        } while (!has_dropped() && ++turn < kTurnsMax);
        others_fail = false;
        run(3);
        EXPECT_TRUE(has_dropped()) << trace.c_str();
      },
      [](sk_comm_config& config) { config.workers = 2; });
}

}  // namespace
}  // namespace sk::testing_ops
