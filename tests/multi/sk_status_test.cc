// `sk status` from outside: where ranks stand that wait, are stopped, killed, missing or well.
#include <sys/ptrace.h>

#include "tests/multi/sk_status_job.h"

namespace sk::testing_support {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(SkStatus, NothingRunsAndNothingIsLeft) {
  const Outcome outcome = run("");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "No job of this user has ranks here.\n");
  EXPECT_EQ(json()["jobs"].size(), 0u);
  EXPECT_EQ(run("--metrics").out.substr(run("--metrics").out.size() - 6), "# EOF\n");
}

TEST_F(SkStatus, WhoWaitsForWhomSinceWhenAndOverWhat) {
  Job job(ranks("3", {"barrier 3", "2:pause", "allreduce 1000"}));
  const Json comm = comm_that([](const Json& c) { return all_wait_for(c, 2, {0, 1}); });
  EXPECT_EQ(states(comm), (std::vector<std::string>{"in_call", "in_call", "outside"}));
  EXPECT_EQ(comm["behind"], Json({2}));
  EXPECT_EQ(comm["world_size"], 3);
  const Json& rank = comm["ranks"][0];
  EXPECT_EQ(rank["call"]["call"], "allreduce(f32, max, 1000, in place)");
  EXPECT_EQ(rank["call"]["seq"], 4);
  EXPECT_EQ(rank["call"]["bytes"], 4000);
  EXPECT_EQ(rank["call"]["state"], "entered");
  EXPECT_GT(double(rank["call"]["seconds_ago"]), 0.03);
  EXPECT_EQ(rank["waits_for"]["link"], "shm");
  EXPECT_EQ(rank["last_calls"].size(), 4u);
  EXPECT_THAT(says(comm, 0), HasSubstr("in allreduce(f32, max, 1000, in place) #4 for "));
  EXPECT_THAT(says(comm, 0), HasSubstr(": waits for rank 2 over shm"));
  EXPECT_THAT(says(comm, 2), HasSubstr("outside calls for "));
  EXPECT_THAT(says(comm, 2), HasSubstr(", after barrier() #3"));
  EXPECT_THAT(comm["findings"], Contains("Ranks 0-1 wait for rank 2."));
  EXPECT_THAT(comm["findings"], Contains(StartsWith("Rank 2 is behind: 3 calls")));
  EXPECT_THAT(run("").out, HasSubstr("Rank 2 is behind: 3 calls of all ranks entered, where others "
                                     "have entered 4."));
  EXPECT_THAT(run("--calls 2").out, HasSubstr("last calls of rank 1\n  barrier() #3, 0 bytes, "));
}

TEST_F(SkStatus, AnswersWithinTwoSecondsWithAStoppedRank) {
  Job job(ranks("2", {"barrier 1", "1:stop", "barrier 1", "free"}));
  const Json comm = comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"in_call", "stopped"} && all_wait_for(c, 1, {0});
  });
  EXPECT_THAT(says(comm, 1), StartsWith("stopped by a signal; outside calls for "));
  EXPECT_THAT(comm["findings"], Contains("Rank 1 is stopped, and goes on with SIGCONT."));
  // The best of some: the machine has other work, too.
  double best = 60;
  for (int i = 0; i < 10; ++i) best = std::min(best, run("").seconds);
  EXPECT_LT(best, 2.0);
  kill(int(comm["ranks"][1]["pid"]), SIGCONT);
  EXPECT_EQ(job.finish(), 0);
  EXPECT_EQ(records(), 0u);
}

TEST_F(SkStatus, WhoLivesOnSeesWhoIsDead) {
  // Under no launcher that knows: sh waits for nobody.
  setenv("SK_TEST_RANK", SK_STATUS_RANK, 1);
  Job job(
      shell("1",
            "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE; export WORLD_SIZE=2 SK_JOB_ID=x "
            "LOCAL_WORLD_SIZE=2; RANK=1 $SK_TEST_RANK 'barrier 1' kill & "
            "RANK=0 exec $SK_TEST_RANK 'barrier 1' 'say here' pause"));
  const Json comm = comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"outside", "ended"};
  });
  EXPECT_EQ(comm["ranks"][1]["end"]["how"], "unknown");
  EXPECT_THAT(says(comm, 1), StartsWith("dead; was outside calls since "));
  EXPECT_THAT(comm["findings"], Contains("Rank 1 is dead."));
}

