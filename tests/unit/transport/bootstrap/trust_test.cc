// Who may join: the job's own ranks, and nothing else that finds the port.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/env.h"
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

TEST(BootstrapTrust, ASecretOnOneSideOnlyIsRefused) {
  for (const int holder : {0, 1}) {
    const HeldPort port;
    on_ranks(2, [&](int rank) {
      Variables variables = job_variables(rank, 2, port.number());
      if (rank == holder) variables = with_secret(variables, kSecret);
      const auto made = make_bootstrap(env_config(variables, kEnough));
      EXPECT_EQ(made.status().code(), SK_ERR_TRUST) << made.status().message();
    });
  }
}

// A member's hello may be known to all; without the secret its proof cannot be made.
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
  const auto job = read_job_env(config_of(1).env, "");
  EXPECT_TRUE(job.ok());
  MemberHello hello;
  hello.rank = 1;
  hello.world_size = 2;
  hello.has_secret = 1;
  hello.job = job.value().job;
  hello.name = job.value().name;
  MemberProof proof;
  proof.fill(std::byte(7));
  const int forger = dial(port.number());
  EXPECT_EQ(send(forger, &hello, sizeof(hello), MSG_NOSIGNAL), ssize_t(sizeof(hello)));
  EXPECT_EQ(send(forger, &proof, sizeof(proof), MSG_NOSIGNAL), ssize_t(sizeof(proof)));
  char answer[sizeof(HubHello) + sizeof(HubVerdict)] = {};
  EXPECT_EQ(recv(forger, answer, sizeof(answer), MSG_WAITALL), ssize_t(sizeof(answer)));
  HubVerdict verdict;
  std::memcpy(&verdict, answer + sizeof(HubHello), sizeof(verdict));
  EXPECT_EQ(verdict.verdict, Verdict::kSecret);
  close(forger);
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
      bytes.replace(0, 8, "skboot01");
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
  variables["MASTER_ADDR"] = "192.0.2.1";
  const auto open = make_bootstrap(env_config(variables, kLong));
  EXPECT_EQ(open.status().code(), SK_ERR_TRUST);
  EXPECT_THAT(open.status().message(), HasSubstr("192.0.2.1"));
  variables = job_variables(0, 2, 29500);
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

// A number of its own for each descriptor: what one number gave is remembered.
int memory_file(int number) {
  const int memory = memfd_create("secret", MFD_CLOEXEC);
  const int moved = fcntl(memory, F_DUPFD_CLOEXEC, number);
  close(memory);
  return moved;
}

TEST(BootstrapSecret, ComesFromADescriptorThatIsReadOnceAndClosed) {
  const int memory = memory_file(400);
  ASSERT_EQ(write(memory, kSecret, sizeof(kSecret) - 1), ssize_t(sizeof(kSecret) - 1));
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(pipe_ends[1], kSecret, sizeof(kSecret) - 1), ssize_t(sizeof(kSecret) - 1));
  close(pipe_ends[1]);
  for (const int fd : {memory, pipe_ends[0]}) {
    const auto env = env_config({{"SK_JOB_SECRET_FD", std::to_string(fd)}}, 1).env;
    for (int i = 0; i < 3; ++i) {
      const auto secret = read_job_secret(env);
      ASSERT_TRUE(secret.ok()) << secret.status().message();
      EXPECT_EQ(secret.value(), kSecret);
      EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "descriptor " << fd << " is still open";
    }
  }
}

TEST(BootstrapSecret, ADescriptorThatGaveNoneIsLeftOpen) {
  const int memory = memory_file(500);
  ASSERT_EQ(write(memory, "short", 5), 5);
  const auto env = env_config({{"SK_JOB_SECRET_FD", std::to_string(memory)}}, 1).env;
  EXPECT_EQ(read_job_secret(env).status().code(), SK_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(close(memory), 0);
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
  EXPECT_EQ(code({{"SK_JOB_SECRET_FD", "three"}}), SK_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(code({{"SK_JOB_SECRET_FD", "987654"}}), SK_ERR_SYSTEM);
  EXPECT_EQ(code({{"SK_JOB_SECRET_FILE", "/nonexistent/secret"}}), SK_ERR_SYSTEM);
  EXPECT_EQ(code({{"SK_JOB_SECRET_FILE", "/dev/zero"}}), SK_ERR_TRUST);
}

}  // namespace
}  // namespace sk
