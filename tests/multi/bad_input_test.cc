// Bad input to every function of comm.h, op.h and trace.h: each gives its code and a sentence that
// names the argument, moves no byte, and leaves the communicator usable.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
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

void expect_usable(sk_comm* comm) {
  float in[3] = {1, 2, 3}, out[3] = {};
  ASSERT_EQ(sk_allreduce(comm, in, out, 3, SK_F32, SK_SUM, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(out[2], 6.0f);
}

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

struct BadCall {
  const char* name;
  int32_t code;
  const char* word;
  std::function<sk_status(sk_comm*, float* in, float* out)> call;
};

const std::vector<BadCall>& bad_calls() {
  static const std::vector<BadCall> calls = {
      {"allreduce null in", SK_ERR_INVALID_ARGUMENT, "in is null",
       [](sk_comm* c, float*, float* out) {
         return sk_allreduce(c, nullptr, out, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce null out", SK_ERR_INVALID_ARGUMENT, "out is null",
       [](sk_comm* c, float* in, float*) {
         return sk_allreduce(c, in, nullptr, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce negative count", SK_ERR_INVALID_ARGUMENT, "count is -1",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, -1, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce huge count", SK_ERR_INVALID_ARGUMENT, "count is 9223372036854775807",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, INT64_MAX, SK_F32, SK_SUM, nullptr);
       }},
      {"allreduce dtype", SK_ERR_INVALID_ARGUMENT, "dtype is 99",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, 4, 99, SK_SUM, nullptr);
       }},
      {"allreduce op", SK_ERR_INVALID_ARGUMENT, "op is 0",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, 4, SK_F32, 0, nullptr);
       }},
      {"average of integers", SK_ERR_INVALID_ARGUMENT, "SK_AVG with i32",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, in, out, 4, SK_I32, SK_AVG, nullptr);
       }},
      {"overlap", SK_ERR_INVALID_ARGUMENT, "overlap",
       [](sk_comm* c, float* in, float*) {
         return sk_allreduce(c, in, in + 1, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"alignment", SK_ERR_INVALID_ARGUMENT, "not aligned",
       [](sk_comm* c, float* in, float* out) {
         return sk_allreduce(c, reinterpret_cast<char*>(in) + 1, out, 4, SK_F32, SK_SUM, nullptr);
       }},
      {"broadcast root", SK_ERR_INVALID_ARGUMENT, "root is 2",
       [](sk_comm* c, float* in, float* out) {
         return sk_broadcast(c, in, out, 4, SK_F32, 2, nullptr);
       }},
      {"send to nobody", SK_ERR_INVALID_ARGUMENT, "peer is -1",
       [](sk_comm* c, float* in, float*) { return sk_send(c, in, 4, SK_F32, -1, nullptr); }},
      {"recv null", SK_ERR_INVALID_ARGUMENT, "out is null",
       [](sk_comm* c, float*, float*) { return sk_recv(c, nullptr, 4, SK_F32, 0, nullptr); }},
      {"alloc nothing", SK_ERR_INVALID_ARGUMENT, "bytes is 0",
       [](sk_comm* c, float*, float*) {
         void* memory = nullptr;
         return sk_alloc(c, 0, &memory);
       }},
      {"free foreign", SK_ERR_INVALID_ARGUMENT, "sk_alloc",
       [](sk_comm* c, float* in, float*) { return sk_free(c, in); }},
      {"deregister unknown", SK_ERR_INVALID_ARGUMENT, "not registered",
       [](sk_comm* c, float* in, float*) { return sk_deregister(c, in); }},
      {"query null", SK_ERR_INVALID_ARGUMENT, "info is null",
       [](sk_comm* c, float*, float*) { return sk_comm_query(c, nullptr); }},
      {"options for a GPU", SK_ERR_UNSUPPORTED, "device 2:0",
       [](sk_comm* c, float*, float*) {
         sk_run_options options{};
         options.struct_size = sizeof(options);
         options.device_type = 2;
         return sk_barrier(c, &options);
       }},
      {"options timeout", SK_ERR_INVALID_ARGUMENT, "timeout_ms is -5",
       [](sk_comm* c, float*, float*) {
         sk_run_options options{};
         options.struct_size = sizeof(options);
         options.timeout_ms = -5;
         return sk_barrier(c, &options);
       }},
      {"options without size", SK_ERR_INVALID_ARGUMENT, "struct_size is 0",
       [](sk_comm* c, float*, float*) {
         const sk_run_options options{};
         return sk_barrier(c, &options);
       }},
      {"gemm null a", SK_ERR_INVALID_ARGUMENT, "a is null",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         return sk_allreduce_gemm(c, nullptr, &b, nullptr, &d, 0, nullptr);
       }},
      {"gemm without b", SK_ERR_INVALID_ARGUMENT, "none was",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), d = tensor(out, 2, 2);
         return sk_allreduce_gemm(c, &a, nullptr, nullptr, &d, 0, nullptr);
       }},
      {"gemm inner size", SK_ERR_INVALID_ARGUMENT, "a has K = 3 but b has K = 2",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 3), b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gemm outer size", SK_ERR_INVALID_ARGUMENT, "c has shape [3, 2]",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 3, 2);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gemm columns apart", SK_ERR_INVALID_ARGUMENT, "innermost stride 2",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         a.strides[1] = 2;
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"gemm in place", SK_ERR_INVALID_ARGUMENT, "overlap",
       [](sk_comm* c, float* in, float*) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in + 8, 2, 2), d = tensor(in, 2, 2);
         return sk_allreduce_gemm(c, &a, &b, nullptr, &d, 0, nullptr);
       }},
      {"pack integers", SK_ERR_INVALID_ARGUMENT, "b is i32",
       [](sk_comm* c, float* in, float*) {
         sk_tensor b = tensor(in, 2, 2);
         b.dtype = SK_I32;
         sk_packed* packed = nullptr;
         return sk_pack(c, &b, 0, &packed);
       }},
      {"freed weights", SK_ERR_BAD_HANDLE, "packed weights",
       [](sk_comm* c, float* in, float* out) {
         sk_tensor a = tensor(in, 2, 2), b = tensor(in, 2, 2), d = tensor(out, 2, 2);
         sk_packed* packed = nullptr;
         EXPECT_EQ(sk_pack(c, &b, 0, &packed), SK_OK);
         EXPECT_EQ(sk_packed_free(packed), SK_OK);
         return sk_allreduce_gemm(c, &a, nullptr, packed, &d, 0, nullptr);
       }},
      {"plan kind", SK_ERR_INVALID_ARGUMENT, "desc.kind is 77",
       [](sk_comm* c, float*, float*) {
         sk_plan_desc desc{};
         desc.struct_size = sizeof(desc);
         desc.kind = 77;
         sk_plan* plan = nullptr;
         return sk_plan_create(c, &desc, &plan);
       }},
      {"trace into null", SK_ERR_INVALID_ARGUMENT, "out_size is null",
       [](sk_comm* c, float*, float*) { return sk_trace_dump(c, nullptr, 0, nullptr); }},
      {"null communicator", SK_ERR_BAD_HANDLE, "communicator is null",
       [](sk_comm*, float*, float*) { return sk_barrier(nullptr, nullptr); }},
      {"foreign handle", SK_ERR_BAD_HANDLE, "not a communicator",
       [](sk_comm*, float* in, float*) {
         return sk_barrier(reinterpret_cast<sk_comm*>(in), nullptr);
       }},
  };
  return calls;
}

