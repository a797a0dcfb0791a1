// Other users of the host where ranks meet without an address: what they hold, read, knock at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <thread>

#include "tests/unit/transport/bootstrap/here.h"
#include "transport/bootstrap/names.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

int squat(const Address& address, int backlog) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(bind(fd, address.get(), address.bytes), 0);
  EXPECT_TRUE(backlog < 0 || listen(fd, backlog) == 0);
  return fd;
}

constexpr uid_t kNobody = 65534;

// Another user, played by a child that gave root up, who has `places`.
std::string squat_as_another(const std::vector<Address>& places) {
  if (setresuid(kNobody, kNobody, kNobody) != 0) return "cannot change the user";
  for (const Address& place : places) squat(place, 16);
  return "there";
}

TEST(Here, AnotherUserAtEveryNameIsRefusedAtOnce) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const Variables variables = here_variables(0, 2, unique_job());
  Child squatter([&] { return squat_as_another(places_of(variables)); });
  ASSERT_EQ(squatter.said(), "there");
  const auto made = make_bootstrap(env_config(variables, kLong));
  EXPECT_EQ(made.status().code(), SK_ERR_TRUST);
  EXPECT_THAT(made.status().message(), HasSubstr("of user 65534"));
  EXPECT_THAT(made.status().message(), HasSubstr("set SK_JOB_ID"));
}

// The names that are listed by the kernel while ranks meet.
std::vector<Address> listed_places() {
  std::vector<Address> out;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find("@superkernel-");
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + 1);
    Address address;
    auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
    un->sun_family = AF_UNIX;
    std::memcpy(un->sun_path + 1, name.data(), name.size());
    address.bytes = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    out.push_back(address);
  }
  return out;
}

// Method: while rank 0 waits, another user reads the list of names; it takes those that are free
// between two communicators, as many times as there are.
TEST(Here, AnotherUserWhoTakesWhatWasSeenStopsNoLaterCommunicator) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const std::string job = unique_job();
  std::list<Child> squatters;
  for (uint64_t i = 0; i < 4; ++i) {
    std::vector<Address> seen;
    on_ranks(2, [&](int rank) {
      if (rank == 1) {
        wait_for_listener(places_of(here_variables(0, 2, job), i).back());
        seen = listed_places();
      }
      auto made = make_bootstrap(env_config(here_variables(rank, 2, job), kLong));
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 9, i);
    });
    squatters.emplace_back([&]() -> std::string {
      if (setresuid(kNobody, kNobody, kNobody) != 0) return "cannot change the user";
      int got = 0;
      for (const Address& place : seen) {
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(fd, place.get(), place.bytes) == 0 && listen(fd, 16) == 0) ++got;
      }
      return got > 0 ? "there" : "none";
    });
    EXPECT_EQ(squatters.back().said(), "there");
  }
}

// However guessable the job is, who has not the secret does not know where its ranks meet next.
TEST(Here, ASecretHidesTheNameOfAMeeting) {
  Variables variables = here_variables(0, 2, unique_job());
  const auto open = places_of(variables);
  variables["SK_JOB_SECRET"] = "correct horse battery staple";
  EXPECT_FALSE(open.back() == places_of(variables).back());
  EXPECT_FALSE(places_of(variables, 1).back() == places_of(variables).back());
}

TEST(Here, AKnockOfAnotherUserLeavesATimeoutATimeout) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const std::string job = unique_job();
  const Address address = place_of(here_variables(0, 2, job));
  Child stranger([&]() -> std::string {
    if (setresuid(kNobody, kNobody, kNobody) != 0) return "cannot change the user";
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, address.get(), address.bytes) != 0) sched_yield();
    return "knocked";
  });
  const auto made = make_bootstrap(env_config(here_variables(0, 2, job), kEnough));
  EXPECT_EQ(stranger.said(), "knocked");
  EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT) << made.status().message();
  EXPECT_THAT(made.status().message(), HasSubstr("rank 1 did not come"));
  EXPECT_THAT(made.status().message(), HasSubstr("1 connection of another user turned away"));
  EXPECT_THAT(made.status().message(), testing::Not(HasSubstr("secret")));
}

TEST(NameWatch, OnlyANameThatWasDumbAllTheTimeIsGivenUp) {
  constexpr int64_t kMost = NameWatch::kDumbNs;
  const std::vector<NameState> held = {NameState::kDumb, NameState::kFree};
  NameWatch watch(2);
  watch.saw(0, NameState::kDumb, 0);
  watch.saw(0, NameState::kDumb, kMost);
  EXPECT_TRUE(watch.undecided(held, kMost));
  EXPECT_FALSE(watch.undecided(held, kMost + 1));
  EXPECT_TRUE(watch.given_up(0, kMost + 1));
  EXPECT_FALSE(watch.given_up(1, kMost + 1));
  // Free between, or held by a rank that answered: another one holds it now.
  watch.saw(0, NameState::kFree, kMost + 2);
  watch.saw(0, NameState::kDumb, 3 * kMost);
  EXPECT_TRUE(watch.undecided(held, 4 * kMost));
  watch.answered();
  watch.saw(0, NameState::kDumb, 5 * kMost);
  EXPECT_TRUE(watch.undecided(held, 6 * kMost));
}

