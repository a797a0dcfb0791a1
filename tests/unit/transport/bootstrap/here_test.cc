// Ranks of one host that meet without an address: only those of one start of one job of one user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <list>
#include <optional>
#include <thread>

#include "tests/unit/transport/bootstrap/world.h"
#include "transport/bootstrap/address.h"
#include "transport/bootstrap/names.h"

namespace sk {
namespace {

using namespace sk::testing_support;
using testing::HasSubstr;

TEST(Here, RanksMeetWithoutAPortOrASecret) {
  for (const int world_size : {2, 3, 8}) {
    const std::string job = unique_job();
    on_ranks(world_size, [&](int rank) {
      for (uint64_t i = 0; i < 5; ++i) {
        auto made = make_bootstrap(env_config(here_variables(rank, world_size, job), kLong));
        ASSERT_TRUE(made.ok()) << made.status().message();
        EXPECT_EQ((*made)->rank(), rank);
        EXPECT_EQ((*made)->local_rank(), rank);
        EXPECT_EQ((*made)->local_size(), world_size);
        expect_gathers(**made, 5 + i, i);
        expect_gathers(**made, 20'000, i);
      }
    });
  }
}

TEST(Here, JobsAndTheirCommunicatorsDoNotMix) {
  const std::string jobs[] = {unique_job(), unique_job()};
  on_ranks(12, [&](int thread) {
    const int rank = thread % 3, kind = thread / 3;
    BootstrapConfig config = env_config(here_variables(rank, 3, jobs[kind % 2]), kLong);
    config.name = kind / 2 == 0 ? "first" : "second";
    for (uint64_t i = 0; i < 20; ++i) {
      auto made = make_bootstrap(config);
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 30, uint64_t(kind) * 100 + i);
    }
  });
}

TEST(Here, CommunicatorsOfOneNameFollowEachOtherInEveryThread) {
  const std::string job = unique_job();
  on_ranks(6, [&](int thread) {  // Two threads of each rank, in no order.
    for (uint64_t i = 0; i < 10; ++i) {
      auto made = make_bootstrap(env_config(here_variables(thread % 3, 3, job), kLong));
      ASSERT_TRUE(made.ok()) << made.status().message();
    }
  });
}

// A rank that is left over from before a restart waits for others of its own time only.
TEST(Here, RestartsOfAJobDoNotMix) {
  const std::string job = unique_job();
  on_ranks(3, [&](int thread) {
    Variables variables = here_variables(thread == 2 ? 1 : thread, 2, job);
    variables["TORCHELASTIC_RESTART_COUNT"] = thread == 2 ? "0" : "1";
    auto made = make_bootstrap(env_config(variables, thread == 2 ? kEnough : kLong));
    if (thread == 2) {
      EXPECT_THAT(made.status().message(), HasSubstr("rank 0 did not come"));
    } else {
      ASSERT_TRUE(made.ok()) << made.status().message();
      expect_gathers(**made, 9, 1);
    }
  });
}

TEST(Here, ASecretIsAskedForWhereThereIsOne) {
  const std::string job = unique_job();
  on_ranks(3, [&](int rank) {
    Variables variables = here_variables(rank, 3, job);
    if (rank != 2) variables["SK_JOB_SECRET"] = "correct horse battery staple";
    const auto made = make_bootstrap(env_config(variables, kEnough));
    EXPECT_FALSE(made.ok());
    if (rank == 2) {
      EXPECT_EQ(made.status().code(), SK_ERR_TRUST) << made.status().message();
    }
  });
}

// A rank may have been started through what closed it, or through what gave its number away.
TEST(Here, ADescriptorForTheSecretIsNotAskedFor) {
  const std::string job = unique_job();
  on_ranks(4, [&](int rank) {
    Variables variables = here_variables(rank, 4, job);
    if (rank == 1) variables["SK_JOB_SECRET_FD"] = "987654:1:2";
    if (rank == 2) variables["SK_JOB_SECRET_FD"] = "0:1:2";
    if (rank == 3) variables["SK_JOB_SECRET_FD"] = "6";
    auto made = make_bootstrap(env_config(variables, kLong));
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 9, 1);
  });
}

// Whoever is missing, rank 0 too: all others name exactly those, whoever runs out of time first.
TEST(Here, ExactlyThoseWhoDidNotComeAreNamedByAll) {
  struct {
    std::vector<int> missing;
    const char* sentence;
  } const table[] = {{{0}, "rank 0 did not come"},
                     {{2}, "rank 2 did not come"},
                     {{0, 3}, "ranks 0, 3 did not come"},
                     {{1, 2, 3}, "ranks 1-3 did not come"},
                     {{0, 1, 2, 4}, "ranks 0-2, 4 did not come"}};
  for (const auto& row : table) {
    const std::string job = unique_job();
    std::atomic<int> told = 0;
    on_ranks(5, [&](int rank) {
      if (std::count(row.missing.begin(), row.missing.end(), rank) > 0) return;
      const auto made =
          make_bootstrap(env_config(here_variables(rank, 5, job), kEnough / 2 + rank * 100 * kMs));
      EXPECT_EQ(made.status().code(), SK_ERR_TIMEOUT);
      EXPECT_THAT(made.status().message(), HasSubstr(row.sentence));
      ++told;
    });
    EXPECT_EQ(told, 5 - int(row.missing.size()));
  }
}

TEST(Here, AThirdRankThatIsLateToAGatherIsNamedByAll) {
  for (const int late : {0, 1, 2}) {
    const std::string job = unique_job();
    std::atomic<int> over = 0;
    on_ranks(3, [&](int rank) {
      auto made = make_bootstrap(env_config(here_variables(rank, 3, job), kLong));
      ASSERT_TRUE(made.ok()) << made.status().message();
      if (rank == late) {  // Alive, but elsewhere, until the others have given up.
        while (over < 2) over.wait(over);
        return;
      }
      const auto whole = (*made)->allgather(blob(rank, 8, 1), rank < 2 ? kEnough : kEnough / 2);
      EXPECT_EQ(whole.status().code(), SK_ERR_TIMEOUT);
      EXPECT_THAT(whole.status().message(),
                  HasSubstr(fmt::format("rank {} did not come to the all-gather", late)));
      ++over;
      over.notify_all();
    });
  }
}

TEST(Here, ARankThatGaveUpMayComeAgain) {
  const std::string job = unique_job();
  on_ranks(3, [&](int rank) {
    const BootstrapConfig config = env_config(here_variables(rank, 3, job), kLong);
    for (int i = 0; rank == 1 && i < 5; ++i) {
      const auto cancel = Cancel::make(-1);
      ASSERT_TRUE(cancel.ok());
      cancel.value()->request(error(SK_ERR_ABORTED, "not yet"));
      BootstrapConfig early = config;
      early.cancel = cancel.value();
      EXPECT_EQ(make_bootstrap(early).status().code(), SK_ERR_ABORTED);
    }
    // Rank 1's first tries may have been those at which the others waited.
    auto made = make_bootstrap(config);
    while (made.status().code() == SK_ERR_ABORTED) made = make_bootstrap(config);
    ASSERT_TRUE(made.ok()) << made.status().message();
    expect_gathers(**made, 6, 5);
  });
}

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

std::string tried(const Variables& variables, int64_t timeout_ns) {
  const auto made = make_bootstrap(env_config(variables, timeout_ns));
  return made.ok() ? "made" : made.status().message();
}

// Method: a rank forks, as multiprocessing does, and the child asks for what its variables say.
TEST(Here, WhatARankStartsNeitherJoinsNorHangs) {
  const std::string job = unique_job();
  const auto rank = [&](int number) { return here_variables(number, 2, job); };
  EXPECT_THAT(tried(rank(0), 1), HasSubstr("rank 1 did not come"));  // This process is rank 0 now.
  Child child([&] { return tried(rank(0), kLong); });
  const std::string told = child.said();
  EXPECT_THAT(told, HasSubstr("process " + std::to_string(getpid()) + ", from which this one"));
  EXPECT_THAT(told, HasSubstr("SK_BOOTSTRAP=single"));
  Child single([&] {
    Variables variables = rank(0);
    variables["SK_BOOTSTRAP"] = "single";
    return tried(variables, kLong);
  });
  EXPECT_EQ(single.said(), "made");
  // Where every rank has such children, they may be a world of their own.
  std::list<Child> worlds;
  for (const int number : {0, 1}) {
    worlds.emplace_back([&] {
      Variables variables = rank(number);
      variables["SK_JOB_ID"] = "children";
      return tried(variables, kLong);
    });
  }
  for (Child& world : worlds) EXPECT_EQ(world.said(), "made");
}

TEST(Here, ARankOfAnEndedProcessIsFreeAgain) {
  const std::string job = unique_job();
  for (int i = 0; i < 3; ++i) {
    Child first([&] { return tried(here_variables(0, 2, job), kLong); });
    Child second([&] { return tried(here_variables(1, 2, job), kLong); });
    EXPECT_EQ(first.said(), "made");
    EXPECT_EQ(second.said(), "made");
    Child twice([&] { return tried(here_variables(1, 2, job), kLong); });
    EXPECT_THAT(twice.said(), HasSubstr("process " + std::to_string(second.pid()) + " is rank 1"));
  }
}

std::vector<Address> places_of(const Variables& variables, uint64_t meetings = 0) {
  const auto env = env_config(variables, 1).env;
  auto job = read_job_env(env, "");
  EXPECT_TRUE(job.ok());
  job.value().meetings = meetings;
  auto addresses = resolve(job.value());
  EXPECT_TRUE(addresses.ok());
  return addresses.value();
}

Address place_of(const Variables& variables) { return places_of(variables).front(); }

// Returns once somebody listens there.
void wait_for_listener(const Address& address) {
  while (true) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool there = connect(fd, address.get(), address.bytes) == 0;
    close(fd);
    if (there) return;
    sched_yield();
  }
}

