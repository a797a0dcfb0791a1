// `sk run` from outside: what ranks are told, how a job ends, and that nothing is left of it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/multi/sk_run_job.h"

namespace {

using namespace sk::testing_support;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(SkRun, GivesTheWholeEnvironmentContract) {
  Job job(shell("3",
                "echo $(env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|"
                "GROUP_RANK|ROLE_RANK|ROLE_WORLD_SIZE|MASTER_ADDR|TORCHELASTIC_RESTART_COUNT|"
                "TORCHELASTIC_MAX_RESTARTS|JAX_PROCESS_ID|JAX_NUM_PROCESSES)=' | sort)"));
  EXPECT_EQ(job.finish(), 0) << job.err;
  const auto lines = lines_of(job.out);
  std::set<std::string> expected;
  for (const std::string r : {"0", "1", "2"}) {
    expected.insert("GROUP_RANK=0 JAX_NUM_PROCESSES=3 JAX_PROCESS_ID=" + r + " LOCAL_RANK=" + r +
                    " LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 RANK=" + r + " ROLE_RANK=" + r +
                    " ROLE_WORLD_SIZE=3 TORCHELASTIC_MAX_RESTARTS=0 TORCHELASTIC_RESTART_COUNT=0" +
                    " WORLD_SIZE=3");
  }
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), expected);
}

TEST(SkRun, RanksShareTheirPortsJobAndSecret) {
  Job job(shell("3",
                "echo $MASTER_PORT $SK_MASTER_PORT $JAX_COORDINATOR_ADDRESS "
                "$TORCHELASTIC_RUN_ID $(cat /proc/self/fd/${SK_JOB_SECRET_FD%%:*})"));
  EXPECT_EQ(job.finish(), 0) << job.err;
  const auto lines = lines_of(job.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_EQ(lines[0], lines[2]);
  EXPECT_THAT(lines[0],
              ContainsRegex("^[0-9]+ [0-9]+ 127.0.0.1:[0-9]+ [0-9a-f]{16} [0-9a-f]{64}$"));
  Job again(shell("1", "echo $TORCHELASTIC_RUN_ID $(cat /proc/self/fd/${SK_JOB_SECRET_FD%%:*})"));
  EXPECT_EQ(again.finish(), 0);
  EXPECT_THAT(lines[0], testing::Not(HasSubstr(lines_of(again.out).at(0))));
}

// Of bash, which the words are for: dash knows descriptors up to 9 only.
std::vector<std::string> bash(const std::string& n, const std::string& script) {
  return {"-n", n, "--timeout", "60", "bash", "-c", "fd=${SK_JOB_SECRET_FD%%:*}; " + script};
}

const char kProbe[] = "exec " SK_RANK_PROBE " 1 ";

// As Python's subprocess starts a program, and as torchrun starts its ranks.
TEST(SkRun, RanksWithoutTheSecretsDescriptorMeet) {
  for (const char* which : {"0", "1", "$RANK"}) {
    Job job(bash("2", "if [ $RANK = " + std::string(which) + " ]; then eval \"exec $fd<&-\"; fi; " +
                          kProbe));
    EXPECT_EQ(job.finish(), 0) << job.err;
  }
}

// Method: a file of the program has the number; what the rank starts after it has met inherits it.
TEST(SkRun, AProgramsFileIsNotTakenForTheSecret) {
  Job job(bash("2", "eval \"exec $fd</usr/bin/env\"; export fd; " + std::string(kProbe) +
                        "'[ /dev/fd/$fd -ef /usr/bin/env ]'"));
  EXPECT_EQ(job.finish(), 0) << job.err;
}

TEST(SkRun, AJobWithinAJobHasASecret) {
  const std::string inner = std::string(SK_PROGRAM) +
                            " run -n 1 bash -c 'cat /dev/fd/${SK_JOB_SECRET_FD%%:*}; echo; " +
                            kProbe + "'";
  Job with(bash("1", "cat /dev/fd/$fd; echo; " + inner));
  EXPECT_EQ(with.finish(), 0) << with.err;
  const auto handed_on = lines_of(with.out);
  ASSERT_EQ(handed_on.size(), 3u);
  EXPECT_EQ(handed_on[0], handed_on[1]);
  for (const char* instead : {"&-", "/usr/bin/env"}) {
    Job without(bash("1", "eval \"exec $fd<" + std::string(instead) + "\"; " + inner));
    EXPECT_EQ(without.finish(), 0) << without.err;
    EXPECT_THAT(without.out, ContainsRegex("^[0-9a-f]{64}\n0/1 on 0/1: 0\n$"));
  }
}

TEST(SkRun, WorkersAndTheCallersOwnVariablesPass) {
  setenv("SK_RUN_TEST_OWN", "kept", 1);
  setenv("RANK", "17", 1);
  Job job(
      {"-n", "1", "--workers", "3", "--", "sh", "-c", "echo $SK_WORKERS $SK_RUN_TEST_OWN $RANK"});
  EXPECT_EQ(job.finish(), 0) << job.err;
  EXPECT_EQ(job.out, "3 kept 0\n");
  unsetenv("SK_RUN_TEST_OWN");
  unsetenv("RANK");
}

TEST(SkRun, RanksFindEachOtherAgainAndAgain) {
  Job job({"-n", "4", "--timeout", "60", SK_RANK_PROBE, "5"});
  EXPECT_EQ(job.finish(), 0) << job.err;
  const auto lines = lines_of(job.out);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()),
            (std::set<std::string>{"0/4 on 0/4: 0123", "1/4 on 1/4: 0123", "2/4 on 2/4: 0123",
                                   "3/4 on 3/4: 0123"}));
}