TEST(Here, AnotherUsersConnectionTakesNoRanksPlace) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const std::string job = unique_job();
  const Address address = place_of(here_variables(0, 2, job));
  Child stranger([&]() -> std::string {
    if (setresuid(kNobody, kNobody, kNobody) != 0) return "cannot change the user";
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, address.get(), address.bytes) != 0) sched_yield();
    char byte;
    return read(fd, &byte, 1) <= 0 ? "shut out" : "heard";
  });
  std::string heard;
  on_ranks(2, [&](int rank) {
    if (rank == 1) heard = stranger.said();  // Rank 0 alone is there until then.
    const auto made = make_bootstrap(env_config(here_variables(rank, 2, job), kLong));
    EXPECT_TRUE(made.ok()) << made.status().message();
  });
  EXPECT_EQ(heard, "shut out");
}

TEST(Here, HeldNamesWhereNobodyListensAreRefusedOnlyIfThereIsNoOther) {
  on_ranks(4, [](int thread) {
    const int backlog = thread % 2 - 1;  // Not listening at all; listening, and full.
    const bool all = thread < 2;
    const std::string job = unique_job();
    std::vector<Address> places = places_of(here_variables(0, 2, job));
    if (!all) places.resize(1);
    std::vector<int> open;
    for (const Address& place : places) {
      open.push_back(squat(place, backlog));
      for (int i = 0; backlog >= 0 && i < 4; ++i) {
        open.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (connect(open.back(), place.get(), place.bytes) != 0) break;
      }
    }
    on_ranks(2, [&](int rank) {
      const auto made = make_bootstrap(env_config(here_variables(rank, 2, job), kLong));
      EXPECT_EQ(made.status().code(), all ? SK_ERR_TRUST : SK_OK) << made.status().message();
    });
    for (const int fd : open) close(fd);
  });
}

TEST(Claim, StandsWhateverTheTemporaryFolder) {
  const std::string job = unique_job();
  const auto rank0 = [&](const char* folder, int64_t timeout_ns) {
    setenv("TMPDIR", folder, 1);
    return tried(here_variables(0, 2, job), timeout_ns);
  };
  Child holder([&] { return rank0("/var/tmp", 1); });
  EXPECT_THAT(holder.said(), HasSubstr("rank 1 did not come"));
  for (const char* folder : {"/tmp", "/nonexistent", "/proc"}) {
    Child other([&] { return rank0(folder, kLong); });
    EXPECT_THAT(other.said(), HasSubstr("process " + std::to_string(holder.pid()) + " is rank 0"));
  }
}

// The names of claims that are held now and were not `before`.
std::vector<Address> claims_since(const std::vector<Address>& before) {
  std::vector<Address> claims = listed_places();
  std::erase_if(claims, [&](const Address& it) {
    return std::find(before.begin(), before.end(), it) != before.end() ||
           name_of(it).find("-rank-") == std::string::npos;
  });
  return claims;
}

// Whoever likes may connect there, and nobody takes the connections.
TEST(Claim, AFullQueueHidesNoHolder) {
  const std::string job = unique_job();
  const std::vector<Address> before = listed_places();
  Child holder([&] { return tried(here_variables(0, 2, job), 1); });
  EXPECT_THAT(holder.said(), HasSubstr("rank 1 did not come"));
  const std::vector<Address> claims = claims_since(before);
  ASSERT_FALSE(claims.empty());
  for (const Address& claim : claims) {
    bool full = false;
    for (int i = 0; i < 1'000'000 && !full; ++i) {  // What has hung up stays in the queue.
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      full = connect(fd, claim.get(), claim.bytes) != 0 && errno == EAGAIN;
      close(fd);
    }
    ASSERT_TRUE(full);
  }
  EXPECT_THAT(tried(here_variables(0, 2, job), kLong),
              HasSubstr("process " + std::to_string(holder.pid()) + " is rank 0"));
}

// Method: the name of a claim is read from the list while a process holds it, and taken once that
// has ended.
TEST(Claim, OfAnotherUserStopsNoJob) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const std::string job = unique_job();
  const std::vector<Address> before = listed_places();
  std::optional<Child> holder(std::in_place, [&] { return tried(here_variables(0, 2, job), 1); });
  EXPECT_THAT(holder->said(), HasSubstr("rank 1 did not come"));
  const std::vector<Address> claims = claims_since(before);
  ASSERT_FALSE(claims.empty());
  holder.reset();
  Child stranger([&] { return squat_as_another(claims); });
  ASSERT_EQ(stranger.said(), "there");
  EXPECT_THAT(tried(here_variables(0, 2, job), 1), HasSubstr("rank 1 did not come"));
}

}  // namespace
}  // namespace sk
