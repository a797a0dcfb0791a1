// Children that are forked and nothing else: refused what was their parent's, and able to compute
// alone once they have called sk_init() themselves.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"
#include "tests/support/own_tiles.h"

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kForksThreads = false;  // ThreadSanitizer starts no thread behind such a fork.
#else
constexpr bool kForksThreads = true;
#endif

constexpr int64_t kRows = 700, kColumns = 96;  // Enough for several workers.

sk_tensor matrix(std::vector<float>& data) {
  sk_tensor t{};
  t.struct_size = sizeof t;
  t.dtype = SK_F32;
  t.data = data.data();
  t.ndim = 2;
  t.shape[0] = kRows;
  t.shape[1] = t.strides[0] = kColumns;
  t.strides[1] = 1;
  return t;
}

// Whether rmsnorm on `comm` gives what its formula says.
bool computes(sk_comm* comm) {
  std::vector<float> x(kRows * kColumns), y(kRows * kColumns, 7.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 13) - 5.0f;
  sk_tensor in = matrix(x), out = matrix(y);
  sk_rmsnorm_args args{};
  args.struct_size = sizeof args;
  args.x = &in;
  args.y = &out;
  args.eps = 0.5;
  if (sk_rmsnorm(comm, &args, nullptr) != SK_OK) return false;
  for (int64_t i = 0; i < kRows; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < kColumns; ++j)
      squares += double(x[i * kColumns + j]) * x[i * kColumns + j];
    const double rstd = 1 / std::sqrt(squares / kColumns + 0.5);
    for (int64_t j = 0; j < kColumns; ++j) {
      if (std::abs(y[i * kColumns + j] - x[i * kColumns + j] * rstd) > 1e-4) return false;
    }
  }
  return true;
}

// Whether a context of this process computes, and ends.
bool begins_anew() {
  sk_context* context = nullptr;
  sk_comm* self = nullptr;
  return sk_init(nullptr, &context) == SK_OK && sk_comm_self(context, &self) == SK_OK &&
         computes(self) && sk_finalize(context) == SK_OK;
}

// The exit status of a child that calls `body`: 0 where that returns 0. One that hangs is killed.
int child_of(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

class Forked : public testing::Test {
 protected:
  void SetUp() override {
    if (!kForksThreads) GTEST_SKIP() << "threads behind such a fork are not for ThreadSanitizer";
    ASSERT_EQ(sk_init(nullptr, &context_), SK_OK);
    ASSERT_EQ(sk_comm_self(context_, &self_), SK_OK) << sk_last_error();
    ASSERT_TRUE(computes(self_)) << sk_last_error();
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    EXPECT_TRUE(computes(self_)) << sk_last_error();  // Whatever its children did.
    EXPECT_EQ(sk_finalize(context_), SK_OK) << sk_last_error();
  }

  sk_context* context_ = nullptr;
  sk_comm* self_ = nullptr;
};

TEST_F(Forked, ChildrenComputeAloneOnceTheyHaveBegunAnew) {
  EXPECT_EQ(child_of([&] {
              sk_comm* self = nullptr;
              if (sk_comm_self(context_, &self) != SK_ERR_FORKED) return 1;
              if (!begins_anew()) return 2;
              return begins_anew() ? 0 : 3;
            }),
            0);
}

TEST_F(Forked, WhatWasTheParentsStaysRefused) {
  EXPECT_EQ(child_of([&] {
              sk_context* own = nullptr;
              sk_comm* self = nullptr;
              if (sk_init(nullptr, &own) != SK_OK) return 1;
              if (sk_comm_self(context_, &self) != SK_ERR_FORKED) return 2;
              const bool said = std::string(sk_last_error()).find("forked") != std::string::npos;
              if (!said || computes(self_)) return 3;
              if (sk_finalize(context_) != SK_ERR_FORKED) return 4;
              if (sk_comm_self(own, &self) != SK_OK || !computes(self)) return 5;
              return sk_finalize(own) == SK_OK ? 0 : 6;
            }),
            0);
}

TEST_F(Forked, ChildrenMeetNobody) {
  EXPECT_EQ(child_of([&] {
              sk_context* own = nullptr;
              sk_comm* comm = nullptr;
              sk_comm_config config{};
              config.struct_size = sizeof config;
              config.bootstrap = SK_BOOTSTRAP_THREADS;
              config.world_size = 1;
              if (sk_init(nullptr, &own) != SK_OK) return 1;
              return sk_comm_create(own, &config, &comm) == SK_ERR_FORKED ? 0 : 2;
            }),
            0);
}

TEST_F(Forked, SoDoTheirOwnChildren) {
  EXPECT_EQ(child_of([&] {
              sk_context* own = nullptr;
              if (sk_init(nullptr, &own) != SK_OK) return 1;
              return child_of([&] {
                       sk_comm* self = nullptr;
                       if (sk_comm_self(own, &self) != SK_ERR_FORKED) return 1;
                       return begins_anew() ? 0 : 2;
                     }) == 0
                         ? 0
                         : 3;
            }),
            0);
}

// No lock that another thread of the parent held is ever waited for.
TEST_F(Forked, WhileOtherThreadsAreInside) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer's heap hangs in a child where another thread was in it";
#endif
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop.load()) EXPECT_TRUE(begins_anew()) << sk_last_error();
    });
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(child_of([] { return begins_anew() ? 0 : 1; }), 0) << i;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

