// What a launch and an abort cost.
#include <fmt/format.h>

#include <chrono>

#include "bench/gpu/bare.h"
#include "bench/gpu/parts.h"
#include "bench/gpu/product_plan.h"
#include "bench/gpu/rounds.h"
#include "lib/algo/planner.h"
#include "lib/op/ops/collectives.h"

namespace sk::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// A replayed run of one small tile, whole: from launch to launch, so more than from the launch to
// the tile.
void measure_replay(const Machine& machine) {
  const Shape shape{128, 256, 64};
  ProductPlan tile(machine, shape, 1, 1);
  const Matrix a(machine, shape.a_bytes()), b(machine, shape.b_bytes()),
      c(machine, shape.c_bytes());
  const OpDesc op = describe(ops::kAllreduce, {.count = 256});
  PlanRun one_rank(machine, op, {.world_size = 1, .workers = 1});
  const Matrix in(machine, 1024), out(machine, 1024);
  const BareProduct bare(machine);
  measure(machine, "latency", "replayed run",
          {{"plan",
            [&](int) {
              tile.enqueue({{a.data(), c.data(), b.data()}});
            },
            "one product of 128x256x64, by one block"},
           {"bare", [&](int) { bare.enqueue(shape, a, b, c); }, "the same without a plan"},
           {"copy",
            [&](int) {
              one_rank.enqueue({{in.data(), out.data(), nullptr}});
            },
            "1 KB, by one block"}},
          machine.is_real() ? 20 : 2);
}

void let_it_wait() {
  const auto until = Clock::now() + std::chrono::microseconds(100);
  while (Clock::now() < until) {
  }
}

// Between the host's word and the end of the launch as the host sees it.
void measure_abort(const Machine& machine) {
  const OpDesc op =
      describe(ops::kAllreduce, {.symmetric_in = true, .symmetric_out = true, .count = 1000});
  Plan plan = must(make_plan(op, {.world_size = 2, .workers = machine.workers(2)}));
  for (Queue& queue : plan.ranks[1].queues) queue.task_count = 0;  // Rank 0 waits in vain.
  const auto shared = std::make_shared<const Plan>(std::move(plan));
  const Matrix in(machine, 4000), out(machine, 4000);
  const std::vector<RankOperands> operands(2, {in.data(), out.data(), nullptr});
  std::vector<double> us;
  say_begun("latency abort: launches that wait in vain");
  for (int i = 0; i < (machine.is_real() ? 1000 : 3); ++i) {
    const auto epoch = must(Epoch::begin(machine.device()));
    const auto program = must(GpuProgram::prepare(machine.device(), *epoch, shared, {}));
    must(program->run(machine.stream(), operands, machine.patience_ns()));
    // Half of them once it surely waits, half while it starts.
    if (i % 2 == 0) let_it_wait();
    const auto began = Clock::now();
    epoch->abort();
    if (program->wait(machine.stream()).code() != SK_ERR_ABORTED)
      throw std::runtime_error("a launch that was aborted ended otherwise");
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - began).count());
  }
  print_samples("latency", "abort", "plan", "us", us);
}

}  // namespace

void measure_latency(const Machine& machine, const Wanted& wanted) {
  if (wanted("replayed run")) measure_replay(machine);
  if (wanted("abort")) measure_abort(machine);
}

}  // namespace sk::cuda
