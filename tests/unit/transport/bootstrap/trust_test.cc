// Who may join: the job's own ranks, and nothing else that finds the port.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/env.h"
#include "transport/bootstrap/secret_fd.h"
#include "transport/bootstrap/wire.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

const char kSecret[] = "correct horse battery staple";

Variables with_secret(Variables variables, const std::string& secret) {
  variables["SK_JOB_SECRET"] = secret;
  return variables;
}

TEST(BootstrapTrust, RanksWithTheSameSecretMeet) {
  const HeldPort port;
  on_ranks(3, [&](int rank) {
    auto made = make_bootstrap(
        env_config(with_secret(job_variables(rank, 3, port.number()), kSecret), kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 70'000, 8);
  });
}

TEST(BootstrapTrust, AWrongSecretIsRefusedOnBothSides) {
  const HeldPort port;
  on_ranks(2, [&](int rank) {
    const std::string secret = rank == 0 ? kSecret : "correct horse battery stable";
    const auto made = make_bootstrap(
        env_config(with_secret(job_variables(rank, 2, port.number()), secret), kEnough));
    EXPECT_EQ(made.status().code(), SK_ERR_TRUST) << made.status().message();
    EXPECT_THAT(made.status().message(), HasSubstr("rank 1"));
    EXPECT_THAT(made.status().message(), testing::Not(HasSubstr("horse")));
  });
}

// Another user of this host is as near on the loopback as another host is elsewhere.
TEST(BootstrapTrust, TheLoopbackIsNotEnoughWithoutASecret) {
  for (const int holder : {-1, 0, 1}) {
    const HeldPort port;
    on_ranks(2, [&](int rank) {
      Variables variables = job_variables(rank, 2, port.number());
      if (rank != holder) variables.erase("SK_JOB_SECRET");
      const auto made = make_bootstrap(env_config(variables, kEnough));
      if (rank == holder) {
        EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT) << made.status().message();
        return;
      }
      EXPECT_EQ(made.status().code(), SK_ERR_TRUST) << made.status().message();
      EXPECT_THAT(made.status().message(), HasSubstr("every user of this host"));
      EXPECT_THAT(made.status().message(), HasSubstr("set SK_JOB_SECRET_FD, SK_JOB_SECRET_FILE"));
      EXPECT_THAT(made.status().message(), HasSubstr("SK_JOB_ID"));
    });
  }
}

MemberHello hello_of(const BootstrapConfig& config, int rank, int world_size) {
  const auto job = read_job_env(config.env, "");
  EXPECT_TRUE(job.ok());
  MemberHello hello;
  hello.rank = uint32_t(rank);
  hello.world_size = uint32_t(world_size);
  hello.has_secret = job.value().secret.empty() ? 0 : 1;
  hello.job = job.value().job;
  hello.name = job.value().name;
  EXPECT_TRUE(fill_random(hello.nonce).ok());
  hello.proof = hello_proof(job.value().secret, hello).value();
  return hello;
}

// The hub's answer; nothing when it closes instead.
std::optional<HubHello> say_hello(int fd, const MemberHello& hello) {
  EXPECT_EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), ssize_t(sizeof(hello)));
  HubHello answer;
  if (recv(fd, &answer, sizeof(answer), MSG_WAITALL) != ssize_t(sizeof(answer))) return {};
  return answer;
}

// Who has no secret gets no further than its hello; who overheard one, no further than the proof.
TEST(BootstrapTrust, AForgedProofDoesNotTakeARanksPlace) {
  const HeldPort port;
  const auto config_of = [&](int rank) {
    return env_config(with_secret(job_variables(rank, 2, port.number()), kSecret), kLong);
  };
  std::thread hub([&] {
    auto made = make_bootstrap(config_of(0));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 5, 2);
  });
  const MemberHello overheard = hello_of(config_of(1), 1, 2);
  MemberHello forged = overheard;
  forged.nonce.fill(std::byte(1));
  const int forger = dial(port.number());
  const auto refusal = say_hello(forger, forged);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->verdict, Verdict::kSecret);
  EXPECT_EQ(refusal->proof, Mac{}) << "a stranger was shown what it could try secrets on";
  close(forger);

  MemberProof proof;
  proof.fill(std::byte(7));
  const int listener = dial(port.number());
  const auto answer = say_hello(listener, overheard);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->verdict, Verdict::kJoined);
  EXPECT_EQ(send(listener, &proof, sizeof(proof), MSG_NOSIGNAL), ssize_t(sizeof(proof)));
  HubVerdict verdict;
  EXPECT_EQ(recv(listener, &verdict, sizeof(verdict), MSG_WAITALL), ssize_t(sizeof(verdict)));
  EXPECT_EQ(verdict.verdict, Verdict::kSecret);
  close(listener);
  const int repeater = dial(port.number());
  const auto again = say_hello(repeater, overheard);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->verdict, Verdict::kSecret);
  close(repeater);

  auto made = make_bootstrap(config_of(1));
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (made.ok()) expect_gathers(**made, 5, 2);
  hub.join();
}

