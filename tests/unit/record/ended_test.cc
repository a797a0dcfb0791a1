// What becomes of the records of processes that have ended, and which process a record is of.
#include <sched.h>
#include <signal.h>

#include <chrono>
#include <fstream>

#include "lib/base/process_name.h"
#include "tests/support/until.h"
#include "tests/unit/record/record_fixture.h"

namespace sk::record {
namespace {

TEST_F(Record, SurvivesSigkillAndKnowsExitStatus) {
  EXPECT_EQ(in_child([this] {
              CommRecord record = make(kMeeting);
              record.enter(record.line("barrier", "barrier()"), 0, 1);
              raise(SIGKILL);
            }),
            -SIGKILL);
  ProcessView view = read();
  EXPECT_EQ(view.end, End::kUnknown);
  EXPECT_EQ(view.comms.at(0).calls.at(0).state, CallState::kEntered);
  const auto name = parse_file_name(fs::path(path()).filename());
  ASSERT_TRUE(name);
  EXPECT_EQ(Processes().find(*name).seen, Seen::kEnded);
  fs::remove(path());

  EXPECT_EQ(in_child([this] {
              CommRecord record = make(kMeeting);
              std::exit(3);
            }),
            3);
  view = read();
  EXPECT_EQ(view.end, End::kExited);
  EXPECT_EQ(view.end_code, 3);
}

TEST_F(Record, WhatHasEndedGoesWhenItsTimeHasCome) {
  const auto die = [this] {
    in_child([this] {
      CommRecord record = make(kMeeting);
      raise(SIGKILL);
    });
  };
  die();
  sweep(folder_, 1000);
  EXPECT_EQ(read().end, End::kGone);
  sweep(folder_, 1000);
  EXPECT_EQ(list_records(folder_).size(), 1u);
  EXPECT_TRUE(testing_support::until([this] {
    sweep(folder_, 0);
    return list_records(folder_).empty();
  }));
}

// Nobody can say of them when they ended.
TEST_F(Record, WhatCannotBeToldGoesAMonthAfterItWasMade) {
  const std::string made = folder_ + "/" + file_name(own_process_space(), 1, 1);
  const auto write = [&](const std::string& path, std::chrono::hours ago) {
    std::ofstream(path) << "of another version";
    fs::last_write_time(path, fs::file_time_type::clock::now() - ago);
  };
  write(made, std::chrono::hours(24 * 29));
  sweep(folder_, 0);
  EXPECT_TRUE(fs::exists(made));
  write(made, std::chrono::hours(24 * 31));
  sweep(folder_, 0);
  EXPECT_FALSE(fs::exists(made));
  const std::string own =
      folder_ + "/" +
      file_name(own_process_space(), getpid(), process_start_time(getpid()).value_or(0));
  write(own, std::chrono::hours(24 * 31));
  sweep(folder_, 0);
  EXPECT_TRUE(fs::exists(own)) << "its process lives";
}

// In a container that is started again PIDs are what they were.
TEST_F(Record, AnEarlierProcessOfItsNumberKeepsItsRecord) {
  setenv("SK_RECORD_DIR", folder_.c_str(), 1);
  in_child([this] {
    CommRecord record = make(kMeeting);
    raise(SIGKILL);
  });
  FileName name = *parse_file_name(fs::path(path()).filename());
  const std::string earlier = folder_ + "/" + file_name(name.space, name.pid, 1);
  fs::copy_file(path(), earlier);
  EXPECT_EQ(list_records(folder_).size(), 2u);
  note_end(pid_t(name.pid), End::kExited, 0);
  EXPECT_EQ(path(), earlier);
  note_end(pid_t(name.pid), End::kExited, 0);
  EXPECT_EQ(path(), earlier) << "it began before this process";
  unsetenv("SK_RECORD_DIR");
}

// Numbers of PID namespaces are given anew, too.
TEST_F(Record, AProcessOfAnotherSpaceIsKnownByItsStart) {
  EXPECT_EQ(in_child([] {
              if (unshare(CLONE_NEWPID) != 0) {
                std::puts("this user may make no PID namespace");
                return;
              }
              const pid_t child = fork();  // Process 1 there.
              if (child == 0) {
                pause();
                _exit(0);
              }
              const uint64_t space = process_space_of(child);
              const uint64_t start = process_start_time(child).value_or(0);
              EXPECT_NE(space, own_process_space());
              Processes processes;
              const SeenProcess seen = processes.find({space, 1, start});
              EXPECT_EQ(seen.seen, Seen::kAlive);
              EXPECT_EQ(seen.pid, child);
              EXPECT_EQ(processes.find({space, 1, start - 1}).seen, Seen::kEnded);
              EXPECT_EQ(processes.find({space, 2, start}).seen, Seen::kEnded);
              // From the machine's own namespace every other one is seen.
              const bool sees_all = uint32_t(own_process_space()) == 0xEFFFFFFC;
              EXPECT_EQ(processes.find({space ^ 1, 1, start}).seen,
                        sees_all ? Seen::kEnded : Seen::kInvisible);
              EXPECT_EQ(processes.find({0, 1, start}).seen, Seen::kInvisible);
              kill(child, SIGKILL);
              waitpid(child, nullptr, 0);
            }),
            0);
}

}  // namespace
}  // namespace sk::record
