// Ranks that disagree over a network that holds entries back and lets later ones overtake: what
// they tell each other of their calls crosses in entries as well, between calls that agree, among
// all ranks and between two, and both lanes go on behind it.
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/multi/fault_backend.h"
#include "tests/multi/op_case.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

struct World {
  const char* name;
  int ranks;
  bool kind;  // Plain shared memory.
  FaultConfig faults;
  int ranks_per_host = 0;  // Else over TCP.
};

void PrintTo(const World& world, std::ostream* out) { *out << world.name; }

// What every rank was told of one call; all must be told the same.
class Sentences {
 public:
  void add(const std::string& sentence) {
    const std::lock_guard lock(mutex_);
    all_.insert(sentence);
  }
  std::set<std::string> all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> all_;
};

class FaultDesync : public testing::TestWithParam<World> {
 protected:
  ~FaultDesync() override { use_backend(nullptr); }
};

TEST_P(FaultDesync, RanksTellEachOtherAndGoOn) {
  constexpr uint64_t kCalls = 80;
  const auto& [name, ranks, kind, faults, ranks_per_host] = GetParam();
  const uint64_t seed = base_seed();
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(seed));
  FaultConfig config = faults;
  config.seed = seed + 1;
  use_backend(kind ? nullptr : make_fault_network(config));
  if (ranks_per_host != 0) use_hosts(ranks_per_host);
  std::array<Sentences, kCalls> told;
  in_thread_ranks(ranks, [&, count = ranks](sk_comm* comm, int rank) {
    for (uint64_t call = 0; call < kCalls; ++call) {
      std::mt19937_64 random(seed * 1000 + call);  // The same on all ranks.
      const bool odd = random() % 2 != 0, pair = random() % 2 != 0;
      const int first = int(random() % uint64_t(count));
      const int second = (first + 1 + int(random() % uint64_t(count - 1))) % count;
      const size_t elements = 3 + random() % 2000;
      std::vector<int64_t> in(elements + 1, rank + 1), out(elements + 1, -1);
      if (!pair) {
        const auto sum = [&](size_t many) {
          return sk_allreduce(comm, in.data(), out.data(), int64_t(many), SK_I64, SK_SUM, nullptr);
        };
        void* memory = nullptr;
        const auto another = [&](uint64_t which) {
          return which == 0   ? sum(elements + 1)
                 : which == 1 ? sk_barrier(comm, nullptr)
                 : which == 2 ? sk_alloc(comm, 4096, &memory)
                              : sk_broadcast(comm, in.data(), out.data(), 3, SK_I64, 1, nullptr);
        };
        const uint64_t which = random() % 4;
        const sk_status status = odd && rank == first ? another(which) : sum(elements);
        ASSERT_EQ(status, odd ? SK_ERR_DESYNC : SK_OK) << call << ": " << sk_last_error();
        if (odd) told[call].add(sk_last_error());
        ASSERT_EQ(out[elements - 1], odd ? -1 : int64_t(count) * (count + 1) / 2) << call;
      } else if (rank == first || rank == second) {
        const size_t mine = elements + (odd && rank == second ? 1 : 0);
        const sk_status status =
            rank == first ? sk_send(comm, in.data(), int64_t(mine), SK_I64, second, nullptr)
                          : sk_recv(comm, out.data(), int64_t(mine), SK_I64, first, nullptr);
        ASSERT_EQ(status, odd ? SK_ERR_DESYNC : SK_OK) << call << ": " << sk_last_error();
        if (odd) told[call].add(sk_last_error());
        const int64_t received = odd || rank == first ? -1 : first + 1;
        ASSERT_EQ(out[elements - 1], received) << call;
      }
    }
  });
  int mismatches = 0;
  for (uint64_t call = 0; call < kCalls; ++call) {
    const std::set<std::string> sentences = told[call].all();
    if (sentences.empty()) continue;
    ++mismatches;
    EXPECT_EQ(sentences.size(), 1u)
        << call << ": " << *sentences.begin() << " / " << *sentences.rbegin();
    EXPECT_NE(sentences.begin()->find("(i64, "), std::string::npos) << *sentences.begin();
  }
  EXPECT_GT(mismatches, 10);
}

constexpr FaultConfig kMild = {};
constexpr FaultConfig kHarsh = {.hold_percent = 100, .held_max = 256, .passed_over_max = 64};

INSTANTIATE_TEST_SUITE_P(
    All, FaultDesync,
    testing::Values(World{"two", 2, true, kMild}, World{"nine", 9, true, kMild},
                    World{"two_harsh", 2, false, kHarsh}, World{"three", 3, false, kMild},
                    World{"five_harsh", 5, false, kHarsh}, World{"three_hosts", 3, true, kMild, 1},
                    World{"hosts_of_two", 6, true, kMild, 2},
                    World{"hosts_of_three_and_one", 4, true, kMild, 3}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sk::testing_ops
