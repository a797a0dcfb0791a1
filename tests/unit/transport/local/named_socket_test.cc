// Sockets by name: what becomes of the names of others, whatever state these are in.
#include "transport/local/named_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "tests/support/as_nobody.h"

namespace sk::local {
namespace {

using namespace sk::testing_support;

constexpr std::chrono::seconds kLimit(60);

class NamedSocket : public testing::Test {
 protected:
  void SetUp() override {
    char made[] = "/tmp/sk-named-XXXXXX";
    ASSERT_NE(mkdtemp(made), nullptr);
    ASSERT_EQ(chmod(made, 0777), 0);  // As /tmp is: what keeps strangers out is ours alone.
    home_ = made;
    setenv("XDG_RUNTIME_DIR", made, 1);
  }
  void TearDown() override {
    unsetenv("XDG_RUNTIME_DIR");
    std::filesystem::remove_all(home_);
  }
  std::string folder() const { return home_ + "/superkernel"; }
  std::string path(const std::string& name) const { return folder() + "/" + name + ".sock"; }
  bool there(const std::string& name) const { return access(path(name).c_str(), F_OK) == 0; }

  // Bound, and not listening.
  Fd bound(const std::string& name) const {
    mkdir(folder().c_str(), 0700);
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path(name).c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

 private:
  std::string home_;
};

TEST_F(NamedSocket, NamesOfTheDeadAreRemovedAndThoseOfTheLivingAreNot) {
  bound("dead").reset();
  const auto living = listen_by_name("living");
  ASSERT_TRUE(living.ok()) << living.status().message();
  EXPECT_FALSE(there("dead"));
  const auto other = listen_by_name("other");
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_TRUE(there("living"));
  EXPECT_TRUE(connect_by_name("living").ok());
  EXPECT_EQ(listen_by_name("living").status().code(), SK_ERR_BUSY);
  EXPECT_EQ(connect_by_name("dead").status().code(), SK_ERR_PEER_LOST);
  // Nobody was disturbed by the looking: what is in its queue came by connect_by_name().
  ASSERT_TRUE(accept_same_user(living.value().get()).ok());
  EXPECT_FALSE(accept_same_user(living.value().get()).ok());
}

TEST_F(NamedSocket, WhereTheVariableNamesNoFolderThereIsAnother) {
  const std::string path = "/tmp/superkernel-" + std::to_string(geteuid()) + "/";
  for (const char* named : {"/no/such/folder", "/dev/null", "not/absolute"}) {
    setenv("XDG_RUNTIME_DIR", named, 1);
    const std::string name = "test-" + std::to_string(getpid());
    const auto listener = listen_by_name(name);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    EXPECT_TRUE(std::filesystem::exists(path + name + ".sock"));
    EXPECT_TRUE(connect_by_name(name).ok());
    EXPECT_EQ(unlink((path + name + ".sock").c_str()), 0);
  }
}

TEST_F(NamedSocket, OneThatDoesNotListenYetKeepsItsName) {
  const Fd early = bound("early");
  ASSERT_TRUE(listen_by_name("other").ok());
  ASSERT_TRUE(there("early"));
  ASSERT_EQ(listen(early.get(), 1), 0);
  EXPECT_TRUE(connect_by_name("early").ok());
}

TEST_F(NamedSocket, AStoppedProcessHoldsNobodyUp) {
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    const auto listener = listen_by_name("stopped");
    const char byte = listener.ok() ? 1 : 0;
    if (write(ready[1], &byte, 1) == 1) raise(SIGSTOP);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 1);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  const auto end = [&] {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  };
  // Its queue is filled first, and what waits for it then would wait for ever.
  auto trying = std::async(std::launch::async, [] {
    std::vector<Fd> waiting;
    Status last;
    while (last.ok() && waiting.size() < 100) {
      auto fd = connect_by_name("stopped");
      last = fd.ok() ? Status() : std::move(fd.status());
      if (last.ok()) waiting.push_back(std::move(*fd));
    }
    return std::pair(std::move(last), listen_by_name("other").ok());
  });
  const bool in_time = trying.wait_for(kLimit) == std::future_status::ready;
  const bool kept = there("stopped");
  end();  // Ends the wait, too, where there is one.
  ASSERT_TRUE(in_time);
  const auto [last, listens] = trying.get();
  EXPECT_EQ(last.code(), SK_ERR_BUSY) << last.message();
  EXPECT_TRUE(listens);
  EXPECT_TRUE(kept);
}

TEST_F(NamedSocket, AStrangerCannotReachIt) {
  if (!can_be_nobody()) GTEST_SKIP() << "only root can run a program as another user";
  ASSERT_TRUE(listen_by_name("mine").ok());
  EXPECT_EQ(run_as_nobody([&] { return access(path("mine").c_str(), F_OK) == 0 ? 1 : errno; }),
            EACCES);
  EXPECT_EQ(run_as_nobody([] { return connect_by_name("mine").status().code(); }), SK_ERR_TRUST);
}

TEST_F(NamedSocket, AFolderThatAStrangerMadeFirstIsRefused) {
  if (!can_be_nobody()) GTEST_SKIP() << "only root can run a program as another user";
  ASSERT_EQ(run_as_nobody([&] { return mkdir(folder().c_str(), 0700); }), 0);
  EXPECT_EQ(listen_by_name("mine").status().code(), SK_ERR_TRUST);
  EXPECT_EQ(connect_by_name("mine").status().code(), SK_ERR_TRUST);
}

}  // namespace
}  // namespace sk::local
