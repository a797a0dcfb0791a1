// More ranks than tell each other of a call each by each, as threads and as processes: they enter
// along a tree, and whatever one of them does instead is learnt by all.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/support/until.h"
#include "transport/local/link.h"

namespace {

using sk::testing_support::until;

// Rank 0 has eight below it, each of those eight, and the last two ranks are three below rank 0.
constexpr int kRanks = 75;
constexpr int kPlaces[] = {0, 8, 9, 40, 74};  // Root, inner ones, leaves.

enum class Layout { kThreads, kProcesses };
struct World {
  const char* name;
  Layout layout;
  bool put_only;
};
void PrintTo(const World& world, std::ostream* out) { *out << world.name; }

// What ranks know of each other beside the library, also from process to process.
struct Board {
  std::atomic<int> failed;   // Ranks whose body has failed.
  std::atomic<int> looks;    // Of rank 1, while its calls wait.
  std::atomic<int> through;  // Ranks that have been through the first call.
  std::atomic<int> arrived;  // Ranks that have come so far, in whatever sense a test has.
};

void look(void* user) { ++static_cast<Board*>(user)->looks; }

// What went wrong, "" if nothing did.
using Body = std::function<std::string(sk_comm*&, int rank, Board&)>;

std::string run_rank(const World& world, sk_context* context, int rank, Board& board,
                     const Body& body) {
  sk_comm_config config{};
  config.struct_size = sizeof(config);
  if (world.layout == Layout::kThreads) {
    config.bootstrap = SK_BOOTSTRAP_THREADS;
    config.rank = rank;
    config.world_size = kRanks;
  }
  config.timeout_ms = 300'000;
  config.symmetric_bytes_max = 16 << 20;
  config.flags = world.put_only ? SK_COMM_PUT_ONLY : 0;
  if (rank == 1) {
    config.waiting = look;
    config.waiting_user = &board;
  }
  sk_comm* comm = nullptr;
  if (sk_comm_create(context, &config, &comm) != SK_OK) return sk_last_error();
  std::string wrong = body(comm, rank, board);
  if (comm != nullptr && sk_comm_free(comm) != SK_OK && wrong.empty()) wrong = sk_last_error();
  return wrong;
}

void complain(int rank, const std::string& wrong, Board& board) {
  ++board.failed;
  dprintf(STDERR_FILENO, "rank %d: %s\n", rank, wrong.c_str());
}

int run_threads(const World& world, Board& board, const Body& body) {
  sk_context* context = nullptr;
  if (sk_init(nullptr, &context) != SK_OK) return 1;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      if (const std::string wrong = run_rank(world, context, rank, board, body); !wrong.empty())
        complain(rank, wrong, board);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sk_finalize(context) == SK_OK ? 0 : 1;
}

int run_process(const World& world, int rank, int port, Board& board, const Body& body) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("SK_JOB_SECRET", "a secret of this test", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  sk_context* context = nullptr;
  if (sk_init(nullptr, &context) != SK_OK) return 1;
  const std::string wrong = run_rank(world, context, rank, board, body);
  if (!wrong.empty()) complain(rank, wrong, board);
  return sk_finalize(context) == SK_OK ? 0 : 1;
}

pid_t start(const std::function<int()>& body) {
  const pid_t pid = fork();
  EXPECT_GE(pid, 0);
  if (pid == 0) _exit(body());
  return pid;
}

// `dies`: the rank that a signal ends; -1: none. Nothing of the library is called in this process,
// whose children could then not connect.
void run_processes(const World& world, Board& board, const Body& body, int dies) {
  const auto port = sk::local::hold_port(sk::local::HeldFor::kAnyoneAsks);
  ASSERT_TRUE(port.ok()) << port.status().message();
  std::vector<pid_t> processes;
  if (world.layout == Layout::kThreads) {
    processes.push_back(start([&] { return run_threads(world, board, body); }));
  } else {
    for (int rank = 0; rank < kRanks; ++rank) {
      processes.push_back(
          start([&] { return run_process(world, rank, port.value().port, board, body); }));
    }
  }
  for (size_t i = 0; i < processes.size(); ++i) {
    int status = 0;
    ASSERT_EQ(waitpid(processes[i], &status, 0), processes[i]);
    if (int(i) == dies) {
      EXPECT_TRUE(WIFSIGNALED(status)) << "status " << status;
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << i << ": status " << status;
    }
  }
}

void run_world(const World& world, const Body& body, int dies = -1) {
  void* const shared =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& board = *new (shared) Board{};
  run_processes(world, board, body, dies);
  EXPECT_EQ(board.failed, 0);
  munmap(shared, 4096);
}

// "" if a call ended so, and said all of `words`.
std::string expect(sk_status is, sk_status wanted, const std::vector<std::string>& words) {
  const std::string said = is == SK_OK ? "" : sk_last_error();
  std::string wrong;
  if (is != wanted) wrong = std::string("not ") + sk_status_name(wanted);
  for (const std::string& word : words) {
    if (said.find(word) == std::string::npos) wrong += " without '" + word + "'";
  }
  return wrong.empty() ? "" : wrong + ": " + sk_status_name(is) + ": " + said;
}

std::string expect_usable(sk_comm* comm) {
  double in[3] = {1, 2, 3}, out[3] = {};
  const std::string wrong =
      expect(sk_allreduce(comm, in, out, 3, SK_F64, SK_SUM, nullptr), SK_OK, {});
  return wrong.empty() && out[2] != 3.0 * kRanks ? "a wrong sum" : wrong;
}

std::string name(int rank) { return "rank " + std::to_string(rank); }

// A call that ends the communicator would end the one before it at ranks that are still inside.
std::string expect_usable_by_all(sk_comm* comm, Board& board) {
  std::string wrong = expect_usable(comm);
  ++board.through;
  if (!until([&] { return board.through == kRanks; })) return "not all came through the first call";
  return wrong;
}

class LargeEntry : public testing::TestWithParam<World> {};

TEST_P(LargeEntry, WhateverOneRankCallsInsteadAllLearnItAndGoOn) {
  run_world(GetParam(), [](sk_comm*& comm, int rank, Board&) -> std::string {
    for (const int odd : kPlaces) {
      float in[100] = {}, out[100] = {7};
      sk_status status = rank == odd ? sk_broadcast(comm, in, out, 100, SK_F32, 1, nullptr)
                                     : sk_allreduce(comm, in, out, 100, SK_F32, SK_SUM, nullptr);
      const std::string what = name(odd) +
                               " called broadcast(f32, 100, root 1) while the other 74 ranks "
                               "called allreduce(f32, sum, 100)";
      if (auto wrong = expect(status, SK_ERR_DESYNC, {what}); !wrong.empty()) return wrong;
      if (out[0] != 7) return "bytes were moved";
      if (auto wrong = expect_usable(comm); !wrong.empty()) return wrong;
      // One that lacks memory says so instead.
      void* memory = nullptr;
      if (rank == odd) {
        const auto wrong =
            expect(sk_alloc(comm, uint64_t(1) << 40, &memory), SK_ERR_OUT_OF_RANGE, {});
        if (!wrong.empty()) return wrong;
      } else {
        const auto wrong = expect(sk_barrier(comm, nullptr), SK_ERR_NO_MEMORY,
                                  {name(odd) + " has no memory for its alloc, while " + name(rank) +
                                   " called barrier()"});
        if (!wrong.empty()) return wrong;
      }
      if (auto wrong = expect_usable(comm); !wrong.empty()) return wrong;
    }
    return "";
  });
}

// Where peers reach operands each rank tells each where its own are, beside the tree.
TEST_P(LargeEntry, OperandsThatPeersReachAreFound) {
  run_world(GetParam(), [](sk_comm*& comm, int rank, Board&) -> std::string {
    void* memory = nullptr;
    constexpr int64_t kCount = 5000;
    if (sk_alloc(comm, 2 * kCount * sizeof(double), &memory) != SK_OK) return sk_last_error();
    auto* const in = static_cast<double*>(memory);
    double* const out = in + kCount;
    for (int call = 0; call < 4; ++call) {
      for (int64_t i = 0; i < kCount; ++i) in[i] = double(rank + i + call);
      // In different halves in turn, so that an offset of the call before would be seen.
      double* const to = call % 2 == 0 ? out : in;
      if (sk_allreduce(comm, in, to, kCount, SK_F64, SK_SUM, nullptr) != SK_OK)
        return sk_last_error();
      for (int64_t i = 0; i < kCount; ++i) {
        constexpr int64_t kOfRanks = int64_t{kRanks} * (kRanks - 1) / 2;
        if (to[i] != double(kRanks * (i + call) + kOfRanks))
          return "a wrong sum in call " + std::to_string(call);
      }
    }
    return sk_free(comm, memory) == SK_OK ? "" : sk_last_error();
  });
}

// Rank 1 has waited for long by then, and looked after the others again and again.
TEST_P(LargeEntry, ALateRankIsWaitedFor) {
  run_world(GetParam(), [](sk_comm*& comm, int rank, Board& board) -> std::string {
    if (rank == 74 && !until([&] { return board.looks >= 5; })) return "nobody looked";
    if (auto wrong = expect(sk_barrier(comm, nullptr), SK_OK, {}); !wrong.empty()) return wrong;
    return expect_usable(comm);
  });
}

TEST_P(LargeEntry, ARankThatIsTooLateIsNamedByAll) {
  run_world(GetParam(), [](sk_comm*& comm, int rank, Board& board) -> std::string {
    if (rank == 40) {
      if (!until([&] { return board.arrived == kRanks - 1; })) return "not all arrived";
    } else {
      // Else some may not have begun when the first one's time is over.
      ++board.arrived;
    }
    if (auto wrong = expect_usable_by_all(comm, board); !wrong.empty()) return wrong;
    sk_run_options options{};
    options.struct_size = sizeof options;
    options.timeout_ms = rank == 7 ? 500 : 0;
    if (rank == 40 && !until([&] { return board.arrived == 2 * (kRanks - 1); }))
      return "not all gave up";
    std::string wrong = expect(sk_barrier(comm, &options), SK_ERR_TIMEOUT,
                               {"rank 7 waited 0.5 s for rank 40 in barrier()"});
    ++board.arrived;
    return wrong;
  });
}

TEST_P(LargeEntry, WhoHasLeftIsMissedByAll) {
  for (const int leaver : {0, 40}) {
    run_world(GetParam(), [leaver](sk_comm*& comm, int rank, Board& board) -> std::string {
      if (auto wrong = expect_usable_by_all(comm, board); !wrong.empty()) return wrong;
      if (rank == leaver) {
        const sk_status freed = sk_comm_free(comm);
        comm = nullptr;
        ++board.arrived;
        return freed == SK_OK ? "" : sk_last_error();
      }
      if (!until([&] { return board.arrived != 0; })) return "nobody left";
      return expect(sk_barrier(comm, nullptr), SK_ERR_PEER_LOST,
                    {name(leaver) + " has freed the communicator"});
    });
  }
}

// Both are in calls that the other is to come to; they are no neighbours in the tree.
TEST_P(LargeEntry, ACollectiveAndAMessageThatWaitForEachOtherAreNamed) {
  run_world(GetParam(), [](sk_comm*& comm, int rank, Board& board) -> std::string {
    if (auto wrong = expect_usable_by_all(comm, board); !wrong.empty()) return wrong;
    float data[4] = {};
    const sk_status status =
        rank == 3 ? sk_send(comm, data, 4, SK_F32, 70, nullptr) : sk_barrier(comm, nullptr);
    const std::string said = sk_last_error();
    if (status != SK_ERR_DESYNC && status != SK_ERR_ABORTED)
      return sk_status_name(status) + (": " + said);
    const bool named = said.find("rank 3 called send_recv(f32, 4, 3 to 70)") != said.npos &&
                       said.find("rank 70 called barrier()") != said.npos;
    return named ? "" : said;
  });
}

INSTANTIATE_TEST_SUITE_P(All, LargeEntry,
                         testing::Values(World{"threads", Layout::kThreads, false},
                                         World{"threads_by_puts", Layout::kThreads, true},
                                         World{"processes", Layout::kProcesses, false},
                                         World{"processes_by_puts", Layout::kProcesses, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LargeEntry, WhoDiesIsNamedByAll) {
  for (const int victim : {0, 9, 74}) {
    run_world(
        {"processes", Layout::kProcesses, false},
        [victim](sk_comm*& comm, int rank, Board& board) -> std::string {
          if (auto wrong = expect_usable_by_all(comm, board); !wrong.empty()) return wrong;
          if (rank == victim) raise(SIGKILL);
          return expect(sk_barrier(comm, nullptr), SK_ERR_PEER_LOST, {name(victim) + " died"});
        },
        victim);
  }
}

}  // namespace
