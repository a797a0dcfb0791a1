// Processes that meet without an address on this host, and the names that they meet at.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_HERE_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_HERE_H_

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/address.h"

namespace sk::testing_support {

// What `body` says in a process of its own; the process ends with its parent's pipe.
class Child {
 public:
  explicit Child(const std::function<std::string()>& body) {
    EXPECT_EQ(pipe(out_), 0);
    EXPECT_EQ(pipe(hold_), 0);
    pid_ = fork();
    if (pid_ != 0) {
      close(out_[1]);
      close(hold_[0]);
      return;
    }
    close(hold_[1]);
    const std::string text = body() + "\n";
    if (write(out_[1], text.data(), text.size()) < 0) _exit(1);
    char byte;
    if (read(hold_[0], &byte, 1) < 0) _exit(1);
    _exit(0);
  }
  ~Child() {
    close(hold_[1]);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(out_[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string said() {
    std::string text;
    for (char c; read(out_[0], &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  int out_[2], hold_[2];
};

inline std::string tried(const Variables& variables, int64_t timeout_ns) {
  const auto made = make_bootstrap(env_config(variables, timeout_ns));
  return made.ok() ? "made" : made.status().message();
}

inline std::vector<Address> places_of(const Variables& variables, uint64_t meetings = 0) {
  const auto env = env_config(variables, 1).env;
  auto job = read_job_env(env, "");
  EXPECT_TRUE(job.ok());
  job.value().meetings = meetings;
  auto addresses = resolve(job.value());
  EXPECT_TRUE(addresses.ok());
  return addresses.value();
}

inline Address place_of(const Variables& variables) { return places_of(variables).front(); }

// Returns once somebody listens there.
inline void wait_for_listener(const Address& address) {
  while (true) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool there = connect(fd, address.get(), address.bytes) == 0;
    close(fd);
    if (there) return;
    sched_yield();
  }
}

inline std::string name_of(const Address& address) {
  const auto* un = reinterpret_cast<const sockaddr_un*>(&address.storage);
  return std::string(un->sun_path + 1, address.bytes - offsetof(sockaddr_un, sun_path) - 1);
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_HERE_H_