TEST(BadInput, IsRefusedWithASentenceAndNothingMoves) {
  in_thread_ranks(2, [](sk_comm* comm, int) {
    alignas(64) float in[64], out[64];
    for (const BadCall& bad : bad_calls()) {
      SCOPED_TRACE(bad.name);
      std::memset(in, 0x11, sizeof in);
      std::memset(out, 0xa5, sizeof out);
      expect_refused(bad.call(comm, in, out), bad.code, bad.word);
      for (const float& value : out) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        ASSERT_EQ(bits, 0xa5a5a5a5u);
      }
      expect_usable(comm);
    }
  });
}

TEST(BadInput, FreedHandlesAndForkedChildrenAreSentences) {
  sk_comm* freed = nullptr;
  in_thread_ranks(2, [&](sk_comm* comm, int rank) {
    if (rank == 0) freed = comm;
    expect_usable(comm);
  });
  expect_refused(sk_barrier(freed, nullptr), SK_ERR_BAD_HANDLE, "freed");
  expect_refused(sk_comm_free(freed), SK_ERR_BAD_HANDLE, "freed");

  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* comm = nullptr;
  sk_comm_config config{};
  config.struct_size = sizeof(config);
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.world_size = 1;
  ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  const pid_t child = fork();
  if (child == 0) _exit(sk_barrier(comm, nullptr) == SK_ERR_FORKED ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expect_refused(sk_finalize(context), SK_ERR_BUSY, "alive");
  EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK);
  EXPECT_EQ(sk_comm_free(comm), SK_OK);
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

TEST(BadInput, AMissingPeerEndsAsATimeoutThatNamesIt) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    if (rank == 1) return;  // Frees its communicator instead of calling.
    const sk_status status = sk_barrier(comm, nullptr);
    expect_refused(status, SK_ERR_PEER_LOST, "rank 1");
    expect_refused(sk_barrier(comm, nullptr), SK_ERR_PEER_LOST, "rank 1");  // It stays over.
  });
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    static std::atomic<uint32_t> done;
    if (rank == 0) {
      done = 0;
      sk_run_options options{};
      options.struct_size = sizeof(options);
      options.timeout_ms = 50;
      expect_refused(sk_barrier(comm, &options), SK_ERR_TIMEOUT, "rank 1");
      done = 1;
      done.notify_one();
    } else {
      done.wait(0);
      expect_refused(sk_barrier(comm, nullptr), SK_ERR_TIMEOUT, "rank");
    }
  });
}