TEST(BootstrapTrust, GarbageAtThePortIsIgnored) {
  const HeldPort port;
  std::thread hub([&] {
    auto made = make_bootstrap(env_config(job_variables(0, 2, port.number()), kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 100, 3);
  });
  std::mt19937_64 random(20);
  std::vector<int> silent;
  for (int i = 0; i < 60; ++i) {
    const int fd = dial(port.number());
    EXPECT_GE(fd, 0);
    std::string bytes(random() % 400, '\0');
    for (char& c : bytes) c = char(random());
    if (i % 3 == 0) {  // As far as the magic it is a rank.
      bytes.replace(0, 8, "skboot02");
    }
    if (!bytes.empty()) send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (i % 2 == 0) {
      close(fd);
    } else {
      silent.push_back(fd);
    }
  }
  auto made = make_bootstrap(env_config(job_variables(1, 2, port.number()), kLong));
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (made.ok()) expect_gathers(**made, 100, 3);
  hub.join();
  for (const int fd : silent) close(fd);
}

TEST(BootstrapTrust, AnotherProgramAtThePortIsTold) {
  const HeldPort port;
  const int listener = port.listen();
  const auto hub = make_bootstrap(env_config(job_variables(0, 2, port.number()), 100 * kMs));
  EXPECT_EQ(hub.status().code(), SK_ERR_TRANSPORT);
  EXPECT_THAT(hub.status().message(), HasSubstr("SK_MASTER_PORT"));
  std::thread stranger([&] {
    const int fd = accept(listener, nullptr, nullptr);
    const std::string page(200, 'H');
    send(fd, page.data(), page.size(), MSG_NOSIGNAL);
    close(fd);
    close(listener);
  });
  const auto member = make_bootstrap(env_config(job_variables(1, 2, port.number()), 300 * kMs));
  EXPECT_EQ(member.status().code(), SK_ERR_TIMEOUT) << member.status().message();
  stranger.join();
}

TEST(BootstrapTrust, ARankOfAnotherJobIsRefused) {
  const HeldPort port;
  on_ranks(2, [&](int rank) {
    Variables variables = job_variables(rank, 2, port.number());
    variables["TORCHELASTIC_RUN_ID"] = rank == 0 ? "today" : "yesterday";
    const auto made = make_bootstrap(env_config(variables, rank == 0 ? 2 * kEnough : kEnough));
    EXPECT_EQ(made.status().code(), rank == 0 ? SK_ERR_TIMEOUT : SK_ERR_TRUST)
        << made.status().message();
    if (rank == 1) {
      EXPECT_THAT(made.status().message(), HasSubstr("another job"));
    }
  });
}

TEST(BootstrapTrust, OtherHostsAreShutOutWithoutASecret) {
  Variables variables = job_variables(1, 2, 29500);
  variables.erase("SK_JOB_SECRET");
  variables["MASTER_ADDR"] = "192.0.2.1";
  const auto open = make_bootstrap(env_config(variables, kLong));
  EXPECT_EQ(open.status().code(), SK_ERR_TRUST);
  EXPECT_THAT(open.status().message(), HasSubstr("192.0.2.1"));
  variables = job_variables(0, 2, 29500);
  variables.erase("SK_JOB_SECRET");
  variables["SK_LISTEN"] = "any";
  const auto any = make_bootstrap(env_config(variables, kLong));
  EXPECT_EQ(any.status().code(), SK_ERR_TRUST);
  EXPECT_THAT(any.status().message(), HasSubstr("SK_LISTEN=any"));
}

TEST(BootstrapTrust, AnyAddressServesRanksWithASecret) {
  const HeldPort port;
  on_ranks(2, [&](int rank) {
    Variables variables = with_secret(job_variables(rank, 2, port.number()), kSecret);
    variables["SK_LISTEN"] = "any";
    auto made = make_bootstrap(env_config(variables, kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 4, 4);
  });
}

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
