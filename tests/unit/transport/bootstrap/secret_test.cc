// The secret of a job: where it is read from, and who never sees it.
#include "transport/bootstrap/secret.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/env.h"
#include "transport/bootstrap/secret_fd.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

const char kSecret[] = "correct horse battery staple";

std::string name_of(int fd) { return name_secret_fd(fd, fd).value(); }

Result<std::string> read_descriptor(const std::string& name) {
  return read_job_secret(env_config({{"SK_JOB_SECRET_FD", name}}, 1).env);
}

int sealed_memory(const std::string& text) {
  const int fd = memfd_create("the-secret", MFD_ALLOW_SEALING);
  EXPECT_EQ(write(fd, text.data(), text.size()), ssize_t(text.size()));
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  return fd;
}

TEST(BootstrapSecret, ComesFromADescriptorThatIsReadOnceAndClosed) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(pipe_ends[1], kSecret, sizeof(kSecret) - 1), ssize_t(sizeof(kSecret) - 1));
  close(pipe_ends[1]);
  for (const int fd : {sealed_memory(kSecret), pipe_ends[0]}) {
    const std::string name = name_of(fd);
    for (int i = 0; i < 3; ++i) {
      const auto secret = read_descriptor(name);
      ASSERT_TRUE(secret.ok()) << secret.status().message();
      EXPECT_EQ(secret.value(), kSecret);
      EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "descriptor " << fd << " is still open";
    }
  }
}

// The variable outlives its descriptor in what is started with descriptors closed.
TEST(BootstrapSecret, WhatElseHasTheNumberIsLeftAsItIs) {
  const int secret_fd = sealed_memory(kSecret);
  const std::string name = name_of(secret_fd);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(write(pipe_ends[1], kSecret, sizeof(kSecret)), ssize_t(sizeof(kSecret)));
  const int others[] = {open("/dev/zero", O_RDONLY), sealed_memory("another secret of another job"),
                        pipe_ends[0]};
  for (const int other : others) {
    ASSERT_EQ(dup2(other, secret_fd), secret_fd);
    const auto secret = read_descriptor(name);
    EXPECT_EQ(secret.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(secret.status().message(), HasSubstr("closed the secret's"));
    EXPECT_EQ(name_secret_fd(secret_fd, other).value(), name_of(other));
    EXPECT_EQ(fcntl(secret_fd, F_GETFD), 0);  // What it starts inherits it as before.
    close(other);
  }
  char bytes[sizeof(kSecret) + 1];  // Nothing of the pipe was taken.
  EXPECT_EQ(read(secret_fd, bytes, sizeof(bytes)), ssize_t(sizeof(kSecret)));
  close(secret_fd);
  close(pipe_ends[1]);
}

TEST(BootstrapSecret, AFileThatOthersCouldChangeIsNone) {
  const int memory = memfd_create("open", MFD_CLOEXEC);
  ASSERT_EQ(write(memory, kSecret, sizeof(kSecret)), ssize_t(sizeof(kSecret)));
  const auto secret = read_descriptor(name_of(memory));
  EXPECT_EQ(secret.status().code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(secret.status().message(), HasSubstr("sealed against writing"));
  EXPECT_EQ(close(memory), 0);
}

TEST(BootstrapSecret, ADescriptorThatGaveNoneIsLeftOpen) {
  const int memory = sealed_memory("short");
  const auto secret = read_descriptor(name_of(memory));
  EXPECT_EQ(secret.status().code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(secret.status().message(), HasSubstr("has 5 bytes"));
  EXPECT_EQ(close(memory), 0);
}

TEST(BootstrapSecret, APipeThatDoesNotEndIsNotWaitedForInVain) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  const auto secret = read_descriptor(name_of(pipe_ends[0]));
  EXPECT_EQ(secret.status().code(), SK_ERR_TIMEOUT);
  EXPECT_THAT(secret.status().message(), HasSubstr("must close the pipe"));
  for (const int fd : pipe_ends) close(fd);
}

// What a program that was started from here sees of the secret.
std::string seen_by_children() {
  std::string seen;
  FILE* const child = popen("env; ls -l /proc/self/fd", "r");
  for (int c = 0; (c = fgetc(child)) != EOF;) seen += char(c);
  pclose(child);
  return seen;
}

TEST(BootstrapSecret, NoChildOfARankSeesIt) {
  const HeldPort port;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    for (const auto& [name, value] : job_variables(rank, 2, port.number())) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    const std::string inherited = name_of(sealed_memory(kSecret));
    setenv("SK_JOB_SECRET_FD", inherited.c_str(), 1);
    setenv("SK_JOB_SECRET", "an older one, for others to see", 1);
    if (seen_by_children().find("the-secret") == std::string::npos) _exit(1);
    for (const char* name : {"first", "second"}) {  // It is of use to all that come later.
      BootstrapConfig config;
      config.kind = SK_BOOTSTRAP_ENV;
      config.name = name;
      config.timeout_ns = kLong;
      auto made = make_bootstrap(config);
      if (!made.ok()) _exit(2);
      const std::string seen = seen_by_children();
      for (const char* trace : {"the-secret", "SK_JOB_SECRET", "an older one", kSecret}) {
        if (seen.find(trace) != std::string::npos) _exit(3);
      }
    }
    _exit(process_env("SK_JOB_SECRET_FD") == inherited ? 0 : 4);
  }
  for (const pid_t pid : ranks) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

TEST(BootstrapSecret, AFileMustBelongToTheUserAlone) {
  char path[] = "/tmp/sk_secret_XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(fd, kSecret, sizeof(kSecret) - 1), ssize_t(sizeof(kSecret) - 1));
  const auto env = env_config({{"SK_JOB_SECRET_FILE", path}}, 1).env;
  const auto secret = read_job_secret(env);
  ASSERT_TRUE(secret.ok()) << secret.status().message();
  EXPECT_EQ(secret.value(), kSecret);
  ASSERT_EQ(fchmod(fd, 0640), 0);
  const auto shared = read_job_secret(env);
  EXPECT_EQ(shared.status().code(), SK_ERR_TRUST);
  EXPECT_THAT(shared.status().message(), HasSubstr("mode 640"));
  close(fd);
  unlink(path);
}

TEST(BootstrapSecret, BadOnesGetASentence) {
  const auto code = [](const Variables& variables) {
    const auto secret = read_job_secret(env_config(variables, 1).env);
    EXPECT_NE(secret.status().message(), "");
    return secret.status().code();
  };
  EXPECT_EQ(code({{"SK_JOB_SECRET", "short"}}), SK_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(code({{"SK_JOB_SECRET", std::string(5000, 'x')}}), SK_ERR_INVALID_ARGUMENT);
  for (const char* name : {"", "three", "3", "3:", "3:1", "3:1:", "3:1:2:", "-3:1:2", "3:1:2x"}) {
    EXPECT_EQ(code({{"SK_JOB_SECRET_FD", name}}), SK_ERR_INVALID_ARGUMENT) << name;
  }
  EXPECT_EQ(code({{"SK_JOB_SECRET_FD", "987654:1:2"}}), SK_ERR_SYSTEM);
  EXPECT_EQ(code({{"SK_JOB_SECRET_FILE", "/nonexistent/secret"}}), SK_ERR_SYSTEM);
  EXPECT_EQ(code({{"SK_JOB_SECRET_FILE", "/dev/zero"}}), SK_ERR_TRUST);
}

}  // namespace
}  // namespace sk