// Of an mpirun around it, or of a rank that starts a job of its own.
TEST(SkRun, ItsRanksAreNoOtherLaunchers) {
  const std::pair<const char*, const char*> outer[] = {{"OMPI_COMM_WORLD_RANK", "0"},
                                                       {"OMPI_COMM_WORLD_SIZE", "1"},
                                                       {"PMI_RANK", "3"},
                                                       {"PMI_SIZE", "5"},
                                                       {"PMIX_RANK", "0"},
                                                       {"SK_BOOTSTRAP", "single"},
                                                       {"SK_JOB_ID", "outer"}};
  for (const auto& [name, value] : outer) setenv(name, value, 1);
  Job job({"-n", "2", "--timeout", "60", SK_RANK_PROBE});
  EXPECT_EQ(job.finish(), 0) << job.err;
  const auto lines = lines_of(job.out);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()),
            (std::set<std::string>{"0/2 on 0/2: 01", "1/2 on 1/2: 01"}));
  for (const auto& [name, value] : outer) unsetenv(name);
}

TEST(SkRun, WhereItKeepsGoingEachFailureIsNamedAndEndsNobody) {
  std::vector<std::string> arguments =
      shell("3", "if [ $RANK = 1 ]; then exit 7; fi; sleep 0.3; echo $RANK; exit $RANK");
  arguments.insert(arguments.begin(), "--keep-going");
  Job job(arguments);
  EXPECT_EQ(job.finish(), 7);
  EXPECT_THAT(job.err, HasSubstr("rank 1 exited with status 7; the other ranks go on"));
  EXPECT_THAT(job.err, HasSubstr("rank 2 exited with status 2"));
  const auto lines = lines_of(job.out);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), (std::set<std::string>{"0", "2"}));
}

TEST(SkRun, TheFirstFailureIsNamedAndEndsTheOthers) {
  Job job(shell("3", "if [ $RANK = 1 ]; then exit 7; fi; exec sleep 3600"));
  EXPECT_EQ(job.finish(), 7);
  EXPECT_THAT(job.err, HasSubstr("rank 1 exited with status 7; the other ranks were ended"));
}

TEST(SkRun, ASignalIsNamed) {
  Job job(shell("2", "if [ $RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 3600"));
  EXPECT_EQ(job.finish(), 128 + SIGSEGV);
  EXPECT_THAT(job.err, HasSubstr("rank 1 was killed by signal 11 (SIGSEGV)"));
}

// Waits until `pid` has ended and nobody has asked how.
void wait_for_zombie(pid_t pid) {
  const auto give_up = std::chrono::steady_clock::now() + kLong;
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  for (std::string text; text.find(") Z ") == std::string::npos;) {
    std::ifstream file(path);
    std::getline(file, text);
    ASSERT_LT(std::chrono::steady_clock::now(), give_up) << text;
  }
}

// Method: sk run is stopped while its ranks end one after the other, each in its own way, so it
// sees all of that at once.
TEST(SkRun, OfSeveralFailuresTheFirstCounts) {
  const std::vector<int> orders[] = {{2, 0, 1}, {1, 2, 0}, {0, 1, 2}, {2, 1, 0}};
  for (const std::vector<int>& order : orders) {
    Job job(shell("3", "trap 'exit 1$RANK' USR1; echo $RANK $$; while :; do sleep 0.02; done"));
    job.read_output(3);
    std::vector<pid_t> pids(3);
    for (const std::string& line : lines_of(job.out)) {
      pids[size_t(line[0] - '0')] = std::stoi(line.substr(2));
    }
    kill(job.pid(), SIGSTOP);
    for (size_t i = 0; i < order.size(); ++i) {  // The first and the last exit, one is killed.
      const pid_t pid = pids[size_t(order[i])];
      kill(pid, i == 1 ? SIGKILL : SIGUSR1);
      wait_for_zombie(pid);
    }
    kill(job.pid(), SIGCONT);
    EXPECT_EQ(job.finish(), 10 + order[0]);
    EXPECT_THAT(job.err, HasSubstr("rank " + std::to_string(order[0]) + " exited with status"));
  }
}

