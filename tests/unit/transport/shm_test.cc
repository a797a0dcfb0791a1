// Shared-memory sessions beyond the conformance suite: what only this transport has.
#include "transport/shm/shm.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/mem_bootstrap.h"

namespace sk {
namespace {

using testing_support::make_meeting;
using testing_support::MemBootstrap;

constexpr SegmentLayout kLayout = {.world_size = 2,
                                   .signal_count_max = 64,
                                   .workspace_bytes_max = 1 << 20,
                                   .heap_bytes_max = 4096};

// Rank 1 puts, rank 0 waits; true where rank 0 saw the bytes. Bounded by check().
Status ping(Bootstrap& bootstrap) {
  SK_ASSIGN_OR_RETURN(auto endpoint,
                      connect_shm(bootstrap, kLayout, {.timeout_ns = 10'000'000'000}));
  const uint64_t at = kLayout.workspace_offset();
  SK_RETURN_IF_ERROR(endpoint->commit(at, 4096));
  SK_ASSIGN_OR_RETURN(const auto ready, bootstrap.allgather({}, 10'000'000'000));
  EXPECT_TRUE(ready.empty());
  if (endpoint->rank() == 1) {
    const uint64_t value = 42;
    SK_RETURN_IF_ERROR(endpoint->session(0).put({at}, &value, sizeof(value), 7, 3));
  } else {
    while (endpoint->signals()[7].value.load(std::memory_order_acquire) != 3) {
      SK_RETURN_IF_ERROR(endpoint->check());
    }
    uint64_t value = 0;
    memcpy(&value, endpoint->segment() + at, sizeof(value));
    if (value != 42) return error(SK_ERR_INTERNAL, "the bytes are {}", value);
  }
  SK_ASSIGN_OR_RETURN(const auto done, bootstrap.allgather({}, 10'000'000'000));
  EXPECT_TRUE(done.empty());
  return {};
}

TEST(Shm, ThreadsReachEachOther) {
  const auto meeting = make_meeting();
  ASSERT_NE(meeting, nullptr);
  std::thread peer([&] {
    MemBootstrap bootstrap(*meeting, 1, 2);
    const Status status = ping(bootstrap);
    EXPECT_TRUE(status.ok()) << status.message();
  });
  MemBootstrap bootstrap(*meeting, 0, 2);
  const Status status = ping(bootstrap);
  EXPECT_TRUE(status.ok()) << status.message();
  peer.join();
}

TEST(Shm, ProcessesReachEachOther) {
  const auto meeting = make_meeting();
  ASSERT_NE(meeting, nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    MemBootstrap bootstrap(*meeting, 1, 2);
    _exit(ping(bootstrap).ok() ? 0 : 1);
  }
  MemBootstrap bootstrap(*meeting, 0, 2);
  const Status status = ping(bootstrap);
  EXPECT_TRUE(status.ok()) << status.message();
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

}  // namespace
}  // namespace sk
