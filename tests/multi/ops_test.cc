// Every operation through the C ABI against an independent oracle: fresh random shapes, types and
// roots for each number of ranks from 1 to 16, and each case in every way there is: ranks as
// threads and as processes under `sk run`, memory mapped and puts only, and its plan in the
// reference executor with ready tasks in random order. All must agree with the oracle bit for bit.
#include <gtest/gtest.h>

#include "tests/multi/op_case.h"
#include "tests/multi/op_reference.h"
#include "tests/multi/process_rows.h"

namespace sk::testing_ops {
namespace {

// A sanitized build is some ten times slower and looks for other things.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kFewer = 4;
#else
constexpr int kFewer = 1;
#endif
class Ops : public testing::TestWithParam<int> {};

TEST_P(Ops, EqualTheOracleInEveryWay) {
  Row row;
  row.ranks = GetParam();
  row.cases = (row.ranks <= 4 ? 24 : row.ranks <= 8 ? 12 : 6) / kFewer + 1;
  row.seed = base_seed();
  row.workers = row.ranks <= 4 ? int(1 + row.seed % 3) : 1;
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(row.seed));
  RecordProperty("cases", row.cases);
  ASSERT_EQ(
      run_threads(row, [&](sk_comm* comm,
                           const Case& c) { return differs_in_reference(comm, c, row.ranks); }),
      "");
  ASSERT_EQ(run_processes(row), "") << "processes";
  row.flags = SK_COMM_PUT_ONLY;
  ASSERT_EQ(
      run_threads(row, [&](sk_comm* comm,
                           const Case& c) { return differs_in_reference(comm, c, row.ranks); }),
      "")
      << "puts only";
  ASSERT_EQ(run_processes(row), "") << "processes, puts only";
}

TEST(OpsLarge, EqualTheOracleWithSeveralWorkers) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Row row = {
        .ranks = ranks, .cases = 20 / kFewer, .seed = base_seed(), .workers = 3, .large = true};
    ASSERT_EQ(run_threads(row), "") << "replay with SK_TEST_SEED=" << row.seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Ops, testing::Range(1, kRanksMax + 1),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace sk::testing_ops

int main(int argc, char** argv) {
  if (const int status = sk::testing_ops::rank_main(); status >= 0) return status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
