// A folder of records of a test's own.
#ifndef SK_TESTS_UNIT_RECORD_RECORD_FIXTURE_H_
#define SK_TESTS_UNIT_RECORD_RECORD_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lib/record/comm_record.h"
#include "lib/record/ended.h"
#include "lib/record/reader.h"

namespace sk::record {

namespace fs = std::filesystem;

inline std::optional<std::string> nothing_set(const char*) { return std::nullopt; }

// A folder of this test's own, gone behind it.
class Record : public testing::Test {
 protected:
  Record() {
    std::string pattern = "/dev/shm/sk-record-test-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    settings_.folder = folder_;
  }
  ~Record() override { fs::remove_all(folder_); }

  CommRecord make(const Meeting& meeting) {
    Result<CommRecord> made = CommRecord::make(settings_, nothing_set, meeting);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  std::string path() const {
    const auto names = list_records(folder_);
    EXPECT_EQ(names.size(), 1u);
    return names.empty() ? "" : folder_ + "/" + names[0];
  }
  ProcessView read() const {
    Result<ProcessView> view = read_record(path());
    EXPECT_TRUE(view.ok()) << view.status().message();
    return view.ok() ? std::move(*view) : ProcessView();
  }
  // Calls `body` in a process of its own: this one's record stays its own. Its exit status, or
  // minus its signal.
  static int in_child(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      std::exit(testing::Test::HasFailure() ? 99 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  Settings settings_;
  std::string folder_;
};

inline const Meeting kMeeting{
    .job = "a job", .launcher = "nobody", .name = "c", .rank = 1, .world_size = 4};

}  // namespace sk::record

#endif  // SK_TESTS_UNIT_RECORD_RECORD_FIXTURE_H_
