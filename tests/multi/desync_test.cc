// Ranks that do not do what the others do: all are told who, and in what; and those that leave.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace {

using sk::testing_ops::in_thread_ranks;

void expect_refused(sk_status status, int32_t code, const std::string& word) {
  EXPECT_STREQ(sk_status_name(status), sk_status_name(code)) << sk_last_error();
  EXPECT_NE(std::string(sk_last_error()).find(word), std::string::npos)
      << "'" << sk_last_error() << "' does not name '" << word << "'";
}

void expect_usable_by(sk_comm* comm, int ranks) {
  float in[3] = {1, 2, 3}, out[3] = {};
  ASSERT_EQ(sk_allreduce(comm, in, out, 3, SK_F32, SK_SUM, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(out[2], 3.0f * float(ranks));
}
void expect_usable(sk_comm* comm) { expect_usable_by(comm, 2); }

sk_tensor tensor(void* data, int64_t rows, int64_t cols) {
  sk_tensor t{};
  t.struct_size = sizeof(t);
  t.dtype = SK_F32;
  t.data = data;
  t.ndim = 2;
  t.shape[0] = rows;
  t.shape[1] = t.strides[0] = cols;
  t.strides[1] = 1;
  return t;
}

TEST(Desync, RanksThatCallDifferentThingsAllLearnBoth) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    float in[8] = {}, out[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    for (int i = 0; i < 50; ++i) {
      const sk_status status = rank == 0 ? sk_allreduce(comm, in, out, 8, SK_F32, SK_SUM, nullptr)
                                         : sk_broadcast(comm, in, out, 4, SK_F32, 1, nullptr);
      expect_refused(status, SK_ERR_DESYNC, "allreduce(f32, sum, 8)");
      expect_refused(status, SK_ERR_DESYNC, "broadcast(f32, 4, root 1)");
      EXPECT_EQ(out[0], 7.0f);
      expect_usable(comm);
    }
    // The same operation of another size, and memory that only one rank took from sk_alloc().
    expect_refused(sk_allreduce(comm, in, out, 4 + rank, SK_F32, SK_SUM, nullptr), SK_ERR_DESYNC,
                   "5");
    expect_usable(comm);
  });
}

// One of 16 ranks differs: every rank says which, and in what.
struct OddCall {
  const char* name;
  const char* says;  // Behind "rank 5 called ".
  std::function<sk_status(sk_comm*, float*, float*, bool odd)> call;
};

sk_status odd_gemm(sk_comm* comm, float* in, float* out, uint32_t flags, int64_t c_stride,
                   int64_t a_stride) {
  sk_tensor a = tensor(in, 4, 4), b = tensor(in, 4, 4), c = tensor(out, 4, 4);
  a.strides[0] = a_stride;
  c.strides[0] = c_stride;
  return sk_allreduce_gemm(comm, &a, &b, nullptr, &c, flags, nullptr);
}

std::vector<OddCall> odd_calls() {
  return {
      {"count",
       "allreduce(f32, sum, 7) while the other 15 ranks called allreduce(f32, sum, 8): count is 7, "
       "not 8",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return sk_allreduce(c, in, out, odd ? 7 : 8, SK_F32, SK_SUM, nullptr);
       }},
      {"dtype and reduction", "dtype is i32, not f32; op is max, not sum",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return sk_allreduce(c, in, out, 8, odd ? SK_I32 : SK_F32, odd ? SK_MAX : SK_SUM, nullptr);
       }},
      {"root", "15 ranks called broadcast(f32, 4, root 1): root is 5, not 1",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return sk_broadcast(c, in, out, 4, SK_F32, odd ? 5 : 1, nullptr);
       }},
      {"in place", "in place is true, not false",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return sk_allreduce(c, odd ? out : in, out, 8, SK_F32, SK_SUM, nullptr);
       }},
      {"kind", "barrier() while the other 15 ranks called allgather(f32, 1)",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return odd ? sk_barrier(c, nullptr) : sk_allgather(c, in, out, 1, SK_F32, nullptr);
       }},
      {"rows of a gathered product", "allgather_gemm(f32 to f32, 1 x 2 x 2): m is 2, not 1",
       [](sk_comm* c, float* in, float* out, bool odd) {
         sk_tensor a = tensor(in, odd ? 2 : 1, 2), b = tensor(in, 2, 2);
         sk_tensor all = tensor(out, odd ? 32 : 16, 2);
         return sk_allgather_gemm(c, &a, &b, nullptr, &all, 0, nullptr);
       }},
      {"the other product", "called allgather_gemm(f32 to f32, 1 x 2 x 2)",
       [](sk_comm* c, float* in, float* out, bool odd) {
         sk_tensor a = tensor(in, 1, 2), b = tensor(in, 2, 2), all = tensor(out, odd ? 1 : 16, 2);
         const auto call = odd ? sk_allreduce_gemm : sk_allgather_gemm;
         return call(c, &a, &b, nullptr, &all, 0, nullptr);
       }},
      {"transpose of a", "transpose_a is true, not false",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return odd_gemm(c, in, out, odd ? uint32_t(SK_GEMM_TRANSPOSE_A) : 0u, 4, 4);
       }},
      {"transpose of b", "transpose_b is true, not false",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return odd_gemm(c, in, out, odd ? uint32_t(SK_GEMM_TRANSPOSE_B) : 0u, 4, 4);
       }},
      {"strides", "stride of a is 5, not 4; stride of c is 6, not 4",
       [](sk_comm* c, float* in, float* out, bool odd) {
         return odd_gemm(c, in, out, 0, odd ? 6 : 4, odd ? 5 : 4);
       }},
  };
}

