// sk_allreduce_gemm by 2, 4 and 8 ranks of one GPU, beside what it is made of: as many products by
// as many multiprocessors, an all-reduce of their results, and the one behind the other.
#include <fmt/format.h>

#include <algorithm>

#include "bench/gpu/parts.h"
#include "bench/gpu/product_plan.h"
#include "bench/gpu/rounds.h"
#include "lib/op/ops/collectives.h"

namespace sk::cuda {
namespace {

struct RankSet {
  Matrix a, b, product, c;
  RankSet(const Machine& machine, const Shape& shape)
      : a(machine, shape.a_bytes()),
        b(machine, shape.b_bytes()),
        product(machine, shape.c_bytes()),
        c(machine, shape.c_bytes()) {}
};

std::vector<RankOperands> fused_operands(const std::vector<RankSet>& sets) {
  std::vector<RankOperands> operands;
  for (const RankSet& set : sets) operands.push_back({set.a.data(), set.c.data(), set.b.data()});
  return operands;
}

void check_fused(const Machine& machine, const Shape& shape, ProductPlan& fused,
                 std::vector<RankSet>& sets) {
  std::vector<std::vector<uint16_t>> a, b;
  for (size_t rank = 0; rank < sets.size(); ++rank) {
    sets[rank].a.fill(Fill::kWhole, 2 * rank);
    sets[rank].b.fill(Fill::kWhole, 2 * rank + 1);
    sets[rank].c.poison();
    a.push_back(sets[rank].a.read());
    b.push_back(sets[rank].b.read());
  }
  say_begun(fmt::format("fused, {}: check", shape.name()));
  fused.enqueue(fused_operands(sets));
  must(fused.program().wait(machine.stream()));
  for (size_t rank = 0; rank < sets.size(); ++rank) {
    const std::string wrong = compare_product(shape, a, b, sets[rank].c.read());
    if (!wrong.empty())
      throw std::runtime_error(fmt::format("fused, {}, rank {}: {}", shape.name(), rank, wrong));
  }
}

// Of the tiles that add the ranks' sums up, the share that was done before the last of the tiles
// that are only handed to others: 0 would be a product, then a reduction.
double overlap(const Machine& machine, ProductPlan& traced, const std::vector<RankSet>& sets) {
  for (int i = 0; i < 3; ++i) traced.enqueue(fused_operands(sets));
  must(traced.program().wait(machine.stream()));
  int64_t last_partial_ns = INT64_MIN;
  std::vector<int64_t> reduced_ns;
  const Plan& plan = traced.program().plan();
  for (uint32_t rank = 0; rank < plan.world_size(); ++rank) {
    const RankPlan& part = plan.ranks[rank];
    for (const TaskEvent& event : must(traced.program().events(rank))) {
      if (!is_gemm(event.op)) continue;
      const int64_t epilogue = part.params_of(part.tasks[event.task])[kGemmEpilogue];
      if (epilogue == kGemmPartial) last_partial_ns = std::max(last_partial_ns, event.end_ns);
      if (epilogue == kGemmReduce) reduced_ns.push_back(event.end_ns);
    }
  }
  const auto early = std::count_if(reduced_ns.begin(), reduced_ns.end(),
                                   [&](int64_t end_ns) { return end_ns < last_partial_ns; });
  return reduced_ns.empty() ? 0 : double(early) / double(reduced_ns.size());
}

std::string case_name(const Shape& shape, uint32_t ranks) {
  return fmt::format("{} {} ranks", shape.name(), ranks);
}

void measure_shape(const Machine& machine, const Shape& shape, uint32_t ranks) {
  const std::string name = case_name(shape, ranks);
  const uint32_t workers = machine.workers(ranks);
  std::vector<RankSet> sets;
  for (uint32_t rank = 0; rank < ranks; ++rank) sets.emplace_back(machine, shape);
  ProductPlan fused(machine, shape, ranks, workers);
  check_fused(machine, shape, fused, sets);

  ProductPlan product(machine, shape, 1, workers * ranks);
  const OpDesc op = describe(ops::kAllreduce, {.dtype = DType::kBF16,
                                               .symmetric_in = true,
                                               .symmetric_out = true,
                                               .count = shape.m * shape.n});
  PlanRun allreduce(machine, op, {.world_size = ranks, .workers = workers});
  std::vector<RankOperands> reduced;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    sets[rank].a.fill(Fill::kRandom, 2 * rank);
    sets[rank].b.fill(Fill::kRandom, 2 * rank + 1);
    reduced.push_back({sets[rank].product.data(), sets[rank].c.data(), nullptr});
  }
  const auto products = [&](int) {
    for (const RankSet& set : sets)
      product.enqueue({{set.a.data(), set.product.data(), set.b.data()}});
  };
  const std::vector<Candidate> candidates = {
      {"plan", [&](int) { fused.enqueue(fused_operands(sets)); }, fused.note()},
      {"gemm", products, "one after the other, each by all multiprocessors of the ranks"},
      {"comm", [&](int) { allreduce.enqueue(reduced); }, "all-reduce of C, bf16"},
      {"pair",
       [&](int) {
         products(0);
         allreduce.enqueue(reduced);
       },
       "gemm, then comm"},
  };
  measure(machine, "fused", name, candidates, 1);
  ProductPlan traced(machine, shape, ranks, workers, {.trace = true});
  print_samples("fused", name, "overlap", "share", {overlap(machine, traced, sets)});
}

}  // namespace

void measure_fused(const Machine& machine, const Wanted& wanted) {
  const ShapeCase cases[] = {{{4096, 4096, 4096}, {130, 264, 64}},
                             {{8192, 8192, 2048}, {130, 264, 64}}};
  for (const ShapeCase& each : cases)
    for (const uint32_t ranks : {2u, 4u, 8u})
      if (wanted(case_name(each.real, ranks))) measure_shape(machine, each.on(machine), ranks);
}

}  // namespace sk::cuda
