// What is left of ranks that have ended, and how it goes.
#include <sys/stat.h>

#include "lib/base/process_name.h"
#include "lib/record/folder.h"
#include "tests/multi/sk_status_job.h"

namespace sk::testing_support {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(SkStatus, OfAKilledRankItSaysWhereItWasAndWhatKilledIt) {
  Job job(ranks("3", {"barrier 2", "2:pause", "allreduce 50"}));
  const Json before = comm_that([](const Json& c) { return all_wait_for(c, 2, {0, 1}); });
  // In the middle of its call.
  kill(int(before["ranks"][1]["pid"]), SIGKILL);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  const Json comm = comm_that([](const Json& c) { return states(c)[0] == "ended"; });
  EXPECT_EQ(states(comm), (std::vector<std::string>{"ended", "ended", "ended"}));
  EXPECT_THAT(says(comm, 1), StartsWith("killed by signal 9 (SIGKILL) "));
  EXPECT_THAT(says(comm, 1), HasSubstr("; was in allreduce(f32, max, 50, in place) #3 since "));
  EXPECT_THAT(says(comm, 1), HasSubstr(": waited for rank 2 over shm"));
  EXPECT_EQ(comm["ranks"][1]["end"]["how"], "signaled");
  EXPECT_EQ(comm["ranks"][1]["end"]["signal"], SIGKILL);
  // Looking takes nothing away; --forget does.
  EXPECT_EQ(records(), 3u);
  EXPECT_EQ(run("--forget").out, "3 records removed.\n");
  EXPECT_FALSE(fs::exists(folder_));
}

// Of calls that failed the reason stays, whatever the rank does then.
TEST_F(SkStatus, WhyACommunicatorEndedIsTold) {
  setenv("SK_TEST_RANK", SK_STATUS_RANK, 1);
  Job job(
      shell("1",
            "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE; export WORLD_SIZE=2 SK_JOB_ID=x "
            "LOCAL_WORLD_SIZE=2; RANK=1 $SK_TEST_RANK 'barrier 1' kill & "
            "RANK=0 $SK_TEST_RANK 'barrier 2'; wait"));
  job.finish();
  const Json comm = comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"ended", "ended"};
  });
  const Json& rank = comm["ranks"][0];
  ASSERT_TRUE(rank.contains("over")) << comm.dump(1);
  EXPECT_EQ(rank["over"]["error"], "SK_ERR_PEER_LOST");
  EXPECT_THAT(std::string(rank["over"]["sentence"]), HasSubstr("rank 1"));
  EXPECT_EQ(rank["end"]["code"], 9);
  EXPECT_EQ(rank["call"]["error"], "SK_ERR_PEER_LOST");
  EXPECT_THAT(says(comm, 0), HasSubstr("; over, SK_ERR_PEER_LOST: "));
}

TEST_F(SkStatus, ExitStatusesAreTold) {
  Job job(ranks("2", {"barrier 1", "0:leave 5", "1:pause"}));
  EXPECT_EQ(job.finish(), 5);
  const Json comm = comm_that([](const Json& c) { return states(c)[0] == "ended"; });
  EXPECT_THAT(says(comm, 0), StartsWith("ended with exit status 5 "));
  EXPECT_THAT(says(comm, 1), StartsWith("killed by signal 15 (SIGTERM) "));
}

TEST_F(SkStatus, AMeetingThatFailedSaysWhoDidNotCome) {
  setenv("SK_TEST_RANK", SK_STATUS_RANK, 1);
  Job job(
      shell("2", "test $RANK = 1 && exec sleep 1000; SK_TEST_TIMEOUT_MS=500 exec $SK_TEST_RANK"));
  EXPECT_EQ(job.finish(), 9);
  const Json comm = comm_that([](const Json& c) { return states(c)[0] == "ended"; });
  ASSERT_TRUE(comm["ranks"][0].contains("over")) << comm.dump(1);
  EXPECT_THAT(std::string(comm["ranks"][0]["over"]["sentence"]), HasSubstr("rank 1"));
}

TEST_F(SkStatus, NothingIsLeftBehindACleanEnd) {
  const std::vector<std::vector<std::string>> table = {{"barrier 3", "free"},
                                                       {"barrier 3", "MEET"},
                                                       {"barrier 1", "fork", "free"},
                                                       {"second", "allreduce 9", "MEET", "leave 0"},
                                                       {"barrier 1", "MEET", "_leave 0"}};
  for (std::vector<std::string> steps : table) {
    const std::string place = root_ + "/meet";
    fs::create_directory(place);
    std::replace(steps.begin(), steps.end(), std::string("MEET"), "meet " + place);
    Job job(ranks("3", steps));
    EXPECT_EQ(job.finish(), 0) << job.err;
    EXPECT_FALSE(fs::exists(folder_)) << steps.back();
    fs::remove_all(place);
  }
}

