// What of a rank's memory plans take beside the callers' own.
#include <gtest/gtest.h>

#include "lib/algo/planner.h"
#include "lib/op/ops/all.h"

namespace sk {
namespace {

constexpr uint64_t kPage = 4096;  // Slots are whole lines.

// Enough chunks are under way to hide each other, however many ranks a message goes to.
TEST(Workspace, OfWhatOneRankSendsIsSmallBesideIt) {
  constexpr int64_t kBytes = int64_t(1) << 30;
  for (const OpKind kind : {OpKind::kBroadcast, OpKind::kSendRecv}) {
    for (const uint32_t ranks : {2u, 16u, 64u}) {
      for (const bool mapped : {false, true}) {
        VectorCall call;
        call.count = kBytes / 4;
        call.peer = kind == OpKind::kSendRecv ? 1 : 0;
        const OpDesc op = describe(*schema_of(kind), call);
        const Target target{.world_size = ranks, .mapped = mapped};
        for (const uint32_t rank : {0u, 1u}) {
          Result<Plan> plan = make_plan_part(op, target, rank);
          ASSERT_TRUE(plan.ok()) << plan.status().message();
          EXPECT_LE(workspace_bytes(plan.value(), rank, 1), uint64_t(kBytes) / 8 + kPage)
              << describe(op) << " of " << ranks << " ranks";
        }
      }
    }
  }
}

TEST(Workspace, OfAStagedReductionIsSmallBesideIt) {
  constexpr int64_t kBytes = int64_t(1) << 30;
  for (const uint32_t ranks : {3u, 16u, 64u}) {
    VectorCall call;
    call.count = kBytes / 4;
    const OpDesc op = describe(*schema_of(OpKind::kAllreduce), call);
    Result<Plan> plan = make_plan_part(op, {.world_size = ranks}, 0);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_LE(workspace_bytes(plan.value(), 0, 1), uint64_t(kBytes) / 8) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace sk