TEST(BadInput, ACreationEndsByItsDescriptor) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm_config config{};
  config.struct_size = sizeof(config);
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.name = "nobody else";
  config.world_size = 2;
  sk_comm* comm = nullptr;
  for (const int32_t fd : {-3, 99'999}) {
    config.cancel_fd = fd;
    expect_refused(sk_comm_create(context, &config, &comm), SK_ERR_INVALID_ARGUMENT, "cancel_fd");
  }
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  config.cancel_fd = ends[0];
  std::thread canceller([&] { EXPECT_EQ(write(ends[1], "x", 1), 1); });
  expect_refused(sk_comm_create(context, &config, &comm), SK_ERR_ABORTED, "cancelled");
  canceller.join();
  char unread = 0;
  EXPECT_EQ(read(ends[0], &unread, 1), 1);  // It was only looked at.
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

TEST(BadInput, AnAbortEndsEveryRanksCall) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    if (rank == 1) {
      EXPECT_EQ(sk_comm_abort(comm, "the user pressed stop"), SK_OK);
    }
    expect_refused(sk_barrier(comm, nullptr), SK_ERR_ABORTED, "the user pressed stop");
  });
}

TEST(BadInput, SendAndReceiveMatchInOrder) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    for (int i = 0; i < 200; ++i) {
      std::vector<int64_t> data(size_t(i * 37), rank == 0 ? i : -1);
      const int64_t count = int64_t(data.size());
      if (rank == 0) {
        ASSERT_EQ(sk_send(comm, data.data(), count, SK_I64, 1, nullptr), SK_OK) << sk_last_error();
        std::fill(data.begin(), data.end(), -7);
      } else {
        ASSERT_EQ(sk_recv(comm, data.data(), count, SK_I64, 0, nullptr), SK_OK) << sk_last_error();
        for (const int64_t value : data) ASSERT_EQ(value, i);
      }
    }
    float out[4];
    expect_refused(rank == 0 ? sk_send(comm, out, 4, SK_F32, 1, nullptr)
                             : sk_recv(comm, out, 3, SK_F32, 0, nullptr),
                   SK_ERR_DESYNC, "send_recv");
    expect_usable(comm);
  });
}

}  // namespace