TEST_F(SkStatus, AHostileFileIsASentenceAndHidesNothing) {
  Job job(ranks("2", {"barrier 1", "say there", "pause"}));
  job.read_output(2);
  const std::string bad = folder_ + "/1-2-3.skrecord", other = folder_ + "/0-0-x.skrecord";
  std::ofstream(bad) << std::string(5000, 'x');
  std::ofstream(other) << "";
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("1-2-3.skrecord is no flight record"));
  EXPECT_THAT(outcome.err, HasSubstr("0-0-x.skrecord has 0 bytes: a record has 4096 at least"));
  EXPECT_THAT(outcome.out, HasSubstr("communicator of 2 ranks\n"));
  EXPECT_EQ(json()["unreadable"].size(), 2u);
  EXPECT_EQ(json()["jobs"].size(), 1u);
  // A folder that others may write in is not believed.
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const Outcome open = run("");
  EXPECT_EQ(open.status, 1);
  EXPECT_THAT(open.err, HasSubstr("must be a folder of user"));
}

// Where a record's head (lib/record/layout.h) has it.
constexpr off_t kVersionAt = 8, kSpaceAt = 16, kEndWallAt = 48;

// Of the PID namespace of a container that is gone nothing can be seen.
TEST_F(SkStatus, WhatCannotBeSeenGoesWhenAllIsAskedFor) {
  Job job(shell("1", ranks_of_sh(2, "x", "RANK=0 $SK_TEST_RANK & RANK=1 exec sleep 1000")));
  const Json comm = comm_that([](const Json& c) { return states(c)[0] == "meeting"; });
  kill(int(comm["ranks"][0]["pid"]), SIGKILL);
  comm_that([](const Json& c) { return states(c)[0] == "ended"; });
  patch(record(), kSpaceAt, uint64_t{0});
  EXPECT_EQ(states(comm_that([](const Json&) { return true; }))[0], "invisible");
  EXPECT_EQ(run("--forget").out,
            "0 records removed.\n"
            "1 record stays, of processes that cannot be seen from here: --all takes it, too.\n");
  EXPECT_EQ(records(), 1u);
  EXPECT_EQ(run("--forget --all").out, "1 record removed.\n");
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(SkStatus, ForgettingAllSparesWhoLives) {
  Job job(ranks("2", {"barrier 1", "say here", "pause"}));
  job.read_output(2);
  EXPECT_EQ(run("--forget --all").out, "0 records removed.\n");
  EXPECT_EQ(records(), 2u);
}

// From the machine's own PID namespace all others are seen, so who is not there has ended.
TEST_F(SkStatus, RanksOfAContainerThatIsGoneAreDead) {
  const std::vector<std::string> inside = {"unshare", "--pid", "--fork", "--mount-proc",
                                           "--kill-child"};
  if (std::system("unshare --pid --fork --mount-proc --kill-child true 2>/dev/null") != 0)
    GTEST_SKIP() << "this user may make no PID namespace";
  {
    Job job(ranks("2", {"barrier 1", "say here", "pause"}), -1, inside);
    job.read_output(2);
  }
  struct stat own {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &own), 0);
  const bool sees_all = own.st_ino == 0xEFFFFFFC;
  const Json comm = comm_that([&](const Json& c) {
    return states(c) == std::vector<std::string>(2, sees_all ? "ended" : "invisible");
  });
  EXPECT_EQ(run("--forget").out.substr(0, 18),
            sees_all ? "2 records removed." : "0 records removed.");
}

TEST_F(SkStatus, ARecordOfAnotherVersionIsASentenceAndCanBeForgotten) {
  Job job(
      shell("1", ranks_of_sh(2, "x", "RANK=0 $SK_TEST_RANK & echo $!; RANK=1 exec sleep 1000")));
  job.read_output(1);
  comm_that([](const Json& c) { return states(c)[0] == "meeting"; });
  patch(record(), kVersionAt, uint32_t{2});
  const std::string pid = job.out.substr(0, job.out.find('\n'));
  Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out,
            "No job of this user has ranks here that this sk can read; 1 record it cannot.\n");
  EXPECT_THAT(outcome.err, HasSubstr("is of version 2: this program reads version 1"));
  EXPECT_THAT(outcome.err, HasSubstr("; its process " + pid + " runs"));
  EXPECT_EQ(run("--forget").out, "0 records removed.\n");
  kill(std::atoi(pid.c_str()), SIGKILL);
  ASSERT_TRUE(until([&] {
    outcome = run("");
    return outcome.err.find("; its process " + pid + " has ended") != std::string::npos;
  }));
  EXPECT_EQ(run("--forget").out, "1 record removed.\n");
}

