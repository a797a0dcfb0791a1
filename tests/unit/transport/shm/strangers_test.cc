// Processes that are no ranks and come while ranks connect: they are turned away, and neither keep
// the ranks from each other nor the leader from its time.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/mem_bootstrap.h"
#include "tests/support/stage.h"
#include "tests/unit/transport/shm/meddler.h"
#include "transport/shm/fd.h"
#include "transport/shm/join.h"
#include "transport/shm/shm.h"

namespace sk {
namespace {

using namespace testing_support;

constexpr int64_t kPlentyNs = 30'000'000'000;

SegmentLayout layout_of(uint32_t ranks) {
  return {.world_size = ranks, .signal_count_max = 64, .workspace_bytes_max = 1 << 20};
}

// Connected to an abstract name; empty where there is no room, or nobody.
shm::Fd knock(const std::string& name) {
  shm::Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return shm::Fd();
  return fd;
}

// This rank's listening socket, by the name that strangers know it by.
struct Door {
  int fd = -1;
  std::string name;
};
Door own_door() {
  for (int fd = 3; fd < 256; ++fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_un address = {};
    size = sizeof(address);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    const std::string name(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
    if (name.starts_with("sk-")) return {fd, name};
  }
  return {};
}

// Every abstract name that could be a rank's, and what to say there: nothing, noise, or a packet of
// the right size with a wrong secret. The connections stay open.
std::vector<shm::Fd> knock_everywhere() {
  std::vector<shm::Fd> connections;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find("@sk-");
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + 1);
    for (const size_t bytes : {size_t{0}, size_t{1}, sizeof(shm::JoinPacket), size_t{1000}}) {
      shm::Fd fd = knock(name);
      if (!fd) continue;
      const std::string noise(bytes, 'x');
      if (bytes != 0 && send(fd.get(), noise.data(), bytes, MSG_NOSIGNAL) < 0) continue;
      connections.push_back(std::move(fd));
    }
  }
  return connections;
}

Status strangers_knock(RankContext& context) {
  std::vector<shm::Fd> strangers;
  Meddler meddler(context.bootstrap, [&] {
    if (context.rank == 0) strangers = knock_everywhere();
    context.own().flag.store(1, std::memory_order_release);
    while (context.memory.ranks[0].flag.load(std::memory_order_acquire) == 0) sched_yield();
  });
  auto endpoint = connect_shm(meddler, layout_of(context.spec.ranks), {.timeout_ns = kPlentyNs});
  if (context.rank == 0 && strangers.empty()) {
    return error(SK_ERR_INTERNAL, "the strangers found no rank");
  }
  return endpoint.status().clone();
}

// More than may be silent, of the same user, all behind a rank that has come already.
Status silent_strangers(RankContext& context) {
  std::vector<shm::Fd> strangers;
  Meddler meddler(context.bootstrap, [&] {
    if (context.rank != 0) return;
    const Door door = own_door();
    pollfd came = {.fd = door.fd, .events = POLLIN, .revents = 0};
    poll(&came, 1, -1);
    for (int i = 0; i < 200; ++i) strangers.push_back(knock(door.name));
  });
  auto endpoint = connect_shm(meddler, layout_of(context.spec.ranks), {.timeout_ns = kPlentyNs});
  if (context.rank == 0 && strangers.size() != 200)
    return error(SK_ERR_INTERNAL, "the strangers did not come");
  return endpoint.status().clone();
}

// As another user, and without an end but that of its parent.
pid_t start_flood(const std::string& name) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (int fd = 3; fd < 256; ++fd) close(fd);
  if (setuid(65534) != 0) _exit(1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(40);  // For a leader that never comes back.
  for (;;) knock(name);
}

Status flooded(RankContext& context) {
  std::vector<pid_t> flood;
  Meddler meddler(context.bootstrap, [&] {
    if (context.rank != 0) return;
    const std::string name = own_door().name;
    for (int i = 0; i < 24; ++i) flood.push_back(start_flood(name));
  });
  auto endpoint =
      connect_shm(meddler, layout_of(context.spec.ranks), {.timeout_ns = 3'000'000'000});
  bool outlived = false;
  for (const pid_t each : flood) {
    outlived |= waitpid(each, nullptr, WNOHANG) != 0;
    kill(each, SIGKILL);
    waitpid(each, nullptr, 0);
  }
  if (outlived) return error(SK_ERR_INTERNAL, "the leader came back only after the flood");
  // That nobody comes through is the flood's doing; that the time is kept is the leader's.
  if (endpoint.status().code() == SK_ERR_TIMEOUT) return {};
  return endpoint.status().clone();
}

std::vector<RankEnd> run(const char* body, uint32_t ranks) {
  Stage stage({.backend = "", .body = body, .ranks = ranks, .processes = ranks});
  const Status started = stage.start();
  EXPECT_TRUE(started.ok()) << started.message();
  return stage.join();
}

TEST(ShmStrangers, AreTurnedAway) {
  for (const RankEnd& end : run("strangers_knock", 3)) {
    EXPECT_TRUE(end.ended);
    EXPECT_EQ(end.code, SK_OK) << end.message;
  }
}

TEST(ShmStrangers, PushOutNoRankByTheirSilence) {
  for (const RankEnd& end : run("silent_strangers", 2)) {
    EXPECT_TRUE(end.ended);
    EXPECT_EQ(end.code, SK_OK) << end.message;
  }
}

TEST(ShmStrangers, AFloodOfThemKeepsNobodyBeyondItsTime) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  const std::vector<RankEnd> ends = run("flooded", 2);
  EXPECT_TRUE(ends[0].ended && ends[1].ended);
  EXPECT_EQ(ends[0].code, SK_OK) << ends[0].message;
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
      {"strangers_knock", strangers_knock},
      {"silent_strangers", silent_strangers},
      {"flooded", flooded},
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
