// What the log says of plans between hosts: their form, what they cost the links, and why they are
// flat where they are.
#include "lib/comm/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/algo/planner.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::op_desc;

std::string explained(const TextOp& op, std::vector<uint32_t> host_of, bool one_level = false) {
  Target target{.world_size = 4, .mapped = false};
  target.host_of = std::move(host_of);
  target.one_level = one_level;
  Result<Plan> plan = make_plan(op_desc(op), target);
  return plan.ok() ? explain(*plan, 0) : plan.status().message();
}

TEST(Explain, SaysWhatCrossesAndWhy) {
  const std::vector<uint32_t> pairs = {0, 0, 2, 2};
  TextOp sum{.kind = OpKind::kAllreduce, .count = 64};
  EXPECT_THAT(explained(sum, pairs),
              HasSubstr("; between 2 hosts in two levels, inputs whole to one rank of each host: "
                        "4 messages, 512 bytes from a host at most; "));
  EXPECT_THAT(explained(sum, {0, 1, 2, 3}), HasSubstr("; between 4 hosts from rank to rank: 24 "));
  EXPECT_THAT(explained(sum, {}), Not(HasSubstr("hosts")));
  sum.count = 1 << 20;
  EXPECT_THAT(explained(sum, pairs), HasSubstr("in two levels, from host to host: "));
  EXPECT_THAT(explained(sum, pairs), HasSubstr(", 4194304 bytes from a host at most; "));
  EXPECT_THAT(explained(sum, pairs), HasSubstr("by puts of 65536 bytes at most, 4 under way: "));
  EXPECT_THAT(explained(sum, pairs, /*one_level=*/true),
              HasSubstr("although ranks share hosts: its plan in two levels was refused: "));
  EXPECT_THAT(explained(sum, {0, 1, 0, 1}),
              HasSubstr("from rank to rank, although ranks share hosts: the ranks of a host do not "
                        "follow one another: "));
  sum.redop = RedOp::kAvg;
  EXPECT_THAT(explained(sum, pairs), HasSubstr("although ranks share hosts: an average is made"));
  EXPECT_THAT(explained({.kind = OpKind::kAllgather, .count = 64}, pairs),
              HasSubstr("in two levels, once to each host: 4 messages, 512 bytes"));
  EXPECT_THAT(explained({}, pairs), Not(HasSubstr("between")));
}

}  // namespace
}  // namespace sk