TEST_F(SkStatus, AMissingRankIsNamedWhileOthersLookForIt) {
  setenv("SK_TEST_RANK", SK_STATUS_RANK, 1);
  Job job(shell("3", "test $RANK = 1 && exec sleep 1000; exec $SK_TEST_RANK"));
  const Json comm = comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"meeting", "missing", "meeting"};
  });
  EXPECT_EQ(comm["missing"], Json({1}));
  EXPECT_THAT(says(comm, 0), StartsWith("looking for the other ranks for "));
  EXPECT_THAT(comm["findings"], Contains("Rank 1 is not recorded on this host."));
}

TEST_F(SkStatus, ARankWhoseFirstThreadHasEndedLives) {
  Job job(ranks("2", {"barrier 1", "0:say gone", "0:retire", "1:pause"}));
  job.read_output(1);
  const auto first_thread_state = [this] {
    const Json said = json();
    const std::string pid =
        std::to_string(int(said["jobs"][0]["communicators"][0]["ranks"][0]["pid"]));
    return read_file("/proc/" + pid + "/stat").find(") Z ") != std::string::npos;
  };
  ASSERT_TRUE(until(first_thread_state));
  EXPECT_EQ(run("--forget").out, "0 records removed.\n");
  EXPECT_EQ(states(comm_that([](const Json&) { return true; })),
            (std::vector<std::string>{"outside", "outside"}));
}

TEST_F(SkStatus, TwoCommunicatorsAndSeveralJobsAtOnce) {
  Job one(ranks("2", {"barrier 5", "second", "barrier 2", "say there", "pause"}));
  Job two(ranks("2", {"allreduce 7", "say there", "pause"}));
  one.read_output(2);
  two.read_output(2);
  const Json said = json();
  ASSERT_EQ(said["jobs"].size(), 2u) << said.dump(1);
  std::multiset<size_t> counts;
  for (const Json& job : said["jobs"]) counts.insert(job["communicators"].size());
  EXPECT_EQ(counts, (std::multiset<size_t>{1, 2}));
  for (const Json& job : said["jobs"]) {
    const std::string name = job["job"];
    const Json alone = json("--job " + name.substr(0, 12));
    ASSERT_EQ(alone["jobs"].size(), 1u);
    EXPECT_EQ(alone["jobs"][0]["job"], name);
    if (job["communicators"].size() != 2) continue;
    EXPECT_EQ(job["communicators"][0]["name"].get<std::string>() +
                  job["communicators"][1]["name"].get<std::string>(),
              "second");
    for (const Json& comm : job["communicators"])
      EXPECT_EQ(comm["ranks"][1]["calls_entered"], comm["name"] == "second" ? 2 : 5);
  }
  const Outcome none = run("--job nobodys");
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("no job's name begins with \"nobodys\": there is "));
}

TEST_F(SkStatus, WithoutARecordThereIsNone) {
  setenv("SK_RECORD", "0", 1);
  Job job(ranks("2", {"barrier 1", "say there", "pause"}));
  job.read_output(2);
  unsetenv("SK_RECORD");
  EXPECT_EQ(records(), 0u);
}

TEST_F(SkStatus, SixtyFourRanks) {
  Job job(ranks("64", {"barrier 1", "63:stop", "barrier 1", "free"}));
  const Json comm = comm_that([](const Json& c) { return states(c).back() == "stopped"; });
  EXPECT_EQ(comm["ranks"].size(), 64u);
  double best = 60;
  for (int i = 0; i < 5; ++i) best = std::min(best, run("--calls 256").seconds);
  EXPECT_LT(best, 2.0);
  kill(int(comm["ranks"][63]["pid"]), SIGCONT);
  EXPECT_EQ(job.finish(), 0) << job.err;
  EXPECT_EQ(records(), 0u);
}

// Whose processes have other numbers here than in their own PID namespace, where the record says 1
// or some such.
TEST_F(SkStatus, RanksOfAContainerThatSharesMemoryAreFound) {
  const char* const inside = "unshare --pid --fork --mount-proc --kill-child ";
  if (std::system((std::string(inside) + "true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "this user may make no PID namespace";
  Job job(ranks("2", {"barrier 1", "1:kill", "say here", "pause"}), -1,
          {"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"});
  // sk run, which is PID 1 there, ends them all.
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  Json comm = comm_that([](const Json& c) { return c["ranks"][1]["state"] == "ended"; });
  EXPECT_THAT(says(comm, 1), StartsWith("killed by signal 9 (SIGKILL) "));
  run("--forget");

  Job living(ranks("2", {"barrier 1", "1:stop", "say here", "pause"}), -1,
             {"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"});
  living.read_output(1);
  comm = comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"outside", "stopped"};
  });
  const std::string link = "/proc/" + std::to_string(int(comm["ranks"][0]["pid"])) + "/exe";
  EXPECT_EQ(fs::read_symlink(link).filename(), "status_rank");
}

