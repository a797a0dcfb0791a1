// `sk status` from outside: ranks that wait, are stopped, killed, missing or well, and what is left
// of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/multi/open_metrics.h"
#include "tests/multi/sk_run_job.h"
#include "tests/support/until.h"

namespace sk::testing_support {
namespace {

using Json = nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

struct Outcome {
  int status = -1;
  std::string out, err;
  double seconds = 0;
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Each test has a folder for records of its own, gone behind it.
class SkStatus : public testing::Test {
 protected:
  SkStatus() {
    std::string pattern = "/dev/shm/sk-status-test-XXXXXX";
    root_ = mkdtemp(pattern.data());
    folder_ = root_ + "/records";
    setenv("SK_RECORD_DIR", folder_.c_str(), 1);
    unsetenv("SK_JOB_ID");
  }
  ~SkStatus() override { fs::remove_all(root_); }

  Outcome run(const std::string& options) const {
    const auto begin = std::chrono::steady_clock::now();
    const std::string command = std::string("timeout 60 " SK_PROGRAM " status ") + options + " >" +
                                root_ + "/out 2>" + root_ + "/err";
    const int status = std::system(command.c_str());
    const auto took = std::chrono::steady_clock::now() - begin;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(root_ + "/out"),
            read_file(root_ + "/err"), std::chrono::duration<double>(took).count()};
  }
  Json json(const std::string& options = "") const {
    const Outcome outcome = run("--json " + options);
    Json said = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(said.is_object()) << outcome.out << outcome.err;
    return said;
  }
  // The first communicator of the first job, once `fits` says so of it.
  Json comm_that(const std::function<bool(const Json&)>& fits) const {
    Json comm, said;
    const bool came = until([&] {
      said = json();
      for (const Json& job : said["jobs"]) {
        for (const Json& each : job["communicators"]) {
          comm = each;
          if (fits(comm)) return true;
        }
      }
      return false;
    });
    EXPECT_TRUE(came) << said.dump(1);
    return comm;
  }
  size_t records() const {
    std::error_code none;
    const fs::directory_iterator all(folder_, none);
    return none ? 0 : size_t(std::distance(begin(all), end(all)));
  }

