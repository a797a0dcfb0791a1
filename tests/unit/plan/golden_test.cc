// Golden plans: what planners make of a few operations, as text. SK_UPDATE=1 rewrites the files;
// the diff is for the reviewer's eyes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lib/algo/planner.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

struct Golden {
  const char* name;
  TextOp op;
  Target target;
};

std::vector<Golden> goldens() {
  std::vector<Golden> out;
  Target two{.world_size = 2}, puts{.world_size = 3, .mapped = false, .chunk_bytes = 64};
  puts.slot_count = 2;
  out.push_back({"barrier-3-ranks", {}, {.world_size = 3}});
  TextOp op{.kind = OpKind::kAllreduce, .count = 100};
  out.push_back({"allreduce-puts-3-ranks", op, puts});
  Target small = two;
  small.one_shot_bytes = 1024;
  out.push_back({"allreduce-one-shot-2-ranks", op, small});
  Target pair{.world_size = 2, .chunk_bytes = 128, .slot_count = 2};
  out.push_back({"allreduce-exchange-2-ranks", op, pair});
  out.push_back({"allreduce-staged-3-ranks", op, {.world_size = 3}});
  op.symmetric_in = op.symmetric_out = true;
  out.push_back({"allreduce-direct-2-ranks", op, two});
  TextOp gather{.kind = OpKind::kAllgather, .count = 40};
  out.push_back({"allgather-puts-3-ranks", gather, puts});
  TextOp scatter{.kind = OpKind::kReduceScatter, .in_place = true, .count = 40};
  out.push_back({"reduce-scatter-in-place-puts-3-ranks", scatter, puts});
  TextOp send{.kind = OpKind::kSendRecv, .root = 2, .peer = 0, .count = 90};
  out.push_back({"send-recv-puts-3-ranks", send, puts});
  TextOp gemm{.kind = OpKind::kAllreduceGemm, .symmetric_out = true, .m = 40, .n = 24, .k = 8};
  gemm.lda = 8;
  gemm.ldc = 24;
  Target tiles{
      .world_size = 2, .workers = 2, .tile_m = 16, .tile_n = 16, .packed_bytes = 24 * 8 * 4};
  out.push_back({"allreduce-gemm-direct-2-ranks", gemm, tiles});
  // As on a GPU: each queue packs some columns, of k elements and a gap each.
  TextOp packs{.kind = OpKind::kAllreduceGemm, .dtype = DType::kBF16, .out_dtype = DType::kF32};
  packs.symmetric_out = packs.pack_b = true;
  packs.m = 40;
  packs.n = packs.ldb = packs.ldc = 72;
  packs.k = packs.lda = 10;
  Target queues{.world_size = 2, .workers = 3, .tile_m = 16, .tile_n = 32};
  queues.packed_pitch = 32;
  queues.packed_bytes = 72 * queues.packed_pitch;
  out.push_back({"allreduce-gemm-packed-by-all-2-ranks", packs, queues});
  TextOp gathers{.kind = OpKind::kAllgatherGemm, .m = 40, .n = 24, .k = 8};
  gathers.lda = 10;
  gathers.ldc = 24;
  out.push_back({"allgather-gemm-staged-2-ranks", gathers, tiles});
  gathers.symmetric_in = true;
  out.push_back({"allgather-gemm-direct-2-ranks", gathers, tiles});
  Target inboxes{.world_size = 3, .mapped = false, .tile_m = 16, .tile_n = 24};
  inboxes.packed_bytes = tiles.packed_bytes;
  inboxes.put_bytes_max = 256;
  out.push_back({"allgather-gemm-puts-3-ranks", gathers, inboxes});
  return out;
}

TEST(GoldenPlans, AreWhatPlannersMake) {
  const bool update = std::getenv("SK_UPDATE") != nullptr;
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.name);
    const std::string path = fmt::format("{}/{}.plan", SK_GOLDEN_PLANS, golden.name);
    Result<Plan> plan = make_plan(testing_support::op_desc(golden.op), golden.target);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    const std::string text = dump(plan.value());
    if (update) {
      std::ofstream(path) << text;
      continue;
    }
    std::stringstream file;
    file << std::ifstream(path).rdbuf();
    EXPECT_EQ(text, file.str()) << "SK_UPDATE=1 rewrites " << path;
    Result<Plan> back = parse(file.str());
    ASSERT_TRUE(back.ok()) << back.status().message();
    const Status status = validate(back.value());
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

}  // namespace
}  // namespace sk
