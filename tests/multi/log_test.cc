// What is logged, to whom, and how little of it costs anything: through the C ABI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"

namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Lines {
  std::mutex mutex;
  std::vector<std::string> all;

  static void take(void* user, int32_t level, const char* component, const char* message) {
    auto* lines = static_cast<Lines*>(user);
    const std::lock_guard lock(lines->mutex);
    lines->all.push_back(std::to_string(level) + " " + component + ": " + message);
  }
  std::vector<std::string> now() {
    const std::lock_guard lock(mutex);
    return all;
  }
};

sk_context* context_with(int32_t level, sk_log_fn log, void* user) {
  sk_config config{};
  config.struct_size = sizeof config;
  config.log_level = level;
  config.log = log;
  config.log_user = user;
  sk_context* context = nullptr;
  EXPECT_EQ(sk_init(&config, &context), SK_OK) << sk_last_error();
  return context;
}

using Body = std::function<void(sk_comm*, int rank)>;

void two_ranks(sk_context* context, int64_t timeout_ms, const Body& body) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      sk_comm_config config{};
      config.struct_size = sizeof config;
      config.bootstrap = SK_BOOTSTRAP_THREADS;
      config.name = "log";
      config.rank = rank;
      config.world_size = 2;
      config.timeout_ms = timeout_ms;
      config.symmetric_bytes_max = 1 << 20;
      sk_comm* comm = nullptr;
      ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
      body(comm, rank);
      EXPECT_EQ(sk_comm_free(comm), SK_OK);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

sk_status sum(sk_comm* comm, int64_t count = 64) {
  std::vector<float> x(1024, 1.0f);
  return sk_allreduce(comm, x.data(), x.data(), count, SK_F32, SK_SUM, nullptr);
}

TEST(Log, InfoSaysWhoMetOnWhatAndWhichPlansRunWhy) {
  Lines lines;
  sk_context* context = context_with(SK_LOG_INFO, &Lines::take, &lines);
  two_ranks(context, 60'000, [](sk_comm* comm, int) { ASSERT_EQ(sum(comm), SK_OK); });
  EXPECT_EQ(sk_finalize(context), SK_OK);
  const std::vector<std::string> all = lines.now();
  EXPECT_THAT(all, Contains(HasSubstr("1 context: libsk 0.1.0 in process ")));
  for (const char* rank : {"1 comm: rank 0 of 2: ", "1 comm: rank 1 of 2: "}) {
    const std::string who = rank;
    EXPECT_THAT(all, Contains(HasSubstr(who + "met through threads of this process as \"log\"; "
                                              "hosts: 0-1; local rank ")));
    EXPECT_THAT(all, Contains(HasSubstr(who + "target: ")));
    EXPECT_THAT(all, Contains(HasSubstr(who + "transport shm: all peers' memory is mapped; a wait "
                                              "lasts 60000 ms at most")));
    EXPECT_THAT(all, Contains(HasSubstr(who + "plan of allreduce(f32, sum, 64, in place): one-shot:"
                                              " up to ")));
    EXPECT_THAT(all, Contains(HasSubstr(who + "freed after 1 calls")));
  }
  for (const std::string& line : all) EXPECT_EQ(line[0], '1') << line;
}

TEST(Log, ARememberedCallSaysNothing) {
  Lines lines;
  sk_context* context = context_with(SK_LOG_ALL, &Lines::take, &lines);
  size_t after_first = 0, after_all = 0;
  two_ranks(context, 60'000, [&](sk_comm* comm, int rank) {
    ASSERT_EQ(sum(comm), SK_OK);
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK);
    if (rank == 0) after_first = lines.now().size();
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(sum(comm), SK_OK);
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK);
    if (rank == 0) after_all = lines.now().size();
    ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK);
  });
  EXPECT_EQ(sk_finalize(context), SK_OK);
  EXPECT_GT(after_first, 0u);
  EXPECT_EQ(after_all, after_first);
}

TEST(Log, DebugCanBeAskedFor) {
  Lines all, some;
  for (Lines* lines : {&all, &some}) {
    const int32_t level = lines == &all ? int32_t(SK_LOG_ALL) : int32_t(SK_LOG_INFO);
    sk_context* context = context_with(level, &Lines::take, lines);
    two_ranks(context, 60'000, [](sk_comm* comm, int) {
      void* memory = nullptr;
      ASSERT_EQ(sk_alloc(comm, 4096, &memory), SK_OK);
    });
    EXPECT_EQ(sk_finalize(context), SK_OK);
  }
  EXPECT_THAT(all.now(), Contains(HasSubstr("0 comm: rank 1 of 2: sk_alloc(4096)")));
  EXPECT_THAT(some.now(), Not(Contains(HasSubstr("sk_alloc"))));
}

