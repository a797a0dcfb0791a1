// Golden plans: what planners make of a few operations, as text. SK_UPDATE=1 rewrites the files;
// the diff is for the reviewer's eyes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lib/algo/planner.h"
#include "lib/op/ops/adamw.h"
#include "lib/op/ops/rmsnorm.h"
#include "lib/op/values.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"

namespace sk {
namespace {

struct Golden {
  const char* name;
  OpDesc op;
  Target target;
};

OpDesc words(const TextOp& op) { return testing_support::op_desc(op); }

// Rows of 900 elements, 1000 apart.
OpDesc rows(const Schema& schema, int64_t m) {
  OpDesc op(schema);
  op.set(schema.field("m"), m);
  op.set(schema.field("n"), 900);
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (const Field stride = schema.stride_field(i)) op.set(stride, 1000);
  }
  if (const Field eps = schema.field("eps")) op.set(eps, bits_of(1e-5));
  return op;
}

std::vector<Golden> goldens() {
  std::vector<Golden> out;
  Target two{.world_size = 2}, puts{.world_size = 3, .mapped = false, .chunk_bytes = 64};
  puts.slot_count = 2;
  out.push_back({"barrier-3-ranks", words({}), {.world_size = 3}});
  TextOp op{.kind = OpKind::kAllreduce, .count = 100};
  out.push_back({"allreduce-puts-3-ranks", words(op), puts});
  Target small = two;
  small.one_shot_bytes = 1024;
  out.push_back({"allreduce-one-shot-2-ranks", words(op), small});
  Target pair{.world_size = 2, .chunk_bytes = 128, .slot_count = 2};
  out.push_back({"allreduce-exchange-2-ranks", words(op), pair});
  out.push_back({"allreduce-staged-3-ranks", words(op), {.world_size = 3}});
  op.symmetric_in = op.symmetric_out = true;
  out.push_back({"allreduce-direct-2-ranks", words(op), two});
  // As on a GPU: queues share out what there is, in turns.
  Target turns{.world_size = 2, .workers = 2};
  turns.queue_bytes_min = turns.turn_bytes = 64;
  op.count = 150;
  out.push_back({"allreduce-turns-2-ranks", words(op), turns});
  TextOp follow{.kind = OpKind::kBroadcast, .symmetric_out = true, .root = 1, .count = 300};
  out.push_back({"broadcast-pieces-2-ranks", words(follow), turns});
  TextOp gather{.kind = OpKind::kAllgather, .count = 40};
  out.push_back({"allgather-puts-3-ranks", words(gather), puts});
  TextOp scatter{.kind = OpKind::kReduceScatter, .in_place = true, .count = 40};
  out.push_back({"reduce-scatter-in-place-puts-3-ranks", words(scatter), puts});
  TextOp send{.kind = OpKind::kSendRecv, .root = 2, .peer = 0, .count = 90};
  out.push_back({"send-recv-puts-3-ranks", words(send), puts});
  TextOp gemm{.kind = OpKind::kAllreduceGemm, .symmetric_out = true, .m = 40, .n = 24, .k = 8};
  gemm.lda = 8;
  gemm.ldc = 24;
  Target tiles{
      .world_size = 2, .workers = 2, .tile_m = 16, .tile_n = 16, .packed_bytes = 24 * 8 * 4};
  out.push_back({"allreduce-gemm-direct-2-ranks", words(gemm), tiles});
  gemm.symmetric_out = false;
  Target putting = tiles;
  putting.mapped = false;
  out.push_back({"allreduce-gemm-puts-of-2-workers", words(gemm), putting});
  // As on a GPU: each queue packs some columns, of k elements and a gap each.
  TextOp packs{.kind = OpKind::kAllreduceGemm, .dtype = DType::kBF16, .out_dtype = DType::kF32};
  packs.symmetric_out = packs.pack_b = true;
  packs.m = 40;
  packs.n = packs.ldb = packs.ldc = 72;
  packs.k = packs.lda = 10;
  Target queues{.world_size = 2, .workers = 3, .tile_m = 16, .tile_n = 32};
  queues.packed_pitch = 32;
  queues.packed_bytes = 72 * queues.packed_pitch;
  out.push_back({"allreduce-gemm-packed-by-all-2-ranks", words(packs), queues});
  // Or where all read B as it lies, [k, n] here.
  Target raw = queues;
  raw.raw_b = true;
  out.push_back({"allreduce-gemm-raw-2-ranks", words(packs), raw});
  TextOp gathers{.kind = OpKind::kAllgatherGemm, .m = 40, .n = 24, .k = 8};
  gathers.lda = 10;
  gathers.ldc = 24;
  out.push_back({"allgather-gemm-staged-2-ranks", words(gathers), tiles});
  gathers.symmetric_in = true;
  out.push_back({"allgather-gemm-direct-2-ranks", words(gathers), tiles});
  Target inboxes{.world_size = 3, .mapped = false, .tile_m = 16, .tile_n = 24};
  inboxes.packed_bytes = tiles.packed_bytes;
  inboxes.put_bytes_max = 256;
  out.push_back({"allgather-gemm-puts-3-ranks", words(gathers), inboxes});
  const Target workers{.world_size = 1, .workers = 2};
  OpDesc norm = rows(ops::kRmsnorm, 130);
  norm.set(OpDesc::aliased_field(1), 1);
  out.push_back({"../cpu_plans/rmsnorm-in-place-2-workers", norm, workers});
  out.push_back(
      {"../cpu_plans/rmsnorm-backward-2-workers", rows(ops::kRmsnormBackward, 130), workers});
  OpDesc step(ops::kAdamw);
  step.set(ops::kAdamw.field("n"), 20'000);
  step.set(ops::kAdamw.field("beta2"), bits_of(0.999));
  out.push_back({"../cpu_plans/adamw-2-workers", step, workers});
  return out;
}

TEST(GoldenPlans, AreWhatPlannersMake) {
  const bool update = std::getenv("SK_UPDATE") != nullptr;
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.name);
    const std::string path = fmt::format("{}/{}.plan", SK_GOLDEN_PLANS, golden.name);
    Result<Plan> plan = make_plan(golden.op, golden.target);
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