  std::string root_, folder_;
};

std::vector<std::string> ranks(const std::string& n, std::vector<std::string> steps) {
  steps.insert(steps.begin(), {"-n", n, SK_STATUS_RANK});
  return steps;
}

std::vector<std::string> states(const Json& comm) {
  std::vector<std::string> all;
  for (const Json& rank : comm["ranks"]) all.push_back(rank["state"]);
  return all;
}
bool all_wait_for(const Json& comm, int peer, const std::set<int>& who) {
  std::set<int> waiting;
  for (const Json& rank : comm["ranks"]) {
    if (rank.contains("waits_for") && rank["waits_for"]["rank"] == peer)
      waiting.insert(int(rank["rank"]));
  }
  return waiting == who;
}
std::string says(const Json& comm, size_t rank) { return comm["ranks"][rank]["says"]; }

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

TEST_F(SkStatus, AMissingRankIsNamedWhileOthersLookForIt) {
  setenv("SK_TEST_RANK", SK_STATUS_RANK, 1);
  Job job(shell("3", "test $RANK = 1 && exec sleep 1000; exec $SK_TEST_RANK"));
  const Json comm = comm_that([](const Json& c) {
    return states(c) == std::vector<std::string>{"meeting", "missing", "meeting"};
  });
  EXPECT_EQ(comm["missing"], Json({1}));
  EXPECT_THAT(says(comm, 0), StartsWith("looking for the other ranks for "));
  EXPECT_THAT(comm["findings"], Contains("Rank 1 is missing."));
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

TEST_F(SkStatus, AMeetingThatFailedSaysWhoDidNotCome) {
  setenv("SK_TEST_RANK", SK_STATUS_RANK, 1);
  Job job(
      shell("2", "test $RANK = 1 && exec sleep 1000; SK_TEST_TIMEOUT_MS=500 exec $SK_TEST_RANK"));
  EXPECT_EQ(job.finish(), 9);
  const Json comm = comm_that([](const Json& c) { return states(c)[0] == "ended"; });
  ASSERT_TRUE(comm["ranks"][0].contains("over")) << comm.dump(1);
  EXPECT_THAT(std::string(comm["ranks"][0]["over"]["sentence"]), HasSubstr("rank 1"));
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

TEST_F(SkStatus, MetricsAreOpenMetrics) {
  Job job(
      ranks("2", {"barrier 3", "allreduce 1000", "allreduce 500", "say there", "1:stop", "pause"}));
  job.read_output(2);
  const Outcome outcome = run("--metrics");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  OpenMetrics parsed;
  ASSERT_EQ(parsed.parse(outcome.out), "");
  EXPECT_EQ(parsed.families.at("sk_calls").type, "counter");
  EXPECT_EQ(parsed.families.at("sk_call_bytes").unit, "bytes");
  EXPECT_EQ(parsed.families.at("sk_call_seconds").unit, "seconds");
  const auto value = [&](const std::string& name, const std::string& rank, const std::string& op) {
    double sum = -1;
    for (const auto& sample : parsed.samples) {
      if (sample.name != name || sample.labels.at("rank") != rank) continue;
      if (sample.labels.contains("operation") && sample.labels.at("operation") != op) continue;
      sum = std::max(sum, 0.0) + sample.value;
    }
    return sum;
  };
  for (const char* rank : {"0", "1"}) {
    EXPECT_EQ(value("sk_calls_total", rank, "barrier"), 3);
    EXPECT_EQ(value("sk_calls_total", rank, "allreduce"), 2);
    EXPECT_EQ(value("sk_call_bytes_total", rank, "allreduce"), 6000);
    EXPECT_EQ(value("sk_call_failures_total", rank, "allreduce"), 0);
    EXPECT_GE(value("sk_call_seconds_total", rank, "barrier"), 0);
    EXPECT_EQ(value("sk_rank_state", rank, ""), 1);
  }
}

// The parser of these tests can say no.
TEST(OpenMetricsOfTheTests, RefusesWhatIsNone) {
  for (const char* bad :
       {"", "# EOF", "a 1\n# EOF\n", "# TYPE a counter\na 1\n# EOF\n",
        "# TYPE a counter\na_total{x=\"1} 1\n# EOF\n", "# TYPE a counter\na_total 1\n",
        "# TYPE a counter\n# TYPE a counter\n# EOF\n", "# TYPE a gauge\n\na 1\n# EOF\n",
        "# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n", "# TYPE a gauge\na x\n# EOF\n",
        "# TYPE a gauge\na 1\na 2\n# EOF\n", "# TYPE a counter\na_total -1\n# EOF\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na{x=\"1\"} 1\n# EOF\n"}) {
    OpenMetrics parsed;
    EXPECT_NE(parsed.parse(bad), "") << bad;
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

TEST_F(SkStatus, AWrongCommandLineIsASentence) {
  const struct {
    const char* options;
    const char* sentence;
  } table[] = {{"--nothing", "\"--nothing\" is no option"},
               {"--job", "--job needs a value"},
               {"--job ''", "--job is empty: it must be how a job's name begins"},
               {"--calls 257", "--calls is \"257\": it must be a number from 0 to 256"},
               {"--calls -1", "--calls is \"-1\": it must be a number from 0 to 256"},
               {"--json --metrics", "--json and --metrics do not go together"},
               {"a", "\"a\" is no option"}};
  for (const auto& row : table) {
    const Outcome outcome = run(row.options);
    EXPECT_EQ(outcome.status, 2) << row.options;
    EXPECT_THAT(outcome.err, HasSubstr(row.sentence));
    EXPECT_EQ(outcome.out, "");
  }
  setenv("SK_RECORD_KEEP_S", "long", 1);
  EXPECT_EQ(run("").status, 1);
  EXPECT_THAT(run("").err, HasSubstr("SK_RECORD_KEEP_S is \"long\": it must be a number"));
  unsetenv("SK_RECORD_KEEP_S");
  EXPECT_EQ(run("--help").status, 0);
}

}  // namespace
}  // namespace sk::testing_support
