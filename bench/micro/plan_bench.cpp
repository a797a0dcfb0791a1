// Where the time of sk_plan_create() goes: the planner and the validator by themselves.
//
// The target is made as the communicator makes it. Validation runs once per cached plan in every
// build, so its cost is a figure of the product. The planner builds all ranks' parts here, as a
// communicator does before it validates. Prints JSON lines in the cases of misc_bench.
//
// usage: plan_bench RANKS COUNT
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/e2e/harness.h"
#include "lib/algo/planner.h"
#include "lib/comm/limits.h"
#include "lib/exec/cpu/executor.h"
#include "lib/plan/validate.h"

namespace {

struct Case {
  const char* name;
  sk::OpDesc op;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, sk::OpKind kind, int64_t count, bool symmetric) {
    sk::OpDesc op;
    op.kind = kind;
    op.count = count;
    op.symmetric_in = op.symmetric_out = symmetric;
    all.push_back({name, op});
  };
  add("allreduce 4 KB symmetric", sk::OpKind::kAllreduce, 1 << 10, true);
  add("allreduce 16 MB symmetric", sk::OpKind::kAllreduce, 4 << 20, true);
  add("allreduce 4 KB ordinary", sk::OpKind::kAllreduce, 1 << 10, false);
  add("allreduce 16 MB ordinary", sk::OpKind::kAllreduce, 4 << 20, false);
  add("allgather 1 MB symmetric", sk::OpKind::kAllgather, 1 << 18, true);
  add("reduce_scatter 1 MB symmetric", sk::OpKind::kReduceScatter, 1 << 18, true);
  add("barrier", sk::OpKind::kBarrier, 0, false);
  sk::OpDesc gemm;
  gemm.kind = sk::OpKind::kAllreduceGemm;
  gemm.m = gemm.n = gemm.k = gemm.lda = gemm.ldc = 1024;
  gemm.symmetric_out = true;
  all.push_back({"allreduce_gemm 1024^3 symmetric C", gemm});
  return all;
}

void print(const char* name, const std::vector<double>& values) {
  printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) printf("%s%.2f", i ? ", " : "", values[i]);
  printf("]");
}

// A plan that is refused is a result too: its sentence, in the line's `error`.
void measure(const Case& c, uint32_t ranks, int count) {
  std::vector<double> plan_us, validate_us;
  sk::Target target;
  target.world_size = ranks;
  target.cores = uint32_t(sk::usable_cpus().count());
  sk::tune(target);
  if (c.op.kind == sk::OpKind::kAllreduceGemm) {
    const auto tiles = sk::cpu::gemm_target(c.op.dtype, c.op.m, c.op.n, c.op.k, ranks);
    target.tile_m = tiles.tile_m;
    target.tile_n = tiles.tile_n;
    target.packed_bytes = tiles.packed_bytes;
  }
  for (int i = 0; i < count; ++i) {
    sk::OpDesc op = c.op;
    if (op.count > 0) op.count += i;
    const double start = bench_now();
    const auto plan = sk::make_plan(op, target);
    const double planned = bench_now();
    const sk::Status status = plan.ok() ? sk::validate(plan.value()) : sk::Status();
    const double validated = bench_now();
    if (!plan.ok() || !status.ok()) {
      const auto& why = plan.ok() ? status.message() : plan.status().message();
      printf("{\"case\": \"%s\", \"error\": \"%s\"}\n", c.name, why.c_str());
      return;
    }
    plan_us.push_back((planned - start) * 1e6);
    validate_us.push_back((validated - planned) * 1e6);
  }
  printf("{\"case\": \"%s\", \"ranks\": %u", c.name, ranks);
  print("plan_us", plan_us);
  print("validate_us", validate_us);
  printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc == 3 ? atoi(argv[1]) : 0, count = argc == 3 ? atoi(argv[2]) : 0;
  if (ranks < 1 || ranks > BENCH_RANKS_MAX || count < 1) {
    fprintf(stderr, "usage: plan_bench RANKS(1-%d) COUNT\n", BENCH_RANKS_MAX);
    return 2;
  }
  for (const Case& c : cases()) measure(c, static_cast<uint32_t>(ranks), count);
  return 0;
}
