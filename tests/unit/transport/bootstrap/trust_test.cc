// Who may join: the job's own ranks, and nothing else that finds the port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
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

// Both sides: the other might be a stranger, who must not end a world whose rank 0 is yet to come.
TEST(BootstrapTrust, AWrongSecretIsSaidOnBothSidesWhenTheTimeIsUp) {
  const HeldPort port;
  on_ranks(2, [&](int rank) {
    const std::string secret = rank == 0 ? kSecret : "correct horse battery stable";
    const auto made = make_bootstrap(
        env_config(with_secret(job_variables(rank, 2, port.number()), secret), kEnough));
    EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT) << made.status().message();
    EXPECT_THAT(made.status().message(), HasSubstr("rank 1"));
    EXPECT_THAT(made.status().message(), HasSubstr("secret"));
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

TEST(BootstrapTrust, AForgedHelloFailsNoHonestRank) {
  const HeldPort port;
  const auto config_of = [&](int64_t timeout_ns) {
    return env_config(with_secret(job_variables(0, 2, port.number()), kSecret), timeout_ns);
  };
  std::thread forger([&] {
    MemberHello forged = hello_of(config_of(kLong), 1, 2);
    forged.nonce.fill(std::byte(1));
    const int fd = dial(port.number());
    const auto refusal = say_hello(fd, forged);
    EXPECT_TRUE(refusal.has_value() && refusal->verdict == Verdict::kSecret);
    close(fd);
  });
  const auto alone = make_bootstrap(config_of(kEnough));
  forger.join();
  EXPECT_EQ(alone.status().code(), SK_ERR_TIMEOUT) << alone.status().message();
  EXPECT_THAT(alone.status().message(), HasSubstr("rank 1 did not come"));
  EXPECT_THAT(alone.status().message(), HasSubstr("1 connection could not show the job's secret"));
}

// A stranger that listens first, and refuses in every way there is; then rank 0 comes.
TEST(BootstrapTrust, ARefusalByAStrangerEndsNoSearch) {
  for (const Verdict verdict : {Verdict::kSecret, Verdict::kWorldSize, Verdict::kOtherJob,
                                Verdict::kTaken, Verdict::kJoined}) {
    SCOPED_TRACE(uint32_t(verdict));
    const HeldPort port;
    const auto config_of = [&](int rank) {
      return env_config(with_secret(job_variables(rank, 2, port.number()), kSecret), kLong);
    };
    const int listener = port.listen();
    std::thread member([&] {
      auto made = make_bootstrap(config_of(1));
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 5, 2);
    });
    const int fd = accept(listener, nullptr, nullptr);
    MemberHello hello;
    EXPECT_EQ(recv(fd, &hello, sizeof(hello), MSG_WAITALL), ssize_t(sizeof(hello)));
    HubHello forged;
    forged.verdict = verdict;
    forged.number = 7;
    EXPECT_EQ(send(fd, &forged, sizeof(forged), MSG_NOSIGNAL), ssize_t(sizeof(forged)));
    char byte = 0;
    while (recv(fd, &byte, 1, 0) > 0) {  // Until the member has hung up.
    }
    close(listener);
    close(fd);
    auto made = make_bootstrap(config_of(0));
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (made.ok()) expect_gathers(**made, 5, 2);
    member.join();
  }
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
      bytes.replace(0, 8, "skboot03");
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
    EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT) << made.status().message();
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

}  // namespace
}  // namespace sk
