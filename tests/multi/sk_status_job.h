// Ranks and their records, and what `sk status` says of them.
#ifndef SK_TESTS_MULTI_SK_STATUS_JOB_H_
#define SK_TESTS_MULTI_SK_STATUS_JOB_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/multi/sk_run_job.h"
#include "tests/support/until.h"

namespace sk::testing_support {

using Json = nlohmann::json;
namespace fs = std::filesystem;

struct Outcome {
  int status = -1;
  std::string out, err;
  double seconds = 0;
};

inline std::string read_file(const std::string& path) {
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
  // The only record there is.
  std::string record() const {
    EXPECT_EQ(records(), 1u);
    return fs::directory_iterator(folder_)->path();
  }
  // Writes into it what no writer has.
  static void patch(const std::string& path, off_t offset, const auto value) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset);
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
    EXPECT_TRUE(file.good());
  }
  size_t records() const {
    std::error_code none;
    const fs::directory_iterator all(folder_, none);
    return none ? 0 : size_t(std::distance(begin(all), end(all)));
  }

  std::string root_, folder_;
};

// Ranks of one job which no launcher starts. Its name is this process's own: other tests' ranks may
// look for each other at the same time.
inline std::string ranks_of_sh(int world_size, const std::string& job, const std::string& script) {
  const std::string size = std::to_string(world_size);
  setenv("SK_TEST_RANK", SK_STATUS_RANK, 1);
  return "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT "
         "SK_MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT; export WORLD_SIZE=" +
         size + " SK_JOB_ID=" + job + "." + std::to_string(getpid()) + " LOCAL_WORLD_SIZE=" + size +
         "; " + script;
}

inline std::vector<std::string> ranks(const std::string& n, std::vector<std::string> steps) {
  steps.insert(steps.begin(), {"-n", n, SK_STATUS_RANK});
  return steps;
}

inline std::vector<std::string> states(const Json& comm) {
  std::vector<std::string> all;
  for (const Json& rank : comm["ranks"]) all.push_back(rank["state"]);
  return all;
}
inline bool all_wait_for(const Json& comm, int peer, const std::set<int>& who) {
  std::set<int> waiting;
  for (const Json& rank : comm["ranks"]) {
    if (rank.contains("waits_for") && rank["waits_for"]["rank"] == peer)
      waiting.insert(int(rank["rank"]));
  }
  return waiting == who;
}
inline std::string says(const Json& comm, size_t rank) { return comm["ranks"][rank]["says"]; }

}  // namespace sk::testing_support

#endif  // SK_TESTS_MULTI_SK_STATUS_JOB_H_