// Method: rank 2 comes and goes until what it is told shows that rank 0 waits at rank 1, a process
// of its own, which is then killed.
TEST(Here, ARankThatDiesWhileOthersWaitAtItIsNamed) {
  const std::string job = unique_job();
  Child first([&] { return tried(here_variables(1, 4, job), kLong); });
  wait_for_listener(place_of(here_variables(1, 4, job)));
  const auto try_rank = [&](int rank, int64_t timeout_ns) {
    return tried(here_variables(rank, 4, job), timeout_ns);
  };
  EXPECT_THAT(try_rank(2, 50 * kMs), HasSubstr("ranks 0, 3 did not come"));
  std::string told;
  std::thread rank0([&] { told = try_rank(0, kLong); });
  for (std::string heard; heard.find("rank 3 did not come") == std::string::npos;) {
    heard = try_rank(2, 50 * kMs);
  }
  kill(first.pid(), SIGKILL);
  rank0.join();
  EXPECT_THAT(told, HasSubstr("rank 1 is gone"));
  // Nobody waits there any more, so the next one does.
  EXPECT_THAT(try_rank(2, 50 * kMs), HasSubstr("ranks 0-1, 3 did not come"));
}

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

// A process that took a rank's place has met less often than the others: they meet all the same.
TEST(Here, RanksThatHaveMetDifferentlyOftenMeet) {
  const std::string job = unique_job();
  for (const int world_size : {2, 4}) {  // Then ranks 0 and 1 have met once, 2 and 3 never.
    on_ranks(world_size, [&](int rank) {
      EXPECT_EQ(tried(here_variables(rank, world_size, job), kLong), "made");
    });
  }
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

std::string name_of(const Address& address) {
  const auto* un = reinterpret_cast<const sockaddr_un*>(&address.storage);
  return std::string(un->sun_path + 1, address.bytes - offsetof(sockaddr_un, sun_path) - 1);
}

// Method: a process in a space of PIDs of its own, as in a container that shares the host's
// network.
TEST(Here, ContainersThatRepeatAJobsNameDoNotMix) {
  const std::string job = unique_job();
  const auto name = [&] { return name_of(place_of(here_variables(0, 2, job))); };
  Child container([&]() -> std::string {
    if (unshare(CLONE_NEWPID) != 0) return "cannot unshare";
    Child inside(name);
    return inside.said();
  });
  Child neighbour(name);
  const std::string said = container.said();
  if (said == "cannot unshare") GTEST_SKIP() << "no right to make a space of PIDs";
  EXPECT_THAT(said, HasSubstr("superkernel-"));
  EXPECT_NE(said, name());
  EXPECT_EQ(neighbour.said(), name());
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

// Method: the name of a claim is read from the list while a process holds it, and taken once that
// has ended.
TEST(Claim, OfAnotherUserStopsNoJob) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can play another user";
  const std::string job = unique_job();
  const std::vector<Address> before = listed_places();
  std::optional<Child> holder(std::in_place, [&] { return tried(here_variables(0, 2, job), 1); });
  EXPECT_THAT(holder->said(), HasSubstr("rank 1 did not come"));
  std::vector<Address> claims = listed_places();
  std::erase_if(claims, [&](const Address& it) {
    return std::find(before.begin(), before.end(), it) != before.end() ||
           name_of(it).find("-rank-") == std::string::npos;
  });
  ASSERT_FALSE(claims.empty());
  holder.reset();
  Child stranger([&] { return squat_as_another(claims); });
  ASSERT_EQ(stranger.said(), "there");
  EXPECT_THAT(tried(here_variables(0, 2, job), 1), HasSubstr("rank 1 did not come"));
}

}  // namespace
}  // namespace sk
