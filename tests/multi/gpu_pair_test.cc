// Send and receive on a GPU: two ranks meet and launch without the others, who may be anywhere. The
// driver is a fake, all else is the library. (Random pairs against the oracle: gpu_ops_test.cc.)
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>

#include "tests/multi/gpu_world.h"

namespace sk::testing_ops {
namespace {

// A rank's input and output of `count` integers, both poisoned but for what the rank gives.
struct Rows {
  Rows(Machine& machine, int count, int32_t first)
      : machine_(machine),
        in(static_cast<int32_t*>(machine.take(size_t(count) * 4))),
        out(static_cast<int32_t*>(machine.take(size_t(count) * 4))) {
    for (int i = 0; i < count; ++i) in[i] = first + i;
  }
  ~Rows() {
    machine_.fake.free(in);
    machine_.fake.free(out);
  }
  Machine& machine_;
  int32_t* const in;
  int32_t* const out;
};

// Each round another partner; nobody else takes part. Pairs are under way beside each other.
TEST(GpuPairs, MeetWithoutTheOthers) {
  Machine machine;
  constexpr int kRanks = 4, kCount = 101;
  const Gpu gpu = machine.gpu(/*streams=*/true);
  in_ranks(kRanks, [&](sk_comm* comm, int rank) {
    const sk_run_options options = on_gpu(gpu.stream(rank));
    for (int round = 0; round < 9; ++round) {
      const int peer = rank ^ (1 + round % 3);
      const Rows rows(machine, kCount, rank * 1000 + round);
      const auto send = [&] { return sk_send(comm, rows.in, kCount, SK_I32, peer, &options); };
      const auto receive = [&] { return sk_recv(comm, rows.out, kCount, SK_I32, peer, &options); };
      ASSERT_EQ(rank < peer ? send() : receive(), SK_OK) << sk_last_error();
      ASSERT_EQ(rank < peer ? receive() : send(), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_comm_synchronize(comm, &options), SK_OK) << sk_last_error();
      for (int i = 0; i < kCount; ++i)
        ASSERT_EQ(rows.out[i], peer * 1000 + round + i) << "round " << round << ", " << i;
      // The peer still reads what this rank gave until it has synchronised too.
      ASSERT_EQ(sk_barrier(comm, &options), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_comm_synchronize(comm, &options), SK_OK) << sk_last_error();
    }
  });
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

// Rank 2 is in no call at all while the others pass something on.
TEST(GpuPairs, DoNotWaitForWhoIsElsewhere) {
  Machine machine;
  std::barrier<> all(3);
  in_ranks(3, [&](sk_comm* comm, int rank) {
    const Rows rows(machine, 5, rank * 10);
    if (rank == 0) {
      ASSERT_EQ(sk_send(comm, rows.in, 5, SK_I32, 1, nullptr), SK_OK) << sk_last_error();
    }
    if (rank == 1) {
      ASSERT_EQ(sk_recv(comm, rows.out, 5, SK_I32, 0, nullptr), SK_OK) << sk_last_error();
    }
    if (rank < 2) {
      ASSERT_EQ(sk_comm_synchronize(comm, nullptr), SK_OK) << sk_last_error();
    }
    if (rank == 1) {
      for (int i = 0; i < 5; ++i) EXPECT_EQ(rows.out[i], i);
      // Nothing at all passes as well.
      ASSERT_EQ(sk_recv(comm, nullptr, 0, SK_I32, 0, nullptr), SK_OK) << sk_last_error();
    }
    if (rank == 0) {
      ASSERT_EQ(sk_send(comm, nullptr, 0, SK_I32, 1, nullptr), SK_OK) << sk_last_error();
    }
    all.arrive_and_wait();
    expect_usable(comm, 3);
  });
}

TEST(GpuPairs, ThatCallDifferentThingsHearOfBoth) {
  Machine machine;
  in_ranks(2, [&](sk_comm* comm, int rank) {
    const Rows rows(machine, 8, rank);
    // Both send; then counts differ. Nothing is launched, and all may go on.
    expect_refused(sk_send(comm, rows.in, 8, SK_I32, 1 - rank, nullptr), SK_ERR_DESYNC,
                   "while rank 1 called");
    const sk_status counts = rank == 0 ? sk_send(comm, rows.in, 8, SK_I32, 1, nullptr)
                                       : sk_recv(comm, rows.out, 7, SK_I32, 0, nullptr);
    expect_refused(counts, SK_ERR_DESYNC, "rank 0 called send_recv(i32, 8");
    expect_usable(comm, 2);
  });
}

// One waits for the other in a collective, the other for it in a pair: neither could ever go on.
TEST(GpuPairs, AndCollectivesThatWaitForEachOtherEnd) {
  Machine machine;
  std::barrier<> all(3);
  std::atomic<int> desync{0};
  in_ranks(3, [&](sk_comm* comm, int rank) {
    const Rows rows(machine, 4, rank);
    const sk_status status =
        rank == 0 ? sk_send(comm, rows.in, 4, SK_I32, 1, nullptr) : sk_barrier(comm, nullptr);
    const std::string said = sk_last_error();
    EXPECT_TRUE(status == SK_ERR_DESYNC || status == SK_ERR_ABORTED) << said;
    EXPECT_NE(said.find("send_recv"), std::string::npos) << said;
    EXPECT_NE(said.find("barrier"), std::string::npos) << said;
    desync += status == SK_ERR_DESYNC ? 1 : 0;
    all.arrive_and_wait();
    EXPECT_EQ(desync, 1);
  });
}

TEST(GpuPairs, APeerThatNeverComesIsNamed) {
  Machine machine;
  std::barrier<> all(3);
  in_ranks(3, [&](sk_comm* comm, int rank) {
    const Rows rows(machine, 4, rank);
    if (rank == 0) {
      sk_run_options options = on_gpu();
      options.timeout_ms = 50;
      expect_refused(sk_send(comm, rows.in, 4, SK_I32, 2, &options), SK_ERR_TIMEOUT,
                     "rank 0 waited 0.1 s for rank 2 in send_recv");
    }
    all.arrive_and_wait();
  });
}

}  // namespace
}  // namespace sk::testing_ops
