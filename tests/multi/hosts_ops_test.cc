// Every operation through communicator and executor over TCP, between ranks that share no host and
// ranks of which some do: results equal the oracle's, bit for bit.
//
// SK_TEST_SEED=N replays cases.
#include <gtest/gtest.h>

#include <string>

#include "tests/multi/fault_backend.h"
#include "tests/multi/op_case.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

struct Hosts {
  const char* name;
  int ranks;
  int ranks_per_host;
};

void PrintTo(const Hosts& hosts, std::ostream* out) { *out << hosts.name; }

class HostsOps : public testing::TestWithParam<Hosts> {};

TEST_P(HostsOps, EqualTheOracle) {
  Row row;
  row.ranks = GetParam().ranks;
  row.cases = row.ranks <= 4 ? 120 : 40;
  row.seed = base_seed();
  row.workers = int(1 + row.seed % 2);
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(row.seed));
  use_hosts(GetParam().ranks_per_host);
  const std::string wrong = run_threads(row);
  use_backend(nullptr);
  ASSERT_EQ(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(All, HostsOps,
                         testing::Values(Hosts{"two_alone", 2, 1}, Hosts{"three_alone", 3, 1},
                                         Hosts{"three_in_pairs", 3, 2}, Hosts{"five_alone", 5, 1},
                                         Hosts{"five_in_pairs", 5, 2}, Hosts{"eight_alone", 8, 1},
                                         Hosts{"eight_in_pairs", 8, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

// Messages so large that they go from host to host, of all operations and types, and next to them
// those that are put whole. Half of the floating ones have other sums in every other order.
Case sized_case(std::mt19937_64& random, int turn, int ranks) {
  const int32_t kinds[] = {SK_OP_ALLREDUCE, SK_OP_REDUCE_SCATTER, SK_OP_ALLREDUCE, SK_OP_BROADCAST,
                           SK_OP_ALLGATHER};
  for (;;) {
    Case c = random_case(random, ranks, /*large=*/false);
    if (c.kind != kinds[turn % 5]) continue;
    const int64_t least = turn % 4 == 3 ? 1 : 200'000;
    c.count = (least + int64_t(random() % uint64_t(least))) /
              (c.kind == SK_OP_REDUCE_SCATTER || c.kind == SK_OP_ALLGATHER ? ranks / 2 : 1);
    return c;
  }
}

class HostsLevels : public testing::TestWithParam<Hosts> {};

TEST_P(HostsLevels, EqualTheOracleAtAllSizes) {
  Row row;
  row.ranks = GetParam().ranks;
  row.cases = 40;
  row.seed = base_seed();
  row.draw = [&](std::mt19937_64& random, int turn) { return sized_case(random, turn, row.ranks); };
  SCOPED_TRACE("replay with SK_TEST_SEED=" + std::to_string(row.seed));
  use_hosts(GetParam().ranks_per_host);
  const std::string wrong = run_threads(row);
  use_backend(nullptr);
  ASSERT_EQ(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(All, HostsLevels,
                         testing::Values(Hosts{"two_alone", 2, 1}, Hosts{"four_in_pairs", 4, 2},
                                         Hosts{"three_and_one", 4, 3},
                                         Hosts{"eight_in_pairs", 8, 2},
                                         Hosts{"eight_in_threes", 8, 3}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sk::testing_ops