TEST(Log, WarningsSayWhatFailedAndByDefaultNothingElseIsSaid) {
  Lines lines;
  sk_context* context = context_with(0, &Lines::take, &lines);
  two_ranks(context, 60'000, [](sk_comm* comm, int rank) {
    EXPECT_EQ(sum(comm, rank == 0 ? 5 : 6), SK_ERR_DESYNC);
    EXPECT_EQ(sum(comm), SK_OK);
    if (rank == 0) {
      EXPECT_EQ(sk_comm_abort(comm, "enough"), SK_OK);
    }
    while (sum(comm) == SK_OK) {
    }
  });
  std::promise<void> timed_out;
  two_ranks(context, 20, [&](sk_comm* comm, int rank) {
    if (rank == 1) return timed_out.get_future().wait();  // Here, and not in the call.
    EXPECT_EQ(sum(comm), SK_ERR_TIMEOUT);
    timed_out.set_value();
  });
  sk_comm_config alone{};
  alone.struct_size = sizeof alone;
  alone.bootstrap = SK_BOOTSTRAP_THREADS;
  alone.world_size = 2;
  alone.timeout_ms = 5;
  sk_comm* comm = nullptr;
  EXPECT_EQ(sk_comm_create(context, &alone, &comm), SK_ERR_TIMEOUT);
  EXPECT_EQ(sk_finalize(context), SK_OK);
  const std::vector<std::string> all = lines.now();
  for (const char* rank : {"2 comm: rank 0 of 2: ", "2 comm: rank 1 of 2: "})
    EXPECT_THAT(all, Contains(HasSubstr(rank + std::string("SK_ERR_DESYNC: "))));
  EXPECT_THAT(all, Contains(HasSubstr("2 comm: rank 0 of 2: aborts: enough")));
  EXPECT_THAT(all, Contains(HasSubstr("2 comm: rank 1 of 2: over, SK_ERR_ABORTED: ")));
  EXPECT_THAT(all, Contains(HasSubstr("2 comm: rank 0 of 2: over, SK_ERR_TIMEOUT: ")));
  EXPECT_THAT(all, Contains(HasSubstr("2 comm: no communicator came about, SK_ERR_TIMEOUT: ")));
  for (const std::string& line : all) EXPECT_EQ(line[0], '2') << line;
}

TEST(Log, AFunctionThatThrowsEndsNothing) {
  const auto throws = [](void*, int32_t, const char*, const char*) {
    throw std::runtime_error("x");
  };
  sk_context* context = context_with(SK_LOG_ALL, throws, nullptr);
  two_ranks(context, 60'000, [](sk_comm* comm, int) { EXPECT_EQ(sum(comm), SK_OK); });
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

// The lines that `body` leaves on stderr.
std::string stderr_of(const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

void one_call(int32_t level) {
  sk_context* context = context_with(level, nullptr, nullptr);
  two_ranks(context, 60'000, [](sk_comm* comm, int rank) {
    EXPECT_EQ(sum(comm, rank == 0 ? 5 : 6), SK_ERR_DESYNC);
  });
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

TEST(Log, StderrGetsLinesOnlyWhereTheyWereAskedFor) {
  unsetenv("SK_LOG");
  EXPECT_THAT(stderr_of([] { one_call(0); }), IsEmpty());
  const std::string begin = "sk " + std::to_string(getpid()) + " ";
  EXPECT_THAT(stderr_of([] { one_call(SK_LOG_WARN); }),
              HasSubstr(begin + "warn comm: rank 0 of 2: SK_ERR_DESYNC: "));
  setenv("SK_LOG", "info", 1);
  const std::string asked = stderr_of([] { one_call(0); });
  EXPECT_THAT(asked, HasSubstr(begin + "info comm: rank 1 of 2: target: "));
  EXPECT_THAT(asked, HasSubstr(begin + "warn comm: rank 1 of 2: SK_ERR_DESYNC: "));
  EXPECT_THAT(asked, Not(HasSubstr(" debug ")));
  Lines lines;  // Beside the caller's own function, each at its level.
  const std::string both = stderr_of([&] {
    sk_context* context = context_with(SK_LOG_ERROR, &Lines::take, &lines);
    two_ranks(context, 60'000, [](sk_comm* comm, int) { EXPECT_EQ(sum(comm), SK_OK); });
    EXPECT_EQ(sk_finalize(context), SK_OK);
  });
  EXPECT_THAT(both, HasSubstr("plan of allreduce"));
  EXPECT_THAT(lines.now(), IsEmpty());
  setenv("SK_LOG", "loud", 1);
  sk_context* context = nullptr;
  EXPECT_EQ(sk_init(nullptr, &context), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(),
              HasSubstr("SK_LOG is \"loud\", it must be debug, info, warn or error"));
  unsetenv("SK_LOG");
}

TEST(Log, LevelsThatThereAreNotAreRefused) {
  for (const int32_t level : {-2, 4, 1000}) {
    sk_config config{};
    config.struct_size = sizeof config;
    config.log_level = level;
    sk_context* context = nullptr;
    EXPECT_EQ(sk_init(&config, &context), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(), HasSubstr("config.log_level is " + std::to_string(level)));
  }
}

}  // namespace
