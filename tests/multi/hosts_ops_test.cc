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

}  // namespace
}  // namespace sk::testing_ops