TEST_F(SkStatus, ARankThatRecordsNothingIsNotCalledMissing) {
  Job job(shell("2", "test $RANK = 1 && export SK_RECORD=0; exec " SK_STATUS_RANK
                     " 'barrier 1' 'say here' pause"));
  job.read_output(2);
  const Json comm = comm_that([](const Json& c) { return !c["id"].get<std::string>().empty(); });
  EXPECT_EQ(comm["missing"], Json({1}));
  EXPECT_THAT(says(comm, 1), HasSubstr("not recorded on this host: it has ended well, "));
  EXPECT_THAT(comm["findings"], Contains("Rank 1 is not recorded on this host."));
}

TEST_F(SkStatus, ARankThatHasBecomeAnotherProgramIsNoRankAnyMore) {
  Job job(ranks("2", {"barrier 1", "1:exec sleep 1000", "pause"}));
  const Json comm = comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"outside", "ended"};
  });
  EXPECT_EQ(comm["ranks"][1]["end"], Json({{"how", "replaced"}, {"program", "sleep"}}));
  EXPECT_THAT(says(comm, 1), StartsWith("has become another program, sleep; was outside calls "));
  EXPECT_THAT(comm["findings"], Contains("Rank 1 has become another program."));
}

TEST_F(SkStatus, ARankThatADebuggerHoldsDoesNotGoOnWithSigcont) {
  Job job(ranks("2", {"barrier 1", "say here", "pause"}));
  job.read_output(2);
  const Json before = comm_that([](const Json& c) { return c["ranks"].size() == 2u; });
  const pid_t pid = int(before["ranks"][1]["pid"]);
  if (ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) != 0)
    GTEST_SKIP() << "this user may not trace its processes";
  const Json comm = comm_that([](const Json& c) { return states(c)[1] == "stopped"; });
  EXPECT_EQ(comm["ranks"][1]["stopped_by"], "debugger");
  EXPECT_THAT(says(comm, 1), StartsWith("held by a debugger; outside calls for "));
  EXPECT_THAT(comm["findings"], Contains("Rank 1 is held by a debugger."));
  waitpid(pid, nullptr, __WALL);
  ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
}

// As those of a container that is paused.
TEST_F(SkStatus, ARankWhoseControlGroupIsFrozenIsStopped) {
  std::string group, freeze = "/freezer.state", freezes = "FROZEN", thaws = "THAWED";
  for (const std::string root :
       {"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    std::error_code none;
    if (!fs::exists(root + "/cgroup.procs")) continue;
    group = root + "/sk-status-test-" + std::to_string(getpid());
    if (fs::create_directory(group, none) && !none) break;
    group.clear();
  }
  if (group.empty()) GTEST_SKIP() << "this user may make no control group";
  if (!fs::exists(group + freeze)) freeze = "/cgroup.freeze", freezes = "1", thaws = "0";
  {
    Job job(ranks("2", {"barrier 1", "say here", "pause"}));
    job.read_output(2);
    const Json before = comm_that([](const Json& c) { return c["ranks"].size() == 2u; });
    std::ofstream(group + "/cgroup.procs") << int(before["ranks"][1]["pid"]);
    std::ofstream(group + freeze) << freezes;
    const Json comm = comm_that([](const Json& c) { return states(c)[1] == "stopped"; });
    EXPECT_EQ(comm["ranks"][1]["stopped_by"], "frozen");
    EXPECT_THAT(says(comm, 1), StartsWith("frozen with its control group; outside calls for "));
    EXPECT_THAT(comm["findings"], Contains(StartsWith("Rank 1 is frozen, and goes on when ")));
    std::ofstream(group + freeze) << thaws;
  }
  EXPECT_TRUE(until([&] { return rmdir(group.c_str()) == 0; }));
}

TEST_F(SkStatus, RanksThatDifferInACallAreNamedWhileTheyWaitForOthers) {
  Job job(ranks("3", {"barrier 1", "2:pause", "1:barrier 1", "allreduce 5"}));
  const Json comm = comm_that([](const Json& c) { return all_wait_for(c, 2, {0, 1}); });
  EXPECT_THAT(
      comm["findings"],
      Contains("Ranks differ in call #2: rank 0 in allreduce(f32, max, 5, in place), rank 1 "
               "in barrier()."));
}

}  // namespace
}  // namespace sk::testing_support
