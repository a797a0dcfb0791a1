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
#include "tests/multi/bad_calls.h"
#include "tests/multi/thread_ranks.h"

namespace {

using namespace sk::testing_ops;

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

TEST(BadInput, IsRefusedWithASentenceAndNothingMoves) {
  in_thread_ranks(2, [](sk_comm* comm, int) {
    alignas(64) float in[64], out[64];
    std::vector<BadCall> all = bad_calls();
    for (const auto* more : {&bad_products(), &bad_plans()})
      all.insert(all.end(), more->begin(), more->end());
    for (const BadCall& bad : all) {
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