TEST(Desync, TheOneOfSixteenThatDiffersIsNamedWithItsField) {
  in_thread_ranks(16, [](sk_comm* comm, int rank) {
    alignas(64) float in[64] = {}, out[64];
    for (const OddCall& odd : odd_calls()) {
      SCOPED_TRACE(odd.name);
      for (float& value : out) value = 7;
      const sk_status status = odd.call(comm, in, out, rank == 5);
      expect_refused(status, SK_ERR_DESYNC, "rank 5 called ");
      expect_refused(status, SK_ERR_DESYNC, odd.says);
      for (const float value : out) ASSERT_EQ(value, 7.0f);
      expect_usable_by(comm, 16);
    }
  });
}

struct PeersCall {
  const char* says;
  std::function<sk_status(sk_comm*, float*, float*)> call;
};

std::vector<PeersCall> calls_beside_a_barrier() {
  return {
      {"allreduce(f32, sum, 8)",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, 8, SK_F32, SK_SUM, nullptr);
       }},
      {"allgather(f32, 2)",
       [](sk_comm* c, float* in, float* out) {
         return sk_allgather(c, in, out, 2, SK_F32, nullptr);
       }},
      {"reduce_scatter(f32, max, 2)",
       [](sk_comm* c, float* in, float* out) {
         return sk_reduce_scatter(c, in, out, 2, SK_F32, SK_MAX, nullptr);
       }},
      {"broadcast(f32, 4, root 0)",
       [](sk_comm* c, float* in, float* out) {
         return sk_broadcast(c, in, out, 4, SK_F32, 0, nullptr);
       }},
      {"allreduce_gemm(f32 to f32, 4 x 4 x 4)",
       [](sk_comm* c, float* in, float* out) { return odd_gemm(c, in, out, 0, 4, 4); }},
      {"alloc(64 bytes)",
       [](sk_comm* c, float*, float*) {
         void* memory = nullptr;
         return sk_alloc(c, 64, &memory);
       }},
  };
}

// Each call by its own ranks, whichever of them is in the barrier.
TEST(Desync, ABarrierAndAnotherCallAreNamedWithTheirRanks) {
  in_thread_ranks(4, [](sk_comm* comm, int rank) {
    alignas(64) float in[64] = {}, out[64];
    for (const PeersCall& peers : calls_beside_a_barrier()) {
      SCOPED_TRACE(peers.says);
      const std::string other = peers.says;
      for (const int waits : {0, 3}) {
        const sk_status alone =
            rank == waits ? sk_barrier(comm, nullptr) : peers.call(comm, in, out);
        expect_refused(alone, SK_ERR_DESYNC,
                       "rank " + std::to_string(waits) +
                           " called barrier() while the other 3 ranks called " + other);
        const sk_status most =
            rank != waits ? sk_barrier(comm, nullptr) : peers.call(comm, in, out);
        expect_refused(most, SK_ERR_DESYNC,
                       "rank " + std::to_string(waits) + " called " + other +
                           " while the other 3 ranks called barrier()");
      }
      expect_usable_by(comm, 4);
    }
  });
}

// A rank that cannot take part tells of its own call, which is not what the others wait in.
TEST(Desync, ABarrierIsNotWhatARankWithoutMemoryLacksItFor) {
  in_thread_ranks(3, [](sk_comm* comm, int rank) {
    if (rank == 1) {
      void* memory = nullptr;
      EXPECT_EQ(sk_alloc(comm, uint64_t(1) << 40, &memory), SK_ERR_OUT_OF_RANGE);
    } else {
      expect_refused(sk_barrier(comm, nullptr), SK_ERR_NO_MEMORY,
                     "rank 1 has no memory for its alloc, while rank " + std::to_string(rank) +
                         " called barrier()");
    }
    expect_usable_by(comm, 3);
  });
}