// A function of a call's that forks, and what its child's calls came to.
struct Forks {
  pid_t parent = getpid();
  std::atomic<pid_t> child{0};
  std::atomic<bool> ended{false};
  int status = -1;

  // Once; its child returns.
  void operator()() {
    if (child != 0) return;
    child = fork();
    if (child == 0) {
      child = -1;
      alarm(20);
      return;
    }
    EXPECT_EQ(waitpid(child, &status, 0), child);
    ended = true;
  }
  bool is_child() const { return getpid() != parent; }
};

// The others go on with the parent, and hear nothing of the child.
TEST_F(Forked, AChildOfAWaitForRanksIsInNoCall) {
  for (const int workers : {1, 2}) {
    Forks forks;
    sk::testing_ops::in_thread_ranks(
        2,
        [&](sk_comm* comm, int rank) {
          std::vector<float> x(100'000, 1.0f);
          const auto sum = [&] {
            return sk_allreduce(comm, x.data(), x.data(), int64_t(x.size()), SK_F32, SK_SUM,
                                nullptr);
          };
          while (rank == 1 && !forks.ended) std::this_thread::yield();
          const sk_status status = sum();
          if (forks.is_child()) {
            const bool said =
                std::string(sk_last_error()).find("config.waiting forked") != std::string::npos;
            _exit(status == SK_ERR_FORKED && said && sum() == SK_ERR_FORKED ? 0 : 1);
          }
          EXPECT_EQ(status, SK_OK) << sk_last_error();
          EXPECT_EQ(x[99'999], 2.0f);
          EXPECT_EQ(sum(), SK_OK) << sk_last_error();
        },
        [&](sk_comm_config& config) {
          config.workers = workers;
          config.timeout_ms = 2'000;
          if (config.rank != 0) return;
          config.waiting = [](void* user) { (*static_cast<Forks*>(user))(); };
          config.waiting_user = &forks;
        });
    EXPECT_EQ(forks.status, 0);
  }
}

int32_t stays(void* const*, const sk_tile_view*, const sk_tile_value*, void* user) {
  while (!static_cast<Forks*>(user)->ended) std::this_thread::yield();
  return 1;
}

TEST_F(Forked, AChildOfAWaitForATurnIsInNoCall) {
  Forks forks;
  sk::testing_support::OwnTile tile("stays", stays);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").over(SK_TILE_OVER_ALL);
  tile.desc.user = &forks;
  int32_t op = 0;
  ASSERT_EQ(sk_tile_register(context_, tile.get(), &op), SK_OK) << sk_last_error();
  std::vector<float> x(kRows * kColumns), y(kRows * kColumns);
  const sk::testing_support::OwnArgs args({matrix(x), matrix(y)});
  sk_run_options options{};
  options.struct_size = sizeof options;
  options.waiting_user = &forks;
  options.waiting = [](void* user) -> int32_t {
    (*static_cast<Forks*>(user))();
    return 0;
  };
  const auto call = [&] {
    const sk_status status = sk_call(self_, op, args.get(), &options);
    if (forks.is_child()) {
      const bool said = std::string(sk_last_error()).find("forked") != std::string::npos;
      _exit(status == SK_ERR_FORKED && said && !computes(self_) ? 0 : 1);
    }
    EXPECT_EQ(status, SK_OK) << sk_last_error();
  };
  std::thread other(call);  // One of the two waits for the other one, and forks.
  call();
  other.join();
  EXPECT_EQ(forks.status, 0);
}

// Another thread begins `call`, and so long after that a child is forked, which begins anew.
int fork_beside(std::chrono::microseconds pause, const std::function<bool()>& call) {
  std::atomic<bool> begun{false}, right{false};
  std::thread other([&] {
    begun.store(true);
    right.store(call());
  });
  while (!begun.load()) {
  }
  const auto until = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < until) {
  }
  const int status = child_of([] { return begins_anew() ? 0 : 2; });
  other.join();
  return status != 0 ? 3 : right.load() ? 0 : 4;
}

// What is made once in a process, at a first call, is a lock for as long as that takes. Each round
// has a parent of its own, in which nothing was called before.
TEST(ForkedEarly, WhileTheFirstCallIsUnderWay) {
  if (!kForksThreads) GTEST_SKIP() << "threads behind such a fork are not for ThreadSanitizer";
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer's heap hangs in a child where another thread was in it";
#endif
  for (int round = 0; round < 120; ++round) {
    const auto pause = std::chrono::microseconds(4 * round);
    const auto parent = [&] {
      sk_context* own = nullptr;
      if (sk_init(nullptr, &own) != SK_OK) return 1;
      return fork_beside(pause, [&] {
        sk_comm* self = nullptr;
        return sk_comm_self(own, &self) == SK_OK && computes(self);
      });
    };
    ASSERT_EQ(child_of(parent), 0)
        << "forked " << pause.count() << " us after the first call began";
  }
}

// As sk_init() is the first call, too.
TEST(ForkedEarly, WhileTheFirstInitIsUnderWay) {
  if (!kForksThreads) GTEST_SKIP() << "threads behind such a fork are not for ThreadSanitizer";
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer's heap hangs in a child where another thread was in it";
#endif
  for (int round = 0; round < 120; ++round) {
    const auto pause = std::chrono::microseconds(4 * round);
    ASSERT_EQ(child_of([&] { return fork_beside(pause, begins_anew); }), 0)
        << "forked " << pause.count() << " us after the first sk_init() began";
  }
}

TEST_F(Forked, WhileAnotherThreadLooksAtTheMachine) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer's heap hangs in a child where another thread was in it";
#endif
  const auto discovers = [] {
    sk_topo* topo = nullptr;
    return sk_topo_discover(&topo) == SK_OK && sk_topo_free(topo) == SK_OK;
  };
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) EXPECT_TRUE(discovers()) << sk_last_error();
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(child_of([&] { return begins_anew() && discovers() ? 0 : 1; }), 0) << i;
  }
  stop.store(true);
  other.join();
}

TEST_F(Forked, WhileAnotherThreadMakesCommunicators) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer's heap hangs in a child where another thread was in it";
#endif
  const auto makes_one = [this] {
    sk_comm* comm = nullptr;
    return sk_comm_create(context_, nullptr, &comm) == SK_OK && computes(comm) &&
           sk_comm_free(comm) == SK_OK;
  };
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) EXPECT_TRUE(makes_one()) << sk_last_error();
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(child_of([] { return begins_anew() ? 0 : 1; }), 0) << i;
  }
  stop.store(true);
  other.join();
}

// Two threads of a child may each be the first.
TEST_F(Forked, SeveralThreadsOfAChildBeginAtOnce) {
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(child_of([] {
                std::atomic<int> wrong{0};
                std::vector<std::thread> threads;
                for (int i = 0; i < 4; ++i) {
                  threads.emplace_back([&] { wrong += begins_anew() ? 0 : 1; });
                }
                for (std::thread& thread : threads) thread.join();
                return wrong.load();
              }),
              0);
  }
}

}  // namespace
