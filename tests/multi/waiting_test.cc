// What the caller's own functions may do: one that looks while a call waits, and one that gathers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/multi/thread_ranks.h"
#include "tests/support/own_tiles.h"

namespace sk::testing_ops {
namespace {

using testing_support::matrix;

enum class Does { kReturns, kAborts, kThrows };

struct Look {
  Does does;
  std::atomic<sk_comm*> comm{nullptr};
  std::atomic<int> count{0};
  std::atomic<int32_t> inside{SK_OK};
  std::thread::id thread = {};
};

void look(void* user) {
  auto& mine = *static_cast<Look*>(user);
  mine.thread = std::this_thread::get_id();
  sk_comm* const comm = mine.comm.load();
  mine.inside = sk_barrier(comm, nullptr);
  ++mine.count;
  if (mine.does == Does::kAborts) {
    EXPECT_EQ(sk_comm_abort(comm, "enough"), SK_OK);
  }
  if (mine.does == Does::kThrows) throw std::runtime_error("of the caller's");
}

// Rank 1 comes once rank 0's function has been called twice, or rank 0's call has ended.
void wait_and_look(Does does, int workers, int32_t wanted, const std::string& sentence) {
  Look mine{.does = does};
  std::atomic<bool> ended{false};
  in_thread_ranks(
      2,
      [&](sk_comm* comm, int rank) {
        std::vector<float> x(100'000, 1.0f);
        if (rank == 0) {
          mine.comm = comm;
        } else {
          while (mine.count < 2 && !ended) std::this_thread::yield();
        }
        const sk_status status =
            sk_allreduce(comm, x.data(), x.data(), int64_t(x.size()), SK_F32, SK_SUM, nullptr);
        if (rank == 0) ended = true;
        EXPECT_EQ(status, wanted) << sk_last_error();
        if (wanted == SK_OK) {
          EXPECT_EQ(x[99'999], 2.0f);
          return;
        }
        EXPECT_NE(std::string(sk_last_error()).find(sentence), std::string::npos)
            << sk_last_error();
        if (rank == 0) {
          EXPECT_EQ(mine.thread, std::this_thread::get_id());
        }
      },
      [&](sk_comm_config& config) {
        config.workers = workers;
        if (config.rank == 0) {
          config.waiting = look;
          config.waiting_user = &mine;
        }
      });
  EXPECT_GE(mine.count, does == Does::kReturns ? 2 : 1);
  EXPECT_EQ(mine.inside, SK_ERR_BUSY);
}

TEST(Waiting, ACallThatWaitsLetsTheCallerLook) {
  for (const int workers : {1, 2}) wait_and_look(Does::kReturns, workers, SK_OK, "");
}

TEST(Waiting, TheCallerMayAbortWhatItWaitsFor) {
  for (const int workers : {1, 2}) wait_and_look(Does::kAborts, workers, SK_ERR_ABORTED, "enough");
}

TEST(Waiting, AnExceptionEndsTheCommunicator) {
  for (const int workers : {1, 2})
    wait_and_look(Does::kThrows, workers, SK_ERR_ABORTED, "config.waiting threw an exception");
}

struct SlowLooks {
  std::atomic<int> count{0};
  static void look(void* user) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    ++static_cast<SlowLooks*>(user)->count;
  }
};

// A timeout of a second leaves room for ten looks of 100 ms, whatever else goes on.
TEST(Waiting, TheCallersOwnFunctionTakesOfTheTimeout) {
  SlowLooks mine;
  std::atomic<bool> ended{false};
  in_thread_ranks(
      2,
      [&](sk_comm* comm, int rank) {
        ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
        mine.count = 0;
        if (rank == 1) {
          while (!ended) std::this_thread::yield();
          return;
        }
        sk_run_options options{};
        options.struct_size = sizeof(options);
        options.timeout_ms = 1000;
        EXPECT_EQ(sk_barrier(comm, &options), SK_ERR_TIMEOUT) << sk_last_error();
        ended = true;
      },
      [&](sk_comm_config& config) {
        if (config.rank != 0) return;
        config.waiting = SlowLooks::look;
        config.waiting_user = &mine;
      });
  EXPECT_GE(mine.count, 1);
  EXPECT_LE(mine.count, 10);
}

// What that call is inside of it would wait for, and for itself.
struct Ends {
  std::atomic<sk_comm*> comm{nullptr};
  sk_packed* packed = nullptr;
  std::atomic<int> count{0};
  sk_status comm_status = SK_OK, packed_status = SK_OK;
  std::string of_comm = {}, of_packed = {};
};

void end_all(void* user) {
  auto& it = *static_cast<Ends*>(user);
  if (it.count != 0) return;
  it.comm_status = sk_comm_free(it.comm);
  it.of_comm = sk_last_error();
  it.packed_status = sk_packed_free(it.packed);
  it.of_packed = sk_last_error();
  ++it.count;
}

TEST(Waiting, TheCallerEndsNothingThatTheCallIsInsideOf) {
  Ends it;
  in_thread_ranks(
      2,
      [&](sk_comm* comm, int rank) {
        std::vector<float> a(16, 1), b(16, 1), c(16);
        const sk_tensor left = matrix(SK_F32, a.data(), 4, 4, 4);
        const sk_tensor right = matrix(SK_F32, b.data(), 4, 4, 4);
        sk_tensor out = matrix(SK_F32, c.data(), 4, 4, 4);
        sk_packed* packed = nullptr;
        ASSERT_EQ(sk_pack(comm, &right, 0, &packed), SK_OK) << sk_last_error();
        if (rank == 0) {
          it.packed = packed;
          it.comm = comm;
        } else {
          while (it.count == 0) std::this_thread::yield();
        }
        EXPECT_EQ(sk_allreduce_gemm(comm, &left, nullptr, packed, &out, 0, nullptr), SK_OK)
            << sk_last_error();
        EXPECT_EQ(c[15], 8.0f);
        EXPECT_EQ(sk_packed_free(packed), SK_OK) << sk_last_error();
      },
      [&](sk_comm_config& config) {
        if (config.rank != 0) return;
        config.waiting = end_all;
        config.waiting_user = &it;
      });
  EXPECT_EQ(it.comm_status, SK_ERR_BUSY);
  EXPECT_EQ(it.of_comm,
            "called from config.waiting, inside a call on the same communicator that is not over");
  EXPECT_EQ(it.packed_status, SK_ERR_BUSY);
  EXPECT_EQ(
      it.of_packed,
      "called from config.waiting, inside a call on the same packed weights that is not over");
}

TEST(Gathering, AnExceptionIsAFailureOfTheCallers) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm_config config{};
  config.struct_size = sizeof config;
  config.bootstrap = SK_BOOTSTRAP_CALLBACK;
  config.world_size = 1;
  config.allgather = [](void*, const void*, size_t, void*) -> int32_t {
    throw std::runtime_error("of the caller's");
  };
  sk_comm* comm = nullptr;
  EXPECT_EQ(sk_comm_create(context, &config, &comm), SK_ERR_TRANSPORT);
  EXPECT_STREQ(sk_last_error(), "the caller's all-gather threw an exception on rank 0");
  // The next one is made as ever.
  config.allgather = [](void*, const void* in, size_t bytes, void* out) -> int32_t {
    std::memcpy(out, in, bytes);
    return 0;
  };
  EXPECT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_comm_free(comm), SK_OK);
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

}  // namespace
}  // namespace sk::testing_ops