TEST(Desync, ABarrierAndAMessageThatWaitForEachOtherAreNamedWithTheirRanks) {
  for (const bool barrier_first : {false, true}) {
    for (const bool send : {false, true}) {
      in_thread_ranks(2, [&](sk_comm* comm, int rank) {
        float data[8] = {};
        const int waits = barrier_first ? 0 : 1, other = 1 - waits;
        sk_status status = SK_OK;
        if (rank == waits) {
          status = sk_barrier(comm, nullptr);
        } else {
          status = send ? sk_send(comm, data, 4, SK_F32, waits, nullptr)
                        : sk_recv(comm, data, 4, SK_F32, waits, nullptr);
        }
        EXPECT_TRUE(status == SK_ERR_DESYNC || status == SK_ERR_ABORTED) << sk_last_error();
        const std::string sentence = sk_last_error();
        const int from = send ? other : waits;
        const std::string message = "rank " + std::to_string(other) + " called send_recv(f32, 4, " +
                                    std::to_string(from) + " to " + std::to_string(1 - from) + ")";
        const std::string barrier = "rank " + std::to_string(waits) + " called barrier()";
        EXPECT_NE(sentence.find(message), std::string::npos) << sentence;
        EXPECT_NE(sentence.find(barrier), std::string::npos) << sentence;
      });
    }
  }
}

// A rank that has declined waits for the others' entries and tells of its call no more.
TEST(Desync, AMessageToARankThatHasDeclinedEndsAtOnce) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    const auto start = std::chrono::steady_clock::now();
    float data[8] = {};
    void* memory = nullptr;
    const sk_status status = rank == 1 ? sk_alloc(comm, uint64_t(1) << 40, &memory)
                                       : sk_send(comm, data, 4, SK_F32, 1, nullptr);
    EXPECT_TRUE(status == SK_ERR_DESYNC || status == SK_ERR_ABORTED) << sk_last_error();
    EXPECT_NE(std::string(sk_last_error()).find("rank 1 called alloc"), std::string::npos)
        << sk_last_error();
    // The limit of a wait is 60 s.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  });
}

// They wait for each other in different lanes, so the communicator ends; but at once, and all learn
// why.
TEST(Desync, ACollectiveAndASendThatWaitForEachOtherEnd) {
  for (const bool send : {false, true}) {
    in_thread_ranks(2, [send](sk_comm* comm, int rank) {
      float in[8] = {}, out[8] = {7, 7, 7, 7, 7, 7, 7, 7};
      expect_usable(comm);
      sk_status status = SK_OK;
      if (rank == 0) {
        status = sk_allreduce(comm, in, out, 8, SK_F32, SK_SUM, nullptr);
      } else {
        status = send ? sk_send(comm, in, 4, SK_F32, 0, nullptr)
                      : sk_recv(comm, out, 4, SK_F32, 0, nullptr);
      }
      EXPECT_TRUE(status == SK_ERR_DESYNC || status == SK_ERR_ABORTED) << sk_last_error();
      const std::string sentence = sk_last_error();
      EXPECT_NE(sentence.find("allreduce(f32, sum, 8)"), std::string::npos) << sentence;
      EXPECT_NE(sentence.find(send ? "send_recv(f32, 4, 1 to 0)" : "send_recv(f32, 4, 0 to 1)"),
                std::string::npos)
          << sentence;
      EXPECT_EQ(out[0], 7.0f);
      EXPECT_NE(sk_barrier(comm, nullptr), SK_OK);
    });
  }
}

// Ranks 2 and then 1 leave while rank 0 is outside any call.
TEST(Leaving, TheFirstThatLeftIsNamed) {
  std::atomic<int> turn{2};
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      sk_comm_config config{};
      config.struct_size = sizeof(config);
      config.bootstrap = SK_BOOTSTRAP_THREADS;
      config.rank = rank;
      config.world_size = 3;
      config.timeout_ms = 60'000;
      sk_comm* comm = nullptr;
      ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
      for (int now = turn.load(); now != rank; now = turn.load()) turn.wait(now);
      if (rank == 0) {
        expect_refused(sk_barrier(comm, nullptr), SK_ERR_PEER_LOST,
                       "rank 2 has freed the communicator");
      }
      EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
      --turn;
      turn.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

}  // namespace
