// Products of ranks of several hosts, cut as machines cut them: how many tasks that makes, how
// large what is put is, and that the cheap way of the judge knows them to be right. The exact one
// takes seconds for them, or refuses to.
#include <fmt/format.h>

#include <algorithm>

#include "lib/algo/sum_along_hosts.h"
#include "lib/algo/two_level.h"
#include "lib/exec/cpu/executor.h"
#include "lib/plan/check/footprint.h"
#include "lib/plan/check/judge.h"
#include "lib/plan/check/replay.h"
#include "tests/unit/algo/hosts_plans.h"

namespace sk {
namespace {

using namespace testing_support;

using Sizes = std::vector<uint32_t>;

// What passes here the exact way passes, too.
Status judged_cheaply(const Plan& plan) {
  const check::Cast all;
  check::Budget budget;
  check::Footprint footprint(plan, all, budget);
  SK_RETURN_IF_ERROR(footprint.build());
  const effect::Meaning meaning(plan.op, plan.target.world_size);
  check::Judge judge(plan, all, footprint, meaning, budget);
  const check::Observer observer{[&](const check::Where& where) { judge.task(where); },
                                 [&](uint32_t rank) { judge.end(rank); }};
  SK_RETURN_IF_ERROR(check::replay(plan, footprint, observer, check::Telling::kPair, budget));
  return judge.take_status();
}

// As a communicator of such ranks has it, of CPUs without vectors.
Target cut_for(const OpDesc& op, const Sizes& sizes, uint32_t workers) {
  Target target = hosts(sizes);
  target.workers = workers;
  const GemmCall call = gemm_call(op);
  const cpu::GemmTarget cut =
      cpu::gemm_target(call.dtype, call.m, call.n, call.k, algo::tiles_along_hosts(call, target),
                       /*kernel_sets=*/1);
  target.tile_m = cut.tile_m;
  target.tile_n = cut.tile_n;
  target.packed_bytes = cut.packed_bytes;
  return target;
}

struct Sent {
  uint64_t tasks = 0, gemms = 0, least = UINT64_MAX, most = 0;  // Bytes of puts.
};

Sent sent_by(const Plan& plan) {
  Sent sent;
  for (const RankPlan& part : plan.ranks) {
    sent.tasks += part.tasks.size();
    for (const Task& task : part.tasks) {
      if (task.op == TaskOp::kGemm) ++sent.gemms;
      if (task.op != TaskOp::kPut) continue;
      const uint64_t bytes = part.regions_of(task)[0].row_bytes;
      sent.least = std::min(sent.least, bytes);
      sent.most = std::max(sent.most, bytes);
    }
  }
  return sent;
}

void expect_cheap(int64_t m, int64_t n, DType dtype, const Sizes& sizes, uint32_t workers) {
  SCOPED_TRACE(fmt::format("{} x {}, {} hosts, of {} ranks the first, {} workers", m, n,
                           sizes.size(), sizes[0], workers));
  const OpDesc op = product_op(m, n, /*k=*/512 * workers, dtype, dtype);
  const Target target = cut_for(op, sizes, workers);
  const Plan plan = algo::allreduce_gemm_along_hosts(op, target, all_of(target.world_size));
  const Status status = judged_cheaply(plan);
  ASSERT_TRUE(status.ok()) << status.message();
  const Sent sent = sent_by(plan);
  const uint64_t ranks = target.world_size, sums = uint64_t(m) * uint64_t(n) * sizeof(float);
  const uint64_t strands = sizes.size() * *std::ranges::min_element(sizes);
  // Of a tile and of a strand there is one piece at least, and else they are not half empty.
  const uint64_t pieces = sent.gemms / ranks + strands + sums / (128 << 10);
  EXPECT_LE(sent.tasks, sent.gemms + ranks * (16 + 3 * pieces));
  EXPECT_LE(sent.tasks, 100'000u);
  EXPECT_LE(sent.gemms, ranks * std::max<uint64_t>(8 * workers, sums / (512 << 10)));
  // A result has as many bytes as a sum, or half of them; a tenth of a strand may lack.
  EXPECT_GE(sent.least * (sizeof(float) / dtype_bytes(dtype)) * 11,
            std::min<uint64_t>(sums / strands, 256 << 10));
}

TEST(TwoLevelGrid, ProductsOfAnyWorldAndSizeAreJudgedTheCheapWay) {
  const Sizes pairs_of_2(2, 2), pairs_of_4(4, 2), pairs_of_8(8, 2), fours_of_16(16, 4),
      pairs_of_32(32, 2);
  for (const Sizes& sizes :
       {pairs_of_2, pairs_of_4, Sizes{3, 1}, pairs_of_8, fours_of_16, pairs_of_32}) {
    for (const uint32_t workers : {1u, 2u, 8u}) {
      expect_cheap(512, 512, DType::kF32, sizes, workers);
      expect_cheap(1000, 1100, DType::kBF16, sizes, workers);
      expect_cheap(2048, 2048, DType::kBF16, sizes, workers);
    }
    expect_cheap(4096, 6144, DType::kF32, sizes, /*workers=*/2);
    expect_cheap(8192, 8192, DType::kBF16, sizes, /*workers=*/8);
  }
}

// The first queue passes on, sums and takes results: the less there is to multiply, the fewer tiles
// it has.
TEST(TwoLevelGrid, TheFirstQueueHasFewerTilesWhereSumsAreMuchOfTheWork) {
  const auto of_first = [](int64_t k, uint32_t workers) {
    const OpDesc op = product_op(2048, 2048, k);
    const Target target = cut_for(op, Sizes(2, 2), workers);
    const Plan plan = algo::allreduce_gemm_along_hosts(op, target, all_of(4));
    const auto count = [&](const Queue& queue) {
      const std::span tasks(plan.ranks[0].tasks);
      return std::ranges::count(tasks.subspan(queue.first_task, queue.task_count), TaskOp::kGemm,
                                &Task::op);
    };
    const std::vector<Queue>& queues = plan.ranks[0].queues;
    return std::pair(count(queues.front()), count(queues.back()));
  };
  EXPECT_EQ(of_first(16, 1).first, 16);
  EXPECT_EQ(of_first(16, 8).first, 0);
  const auto [some, more] = of_first(1024, 4);
  EXPECT_GT(some, 0);
  EXPECT_LT(some, more);
  const auto [its, others] = of_first(1 << 20, 4);
  EXPECT_EQ(its, others);
}

// What is ready goes on its way while the rest is multiplied, where there is more than one piece.
TEST(TwoLevelGrid, TilesAreMultipliedBehindTheFirstSum) {
  for (const uint32_t workers : {1u, 2u, 4u}) {
    const OpDesc op = product_op(2048, 2048, /*k=*/4096);
    const Target target = cut_for(op, Sizes(2, 2), workers);
    const Plan plan = algo::allreduce_gemm_along_hosts(op, target, all_of(4));
    for (const RankPlan& part : plan.ranks) {
      const auto tasks = std::span(part.tasks).first(part.queues[0].task_count);
      const auto sum = std::ranges::find(tasks, TaskOp::kReduce, &Task::op);
      const auto before = std::ranges::count(tasks.begin(), sum, TaskOp::kGemm, &Task::op);
      const auto all = std::ranges::count(tasks, TaskOp::kGemm, &Task::op);
      EXPECT_LE(4 * before, 3 * all) << "rank " << part.rank << ", " << workers << " workers";
    }
  }
}

// Ends of strands that move to ends of tiles leave each host nearly its share.
TEST(TwoLevelGrid, HostsSendAlikeWhereverTilesEnd) {
  for (const Sizes& sizes : {Sizes{1, 2, 1}, Sizes{2, 1, 1, 1}, Sizes(3, 2), Sizes(4, 2),
                             Sizes(5, 3), Sizes(8, 2), Sizes(3, 4)}) {
    for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{{512, 700},
                                                                       {600, 700},
                                                                       {777, 600},
                                                                       {1000, 1100},
                                                                       {100, 3000},
                                                                       {3001, 257},
                                                                       {2049, 2049}}) {
      for (const uint32_t workers : {1u, 3u, 8u}) {
        const OpDesc op = product_op(m, n, /*k=*/64);
        const Target target = cut_for(op, sizes, workers);
        const Plan plan = algo::allreduce_gemm_along_hosts(op, target, all_of(target.world_size));
        const auto count = double(sizes.size());
        EXPECT_LE(double(sum_of(crossing_of(plan)).bytes_out_max),
                  1.1 * 2 * (count - 1) / count * double(m * n) * sizeof(float))
            << m << " x " << n << ", " << count << " hosts, " << workers << " workers";
      }
    }
  }
}

}  // namespace
}  // namespace sk
