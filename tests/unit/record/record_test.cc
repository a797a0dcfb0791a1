// What a communicator writes of itself and what others read of it: whole, torn, and forged.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "lib/base/process_name.h"
#include "lib/record/comm_record.h"
#include "lib/record/ended.h"
#include "lib/record/reader.h"
#include "tests/support/until.h"
#include "tests/unit/record/record_fixture.h"

namespace sk::record {
namespace {

using testing::HasSubstr;
TEST_F(Record, TellsWhatWasCalledAndHowItEnded) {
  const int status = in_child([this] {
    CommRecord record = make(kMeeting);
    EXPECT_EQ(read().comms.at(0).stage, Stage::kMeeting);
    record.stands(77, int(kMeeting.rank), {0, 0, 2, 2}, "tls");
    const uint32_t first = record.line("allreduce", "allreduce(f32, sum, 10)");
    const uint32_t second = record.line("barrier", "barrier()");
    EXPECT_EQ(record.line("allreduce", "allreduce(f32, sum, 10)"), first);
    record.enter(first, 40, 1);
    record.leave(0);
    record.enter(second, 0, 2 | kPairBit);
    record.leave(SK_ERR_TIMEOUT);
    record.enter(first, 40, 3);
    record.awaited()->store(3);

    const ProcessView view = read();
    EXPECT_EQ(view.pid, getpid());
    EXPECT_EQ(view.end, End::kUnknown);
    ASSERT_EQ(view.comms.size(), 1u);
    const CommView& comm = view.comms[0];
    EXPECT_EQ(comm.job, "a job");
    EXPECT_EQ(comm.rank, 1u);
    EXPECT_EQ(comm.comm, 77u);
    EXPECT_EQ(comm.awaited, 2u);
    EXPECT_EQ(comm.here, (std::vector<bool>{true, true, false, false}));
    EXPECT_EQ(comm.far, "tls");
    EXPECT_EQ(comm.torn, 0u);
    ASSERT_EQ(comm.calls.size(), 3u);
    EXPECT_EQ(comm.calls[0].state, CallState::kDone);
    EXPECT_EQ(comm.calls[0].bytes, 40u);
    EXPECT_EQ(comm.calls[1].state, CallState::kFailed);
    EXPECT_TRUE(comm.calls[1].pair);
    EXPECT_EQ(comm.calls[1].seq, 2u);
    EXPECT_EQ(comm.calls[1].code, SK_ERR_TIMEOUT);
    EXPECT_EQ(comm.calls[2].state, CallState::kEntered);
    EXPECT_EQ(comm.calls[2].text, "allreduce(f32, sum, 10)");
    ASSERT_EQ(comm.totals.size(), 2u);
    EXPECT_EQ(comm.totals[0].calls, 1u);
    EXPECT_EQ(comm.totals[0].bytes, 40u);
    EXPECT_EQ(comm.totals[1].failures, 1u);
    EXPECT_EQ(comm.totals[1].bytes, 0u);
  });
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(fs::exists(folder_)) << "a process that ends well leaves neither file nor folder";
}

TEST_F(Record, KeepsTheLastCallsAlone) {
  EXPECT_EQ(in_child([this] {
              CommRecord record = make(kMeeting);
              record.stands(1, int(kMeeting.rank), {0, 0, 0, 0}, "tcp");
              const uint32_t line = record.line("barrier", "barrier()");
              for (uint64_t i = 1; i <= 3 * kCalls + 5; ++i) {
                record.enter(line, 0, i);
                record.leave(0);
              }
              const ProcessView view = read();
              const auto& calls = view.comms.at(0).calls;
              ASSERT_EQ(calls.size(), size_t(kCalls));
              for (size_t i = 0; i < calls.size(); ++i)
                EXPECT_EQ(calls[i].number, 2 * kCalls + 6 + i);
              EXPECT_EQ(view.comms[0].totals.at(0).calls, 3 * kCalls + 5);
            }),
            0);
}

TEST_F(Record, GoesWithTheLastCommunicatorUnlessOneFailed) {
  EXPECT_EQ(in_child([this] {
              CommRecord one = make(kMeeting), two = make(kMeeting);
              one = CommRecord();
              EXPECT_EQ(list_records(folder_).size(), 1u);
              two = CommRecord();
              EXPECT_FALSE(fs::exists(folder_));
              one = make(kMeeting);
              one.over(SK_ERR_TIMEOUT, "rank 2 did not come");
              one.over(SK_ERR_ABORTED, "the first reason counts");
              one = CommRecord();
              const CommView comm = read().comms.at(0);
              EXPECT_EQ(comm.stage, Stage::kFreed);
              EXPECT_EQ(comm.over_code, SK_ERR_TIMEOUT);
              EXPECT_EQ(comm.over_sentence, "rank 2 did not come");
            }),
            0);
}

// Two communicators; more operations than there are lines; a name that is too long.
TEST_F(Record, IsBounded) {
  EXPECT_EQ(in_child([this] {
              CommRecord one = make(kMeeting);
              Meeting other = kMeeting;
              other.name = std::string(1000, 'n');
              other.job = std::string(1000, 'j');
              CommRecord two = make(other);
              one.stands(1, int(kMeeting.rank), {0, 0, 0, 0}, "tcp");
              two.stands(2, int(kMeeting.rank), {0, 0, 0, 0}, "tcp");
              for (uint32_t i = 0; i < 300; ++i) {
                const std::string kind = "op" + std::to_string(i % 30);
                const uint32_t line = two.line(kind.c_str(), kind + "(" + std::to_string(i) + ")");
                ASSERT_LT(line, kLines);
                two.enter(line, 8, i + 1);
                two.leave(0);
              }
              const ProcessView view = read();
              ASSERT_EQ(view.comms.size(), 2u);
              EXPECT_EQ(view.comms[1].name.size(), 63u);
              uint64_t calls = 0;
              for (const OpTotal& total : view.comms[1].totals) calls += total.calls;
              EXPECT_EQ(calls, 300u);
              // Freed and made anew it takes no more memory.
              const auto bytes = fs::file_size(path());
              for (int i = 0; i < 10; ++i) {
                one = CommRecord();
                one = make(kMeeting);
              }
              EXPECT_EQ(fs::file_size(path()), bytes);
            }),
            0);
}

// A record that its writer was killed in the middle of, wherever that was.
TEST_F(Record, ATornCallIsToldAsTorn) {
  EXPECT_EQ(
      in_child([this] {
        CommRecord record = make(kMeeting);
        record.stands(1, int(kMeeting.rank), {0, 0, 0, 0}, "tcp");
        const uint32_t line = record.line("barrier", "barrier()");
        for (uint64_t i = 1; i <= kCalls + 10; ++i) {
          record.enter(line, 0, i);
          record.leave(0);
        }
        const int fd = open(path().c_str(), O_RDWR);
        const auto place = [](uint64_t number) {
          return off_t(kHeadBytes + offsetof(Area, calls) + number % kCalls * sizeof(CallRecord));
        };
        const auto plant = [&](uint64_t number, uint64_t stamp) {
          EXPECT_EQ(pwrite(fd, &stamp, sizeof(stamp), place(number)), 8);
        };
        plant(kCalls + 11, 0);                      // The next one: its writing had begun.
        plant(50, 7);                               // A number of another place.
        plant(51, uint64_t(51 + kCalls) << 2);      // No state.
        plant(kCalls + 5, (uint64_t(5) << 2) | 2);  // Of a turn before: written over since.
        const uint32_t far_line = 1000;
        EXPECT_EQ(pwrite(fd, &far_line, 4, place(53) + off_t(offsetof(CallRecord, line))), 4);
        close(fd);
        const CommView comm = read().comms.at(0);
        EXPECT_EQ(comm.torn, 5u);
        EXPECT_TRUE(comm.writing);
        EXPECT_EQ(comm.calls.size(), size_t(kCalls) - 5);
        EXPECT_EQ(comm.calls.back().number, kCalls + 10);
      }),
      0);
}

// While a thread writes as fast as it can: no call is ever seen with another's numbers.
TEST_F(Record, AReaderSeesNoMixture) {
  EXPECT_EQ(in_child([this] {
              CommRecord record = make(kMeeting);
              record.stands(1, int(kMeeting.rank), {0, 0, 0, 0}, "tcp");
              const uint32_t line = record.line("barrier", "barrier()");
              std::atomic<bool> stop{false};
              std::thread writer([&] {
                for (uint64_t i = 1; !stop.load(); ++i) {
                  record.enter(line, i * 3, i);
                  record.leave(i % 7 == 0 ? SK_ERR_ABORTED : 0);
                }
              });
              const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
              size_t seen = 0;
              while (std::chrono::steady_clock::now() < end) {
                const ProcessView view = read();
                for (const Call& call : view.comms.at(0).calls) {
                  ++seen;
                  ASSERT_EQ(call.seq, call.number);
                  ASSERT_EQ(call.bytes, call.number * 3);
                  if (call.state == CallState::kEntered) continue;
                  ASSERT_EQ(call.state == CallState::kFailed, call.number % 7 == 0);
                  ASSERT_EQ(call.code, call.number % 7 == 0 ? SK_ERR_ABORTED : 0);
                }
              }
              stop = true;
              writer.join();
              EXPECT_GT(seen, 0u);
            }),
            0);
}

TEST_F(Record, AForkedChildWritesNothingOfItsParents) {
  EXPECT_EQ(in_child([this] {
              CommRecord record = make(kMeeting);
              EXPECT_EQ(in_child([] {}), 0);
              EXPECT_EQ(read().comms.size(), 1u) << "the child has removed its parent's";
              const pid_t child = fork();
              if (child == 0) {
                CommRecord own = make(kMeeting);
                _exit(list_records(folder_).size() == 2 ? 0 : 1);
              }
              int status = 0;
              waitpid(child, &status, 0);
              EXPECT_EQ(status, 0);
            }),
            0);
}

TEST_F(Record, WhatIsNoRecordIsASentence) {
  in_child([this] {
    CommRecord record = make(kMeeting);
    CommRecord other = make(kMeeting);
    raise(SIGKILL);
  });
  const std::string file = path();
  std::string good;
  {
    std::ifstream in(file, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto with = [&](size_t offset, const auto value) {
    std::string bad = good;
    std::memcpy(bad.data() + offset, &value, sizeof(value));
    return bad;
  };
  const struct {
    std::string bytes;
    const char* sentence;
  } table[] = {
      {"", "has 0 bytes: a record has 4096 at least"},
      {good.substr(0, 4095), "has 4095 bytes"},
      {good.substr(0, 4096), "too few for the 2 communicators that it says"},
      {good.substr(0, 50'000), "too few for the 2 communicators"},
      {with(0, uint64_t{1}), "is no flight record"},
      {with(8, uint32_t{99}), "is of version 99: this program reads version 1"},
      {with(12, UINT32_MAX), "says that it has 4294967295 communicators: 256 is the most"},
  };
  for (const auto& row : table) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << row.bytes;
    const auto view = read_record(file);
    ASSERT_FALSE(view.ok()) << row.sentence;
    EXPECT_THAT(view.status().message(), HasSubstr(row.sentence));
  }
  fs::remove(file);
  EXPECT_EQ(read_record(file).status().code(), SK_ERR_PEER_LOST);
  fs::create_directory(file);
  EXPECT_THAT(read_record(file).status().message(), HasSubstr("is no file"));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(read_record(file).status().message(), HasSubstr("is no file"));
  fs::remove(file);
  fs::create_symlink("/etc/passwd", file);
  EXPECT_FALSE(read_record(file).ok());
}

// Whatever bytes there are: an answer, and no number in it that could not be.
TEST_F(Record, AnyBytesAreRead) {
  in_child([this] {
    CommRecord record = make(kMeeting);
    record.stands(5, int(kMeeting.rank), {0, 0, 0, 0}, "tcp");
    const uint32_t line = record.line("barrier", "barrier()");
    for (uint64_t i = 1; i <= 20; ++i) {
      record.enter(line, 0, i);
      record.leave(0);
    }
    raise(SIGKILL);
  });
  const std::string file = path();
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int fd = open(file.c_str(), O_RDWR);
    for (int i = 0; i < 40; ++i) {
      const uint64_t word = random() % 3 == 0 ? UINT64_MAX : random();
      const auto at = off_t(i % 2 == 0 ? 16 + random() % 200 * 8
                                       : kHeadBytes + random() % (kAreaBytes / 8 - 1) * 8);
      ASSERT_EQ(pwrite(fd, &word, 8, at), 8);
    }
    close(fd);
    auto view = read_record(file);
    if (!view.ok()) continue;
    for (const CommView& comm : view->comms) {
      EXPECT_LT(comm.rank, comm.world_size);
      EXPECT_LE(comm.calls.size(), size_t(kCalls));
      for (const Call& call : comm.calls) EXPECT_GE(call.entered_ns, 0);
    }
  }
}

TEST_F(Record, SettingsThatMakeNoSenseAreSentences) {
  const auto read = [](const char* name, const char* value) {
    return read_settings([=](const char* asked) {
             return std::string(asked) == name ? std::optional<std::string>(value) : std::nullopt;
           })
        .status()
        .message();
  };
  EXPECT_EQ(read("SK_RECORD", "2"), "SK_RECORD is \"2\": it must be 0 or 1");
  EXPECT_THAT(read("SK_RECORD_DIR", "here"), HasSubstr("it must be the path of a folder"));
  EXPECT_THAT(read("SK_RECORD_KEEP_S", "-1"), HasSubstr("a number of seconds from 0 to"));
  EXPECT_THAT(read("SK_RECORD_KEEP_S", "1x"), HasSubstr("a number of seconds from 0 to"));
  EXPECT_EQ(read("SK_RECORD_KEEP_S", "0"), "");
}

// A record that cannot be is no reason for anything to fail, and says why.
TEST_F(Record, WithoutAPlaceOrMemoryThereIsNone) {
  const auto why = [this] {
    return CommRecord::make(settings_, nothing_set, kMeeting).status().message();
  };
  EXPECT_EQ(in_child([&] {
              chmod(folder_.c_str(), 0755);
              EXPECT_THAT(why(), HasSubstr("must be a folder of user"));
              chmod(folder_.c_str(), 0700);
              settings_.folder = folder_ + "/a/b";
              EXPECT_THAT(why(), HasSubstr("No such file"));
              settings_.folder = folder_;
              const rlimit small = {4096, 4096};
              setrlimit(RLIMIT_FSIZE, &small);
              EXPECT_THAT(why(), HasSubstr("ulimit -f"));
            }),
            0);
}

}  // namespace
}  // namespace sk::record