// A name that is used again: what died of the first start is nobody that the second one waits for.
TEST_F(SkStatus, AJobThatIsStartedAgainShowsItsOwnRanks) {
  {
    Job first(
        shell("1", ranks_of_sh(3, "x", "RANK=1 $SK_TEST_RANK & RANK=2 $SK_TEST_RANK & wait")));
    const Json comm = comm_that([](const Json& c) {
      return states(c) == std::vector<std::string>{"missing", "meeting", "meeting"};
    });
    for (const size_t rank : {1, 2}) kill(int(comm["ranks"][rank]["pid"]), SIGKILL);
    comm_that([](const Json& c) { return states(c)[1] == "ended" && states(c)[2] == "ended"; });
  }
  // Rank 0, which finds out who has gone, comes when another one is there.
  const std::string go = root_ + "/go";
  Job second(shell("1", ranks_of_sh(3, "x",
                                    "RANK=2 $SK_TEST_RANK & until test -e " + go +
                                        "; do sleep 0.01; done; RANK=0 $SK_TEST_RANK & wait")));
  comm_that([](const Json& c) { return states(c)[2] == "meeting"; });
  std::ofstream(go) << "";
  comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"meeting", "missing", "meeting"};
  });
  const Json comms = json()["jobs"][0]["communicators"];
  ASSERT_EQ(comms.size(), 2u) << comms.dump(1);
  EXPECT_EQ(comms[0]["ranks"][0]["state"], "meeting") << "what lives comes first";
  EXPECT_EQ(states(comms[1]), (std::vector<std::string>{"missing", "ended", "ended"}));
  EXPECT_THAT(run("").out, HasSubstr("communicator of 3 ranks, which never met; all ended here\n"));
}

TEST_F(SkStatus, WhoLivesComesFirstAndThenTheLatest) {
  std::vector<std::string> names;
  for (const char* name : {"b", "c", "a"}) {
    Job job(shell(
        "1", ranks_of_sh(2, name, "RANK=1 $SK_TEST_RANK pause & RANK=0 exec $SK_TEST_RANK kill")));
    EXPECT_EQ(job.finish(), 128 + SIGKILL);
  }
  Job living(shell("1", ranks_of_sh(2, "b-lives",
                                    "RANK=1 $SK_TEST_RANK 'say x' pause & "
                                    "RANK=0 exec $SK_TEST_RANK 'say x' pause")));
  living.read_output(2);
  ASSERT_TRUE(until([&] {
    names.clear();
    const Json said = json();
    bool all_dead = true;
    for (const Json& job : said["jobs"]) {
      names.push_back(std::string(job["job"]));
      for (const Json& rank : job["communicators"][0]["ranks"])
        all_dead = all_dead &&
                   (names.size() == 1 || rank["state"] == "ended" || rank["state"] == "missing");
    }
    return names.size() == 4 && all_dead;
  }));
  std::vector<std::string> in_order;
  for (const std::string& name : names)
    in_order.push_back(name.substr(name.rfind('/') + 1, name.rfind('.') - name.rfind('/') - 1));
  EXPECT_EQ(in_order, (std::vector<std::string>{"b-lives", "a", "c", "b"})) << names[0];
}

TEST_F(SkStatus, AnotherDayIsTold) {
  Job job(ranks("2", {"barrier 1", "1:kill", "pause"}));
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  const Json today = comm_that([](const Json& c) { return states(c)[1] == "ended"; });
  EXPECT_THAT(says(today, 1), testing::ContainsRegex(" ago, at [0-9]+:[0-9]+:[0-9]+; "));
  const int64_t then = int64_t(std::time(nullptr) - 5 * 86400) * 1'000'000'000;
  for (const auto& entry : fs::directory_iterator(folder_)) patch(entry.path(), kEndWallAt, then);
  const Json comm = comm_that([](const Json& c) { return states(c)[1] == "ended"; });
  EXPECT_THAT(says(comm, 1), HasSubstr("5.0 days ago, at 2"));
  EXPECT_THAT(says(comm, 1),
              testing::ContainsRegex("at [0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+; "));
}

// A record that its process is about to write is none yet, and no fault.
TEST_F(SkStatus, ARecordThatIsBeingMadeIsNoFault) {
  ASSERT_TRUE(fs::create_directory(folder_));
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  const std::string own =
      folder_ + "/" +
      record::file_name(own_process_space(), getpid(), process_start_time(getpid()).value_or(0));
  for (const size_t bytes : {0, 4096}) {
    std::ofstream(own) << std::string(bytes, '\0');
    const Outcome outcome = run("");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
  }
  std::ofstream(own) << std::string(4096, 'x');
  EXPECT_EQ(run("").status, 1);
}

}  // namespace
}  // namespace sk::testing_support