TEST(SkRun, ASignalThatCameFirstCounts) {
  Job job(shell("3", "trap 'exit 1$RANK' USR1; echo $RANK $$; while :; do sleep 0.02; done"));
  job.read_output(3);
  std::vector<pid_t> pids(3);
  for (const std::string& line : lines_of(job.out)) {
    pids[size_t(line[0] - '0')] = std::stoi(line.substr(2));
  }
  kill(job.pid(), SIGSTOP);
  kill(pids[2], SIGABRT);
  wait_for_zombie(pids[2]);
  kill(pids[0], SIGUSR1);
  wait_for_zombie(pids[0]);
  kill(job.pid(), SIGCONT);
  EXPECT_EQ(job.finish(), 128 + SIGABRT);
  EXPECT_THAT(job.err, HasSubstr("rank 2 was killed by signal 6 (SIGABRT)"));
}

TEST(SkRun, TimeIsBounded) {
  Job job({"-n", "2", "--timeout", "0.2", "sleep", "3600"});
  EXPECT_EQ(job.finish(), 124);
  EXPECT_THAT(job.err, HasSubstr("not done within 0.2 s"));
}

TEST(SkRun, TagsEveryLineAndKeepsLinesWhole) {
  Job job(
      {"-n", "4", "--tag", "sh", "-c",
       ("i=0; while [ $i -lt 500 ]; do echo $RANK-abcdefghijklmnopqrstuvwxyz; i=$((i+1)); done; "
        "echo problem >&2; printf last")});
  EXPECT_EQ(job.finish(), 0);
  std::vector<int> count(4);
  for (const std::string& line : lines_of(job.out)) {
    ASSERT_THAT(line, ContainsRegex("^\\[rank [0-3]\\] (last|[0-3]-abcdefghijklmnopqrstuvwxyz)$"));
    if (line.find("last") == std::string::npos) {
      EXPECT_EQ(line[6], line[9]);
    }
    ++count[size_t(line[6] - '0')];
  }
  EXPECT_EQ(count, std::vector<int>(4, 501));
  EXPECT_EQ(lines_of(job.err).size(), 4u);
}

TEST(SkRun, RankZeroReadsTheInput) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(ends[1], "hello\n", 6), 6);
  close(ends[1]);
  Job job(shell("2", "read line; echo \"$RANK:$line\""), ends[0]);
  close(ends[0]);
  job.finish();
  const auto lines = lines_of(job.out);
  EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()),
            (std::set<std::string>{"0:hello", "1:"}));
}

TEST(SkRun, WrongCommandLinesGetASentence) {
  struct {
    std::vector<std::string> arguments;
    int status;
    const char* sentence;
  } const table[] = {
      {{}, 2, "give -n N"},
      {{"-n"}, 2, "-n needs a value"},
      {{"-n", "0", "true"}, 2, "-n is \"0\": it must be a number from 1 to 4096"},
      {{"-n", "4097", "true"}, 2, "-n is \"4097\""},
      {{"-n", "2x", "true"}, 2, "-n is \"2x\""},
      {{"-n", "2"}, 2, "the program to run is missing"},
      {{"-n", "2", "--"}, 2, "the program to run is missing"},
      {{"-n", "2", "--what", "true"}, 2, "\"--what\" is no option"},
      {{"-n", "2", "--workers", "-1", "true"}, 2, "--workers is \"-1\""},
      {{"-n", "2", "--workers", "257", "true"},  // What each rank would refuse.
       2,
       "--workers is \"257\": it must be a number from 1 to 256"},
      {{"-n", "2", "--timeout", "nan", "true"}, 2, "--timeout is \"nan\""},
      {{"-n", "2", "--timeout", "0", "true"}, 2, "--timeout is \"0\""},
      {{"-n", "2", "/nonexistent/program"}, 127, "cannot run \"/nonexistent/program\""},
      {{"-n", "2", "/etc/passwd"}, 126, "cannot run \"/etc/passwd\""},
  };
  for (const auto& row : table) {
    Job job(row.arguments);
    EXPECT_EQ(job.finish(), row.status) << row.sentence;
    EXPECT_THAT(job.err, HasSubstr(row.sentence));
    EXPECT_EQ(job.out, "");
  }
}

}  // namespace
