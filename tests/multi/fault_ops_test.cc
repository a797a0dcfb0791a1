// Every operation through communicator and executor while puts, posts and entries are held back,
// cut into pieces and delivered in random order: results equal the oracle's, bit for bit.
//
// SK_TEST_SEED=N replays cases and faults; how threads interleave is the machine's.
#include <gtest/gtest.h>

#include <vector>

#include "tests/multi/fault_backend.h"
#include "tests/multi/op_case.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

struct Unkind {
  const char* name;
  int ranks;
  FaultConfig faults;
};

void PrintTo(const Unkind& unkind, std::ostream* out) { *out << unkind.name; }

class FaultOps : public testing::TestWithParam<Unkind> {};

TEST_P(FaultOps, EqualTheOracleInWhateverOrder) {
  Row row;
  row.ranks = GetParam().ranks;
  row.cases = row.ranks <= 4 ? 120 : row.ranks <= 8 ? 60 : 20;
  row.seed = base_seed();
  row.workers = int(1 + row.seed % 2);
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(row.seed));
  FaultConfig faults = GetParam().faults;
  faults.seed = row.seed + 1;
  const std::shared_ptr<FaultNetwork> network = make_fault_network(faults);
  use_backend(network);
  const std::string wrong = run_threads(row);
  use_backend(nullptr);
  ASSERT_EQ(wrong, "");
  // Else the network was kind, and nothing is shown.
  EXPECT_GT(network->overtaken(), uint64_t(row.cases / 10));
  RecordProperty("overtaken", std::to_string(network->overtaken()));
}

// Rank 1 enters a barrier, then sends; often the second entry comes first, and the other long after
// rank 0 has begun to look whether the ranks wait for each other in different calls. They do not.
TEST(FaultEntry, AnEntryThatIsOvertakenIsNoMismatch) {
  use_backend(make_fault_network(
      {.seed = base_seed(), .hold_percent = 100, .passed_over_max = 1000, .drives_in_vain = 100}));
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    for (int64_t i = 0; i < 12; ++i) {
      int64_t value = rank == 1 ? i : -1;
      ASSERT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
      ASSERT_EQ(rank == 1 ? sk_send(comm, &value, 1, SK_I64, 0, nullptr)
                          : sk_recv(comm, &value, 1, SK_I64, 1, nullptr),
                SK_OK)
          << sk_last_error();
      EXPECT_EQ(value, i);
    }
  });
  use_backend(nullptr);
}

constexpr FaultConfig kMild = {};
constexpr FaultConfig kNarrow = {.put_bytes_max = 1000};  // Planners cut what they put.
constexpr FaultConfig kHarsh = {.hold_percent = 100, .held_max = 256, .passed_over_max = 64};

INSTANTIATE_TEST_SUITE_P(All, FaultOps,
                         testing::Values(Unkind{"two", 2, kMild}, Unkind{"two_harsh", 2, kHarsh},
                                         Unkind{"three", 3, kMild},
                                         Unkind{"three_narrow", 3, kNarrow},
                                         Unkind{"four_harsh", 4, kHarsh}, Unkind{"five", 5, kMild},
                                         Unkind{"eight_harsh", 8, kHarsh},
                                         Unkind{"sixteen", 16, kMild}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sk::testing_ops
