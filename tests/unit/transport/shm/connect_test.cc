// How shared-memory sessions come about, and how they do not: every failure is told to all ranks,
// names its rank, and leaves nothing open. What connected sessions do is tests/cts/session_cts.cc.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/mem_bootstrap.h"
#include "tests/support/stage.h"
#include "tests/unit/transport/shm/meddler.h"
#include "transport/shm/shm.h"

namespace sk {
namespace {

using namespace testing_support;

constexpr int64_t kPlentyNs = 30'000'000'000;

SegmentLayout layout_of(uint32_t ranks) {
  return {.world_size = ranks, .signal_count_max = 64, .workspace_bytes_max = 1 << 20};
}

// Connects, and on failure checks that nothing is left open.
Status attempt(RankContext& context, Bootstrap& bootstrap, const SegmentLayout& layout,
               int64_t timeout_ns = kPlentyNs) {
  const size_t before = open_descriptors();
  auto endpoint = connect_shm(bootstrap, layout, {.timeout_ns = timeout_ns});
  if (endpoint.ok()) return {};
  if (context.spec.processes != 0 && (open_descriptors() != before || mapped_segments() != 0)) {
    return error(SK_ERR_INTERNAL, "{} descriptors before, {} after; {} segments still mapped",
                 before, open_descriptors(), mapped_segments());
  }
  return endpoint.status().clone();
}

Status few_descriptors(RankContext& context) {
  if (context.rank == 1) {
    // By the number given: too few for the socket, for the connections, for the watching.
    const rlim_t more = context.spec.numbers[0];
    const auto limit_at = static_cast<rlim_t>(dup(0));
    close(static_cast<int>(limit_at));
    const rlimit limit = {limit_at + more, limit_at + more};
    setrlimit(RLIMIT_NOFILE, &limit);
    auto endpoint =
        connect_shm(context.bootstrap, layout_of(context.spec.ranks), {.timeout_ns = kPlentyNs});
    return endpoint.status().clone();
  }
  return attempt(context, context.bootstrap, layout_of(context.spec.ranks));
}

Status other_layout(RankContext& context) {
  SegmentLayout layout = layout_of(context.spec.ranks);
  if (context.rank == 1) layout.workspace_bytes_max *= 2;
  return attempt(context, context.bootstrap, layout);
}

Status other_user(RankContext& context) {
  if (context.rank == 1 && setuid(65534) != 0) return system_error("cannot change the user");
  return attempt(context, context.bootstrap, layout_of(context.spec.ranks));
}

Status stops_connecting(RankContext& context) {
  Meddler meddler(context.bootstrap, [&] {
    if (context.rank != 1) return;
    while (context.memory.ranks[0].ended.load() == 0) sched_yield();
  });
  return attempt(context, meddler, layout_of(context.spec.ranks),
                 context.rank == 0 ? 2'000'000'000 : kPlentyNs);
}

// Rank 1 never connects, and rank 0 no longer wants to be connected.
Status cancels_connecting(RankContext& context) {
  SK_ASSIGN_OR_RETURN(const auto cancel, Cancel::make(-1));
  Meddler meddler(
      context.bootstrap,
      [&] {
        if (context.rank == 0) cancel->request(error(SK_ERR_ABORTED, "nobody wants it"));
        if (context.rank != 1) return;
        while (context.memory.ranks[0].ended.load() == 0) sched_yield();
      },
      cancel);
  return attempt(context, meddler, layout_of(context.spec.ranks), 2'000'000'000);
}

Status dies_connecting(RankContext& context) {
  Meddler meddler(context.bootstrap, [&] {
    if (context.rank == 1) kill(getpid(), SIGKILL);
  });
  return attempt(context, meddler, layout_of(context.spec.ranks), 2'000'000'000);
}

size_t mapped_controls() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:sk-control") != std::string::npos ? 1 : 0;
  return count;
}

// Ranks 0 and 2 are threads of one process, 1 and 3 of another.
Status shares_mappings(RankContext& context) {
  static std::atomic<const void*> seen[2] = {};  // Of this process's two ranks.
  SK_ASSIGN_OR_RETURN(auto endpoint, context.connect(context.bootstrap, layout_of(4)));
  seen[context.rank / 2].store(endpoint->session(3).mapped()->control.header);
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  const size_t controls = mapped_controls();
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  if (seen[0].load() != seen[1].load() || controls != 1) {
    return error(SK_ERR_INTERNAL, "{} mappings of the control memory in one process", controls);
  }
  return {};
}

// Programs that a rank executes get nothing that would delay the news of its end.
Status closes_on_exec(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, connect_shm(context.bootstrap, layout_of(context.spec.ranks),
                                                 {.timeout_ns = kPlentyNs, .hide_pidfd = true}));
  int sockets = 0;
  for (int fd = 3; fd < 256; ++fd) {
    int type = 0;
    socklen_t size = sizeof(type);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) continue;
    ++sockets;
    if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
      return error(SK_ERR_INTERNAL, "connection {} survives exec", fd);
  }
  if (sockets == 0) return error(SK_ERR_INTERNAL, "it has no connections");
  return context.barrier(*endpoint);
}

// Rank 0 leaves and its process ends while rank 1, who takes its place, has no descriptor left.
Status takes_over_late(RankContext& context) {
  SK_ASSIGN_OR_RETURN(auto endpoint, context.connect(context.bootstrap, layout_of(3)));
  SK_RETURN_IF_ERROR(context.barrier(*endpoint));
  if (context.rank == 0) {
    context.own().phase.store(UINT64_MAX);  // Never late to a barrier.
    return {};
  }
  while (context.memory.ranks[0].ended.load() == 0) sched_yield();
  std::atomic<uint32_t>& ready = context.memory.ranks[1].flag;
  if (context.rank == 2) {
    while (ready.load() == 0) sched_yield();
    kill(getpid(), SIGKILL);
  }
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few = {rlim_t(dup(0)) + 1, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  Status looked = endpoint->check();
  setrlimit(RLIMIT_NOFILE, &before);
  SK_RETURN_IF_ERROR(std::move(looked));
  ready.store(1);
  return context.wait_until(*endpoint, [] { return false; });
}

class ShmConnect : public testing::Test {
 protected:
  std::vector<RankEnd> run(const char* body, uint32_t ranks, uint64_t number = 0,
                           uint32_t processes = UINT32_MAX) {
    StageSpec spec = {
        .backend = "", .body = body, .ranks = ranks, .processes = std::min(ranks, processes)};
    spec.numbers[0] = number;
    Stage stage(spec);
    const Status started = stage.start();
    EXPECT_TRUE(started.ok()) << started.message();
    return stage.join();
  }
  static void expect_end(const RankEnd& end, int32_t code, const std::string& words) {
    EXPECT_TRUE(end.ended);
    EXPECT_EQ(end.code, code) << end.message;
    EXPECT_NE(end.message.find(words), std::string::npos) << end.message;
  }
};

TEST_F(ShmConnect, RunningOutOfDescriptorsIsToldToAll) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at an object through a pipe of its own; a rank "
                  "without descriptors has none for it";
#endif
  bool connected = false;
  for (uint64_t more = 0; more <= 16 && !connected; ++more) {
    SCOPED_TRACE(fmt::format("{} descriptors", more));
    const std::vector<RankEnd> ends = run("few_descriptors", 4, more);
    connected = ends[1].code == SK_OK;
    for (const RankEnd& end : ends) {
      if (connected) {
        expect_end(end, SK_OK, "");
      } else {
        expect_end(end, SK_ERR_NO_MEMORY, "shared memory, rank 1: ");
      }
    }
  }
  EXPECT_TRUE(connected) << "4 ranks need at most 16 descriptors";
}

TEST_F(ShmConnect, AnotherLayoutIsRefusedByAll) {
  for (const RankEnd& end : run("other_layout", 3)) {
    expect_end(end, SK_ERR_DESYNC, "rank 1 wants another segment layout than rank 0");
  }
}

TEST_F(ShmConnect, AnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a rank as another user";
  for (const RankEnd& end : run("other_user", 3)) {
    expect_end(end, SK_ERR_TRUST, "runs as user");
  }
}

TEST_F(ShmConnect, ASilentRankIsNamedInTime) {
  const std::vector<RankEnd> ends = run("stops_connecting", 2);
  expect_end(ends[0], SK_ERR_TIMEOUT, "rank 0 was not connected to rank 1 in time");
  EXPECT_TRUE(ends[1].ended);
  EXPECT_NE(ends[1].code, SK_OK);
}

TEST_F(ShmConnect, ARankThatGivesUpSaysWhy) {
  const std::vector<RankEnd> ends = run("cancels_connecting", 2);
  expect_end(ends[0], SK_ERR_ABORTED, "nobody wants it");
  EXPECT_TRUE(ends[1].ended);
  EXPECT_NE(ends[1].code, SK_OK);
}

TEST_F(ShmConnect, ARankThatDiesConnectingIsNamed) {
  const std::vector<RankEnd> ends = run("dies_connecting", 3);
  EXPECT_FALSE(ends[1].ended);
  expect_end(ends[0], SK_ERR_PEER_LOST, "rank 1 gave up while connecting");
  expect_end(ends[2], SK_ERR_PEER_LOST, "rank 1 gave up while connecting");
}

TEST_F(ShmConnect, RanksOfAProcessShareOneMapping) {
  for (const RankEnd& end : run("shares_mappings", 4, 0, 2)) expect_end(end, SK_OK, "");
}

TEST_F(ShmConnect, NoConnectionSurvivesExec) {
  for (const RankEnd& end : run("closes_on_exec", 3)) expect_end(end, SK_OK, "");
}

TEST_F(ShmConnect, WhoTakesTheWatchWithoutDescriptorsTriesAgain) {
  const std::vector<RankEnd> ends = run("takes_over_late", 3);
  expect_end(ends[0], SK_OK, "");
  EXPECT_FALSE(ends[2].ended);
  expect_end(ends[1], SK_ERR_PEER_LOST, "rank 2 died");
}

TEST_F(ShmConnect, AWorldOfAnotherSizeIsRefused) {
  const auto meeting = make_meeting();
  ASSERT_NE(meeting, nullptr);
  MemBootstrap bootstrap(*meeting, 0, 1);
  const auto endpoint = connect_shm(bootstrap, layout_of(2), {});
  EXPECT_EQ(endpoint.status().code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(endpoint.status().message(), "a layout for 2 ranks in a world of 1");
}

}  // namespace

namespace testing_support {

Result<Connect> connect_of(const StageSpec&) {
  return Connect([](Bootstrap& bootstrap, const SegmentLayout& layout) {
    return connect_shm(bootstrap, layout, {.timeout_ns = kPlentyNs});
  });
}

Result<RankBody> body_of(const std::string& name) {
  static const std::map<std::string, Status (*)(RankContext&)> bodies = {
      {"few_descriptors", few_descriptors},
      {"shares_mappings", shares_mappings},
      {"closes_on_exec", closes_on_exec},
      {"takes_over_late", takes_over_late},
      {"other_layout", other_layout},
      {"other_user", other_user},
      {"stops_connecting", stops_connecting},
      {"dies_connecting", dies_connecting},
      {"cancels_connecting", cancels_connecting},
  };
  const auto found = bodies.find(name);
  if (found == bodies.end()) return error(SK_ERR_INVALID_ARGUMENT, "no body is named {}", name);
  return RankBody(found->second);
}

}  // namespace testing_support
}  // namespace sk

int main(int argc, char** argv) {
  int exit_code = 0;
  if (sk::testing_support::run_as_stage_process(argc, argv, exit_code)) return exit_code;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
