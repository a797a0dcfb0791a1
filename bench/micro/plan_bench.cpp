// Where the time of sk_plan_create() goes: the planner and the validator by themselves.
//
// The target is made as the communicator makes it. Validation runs once per cached plan in every
// build, so its cost is a figure of the product. The planner builds all ranks' parts here, as a
// communicator does before it validates; of forms that are judged part by part that of the middle
// rank. Prints JSON lines in the cases of misc_bench.
//
// usage: plan_bench RANKS COUNT [PREFIX]
// With a prefix ("" is one): every op, size and kind of memory whose name begins with it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bench/e2e/harness.h"
#include "lib/algo/planner.h"
#include "lib/base/world.h"
#include "lib/comm/limits.h"
#include "lib/exec/cpu/executor.h"
#include "lib/op/ops/all.h"
#include "lib/plan/validate.h"

namespace {

struct Case {
  std::string name;
  sk::OpDesc op;
  bool mapped = true;
};

// How peers reach the operands: by loads and stores, by puts, or not at all; workspace likewise.
struct Memory {
  const char* name;
  bool mapped, symmetric;
};
constexpr Memory kMemories[] = {{"symmetric", true, true},
                                {"symmetric, put only", false, true},
                                {"ordinary", true, false},
                                {"ordinary, put only", false, false}};

Case vectors(const char* op_name, sk::OpKind kind, const char* size, int64_t bytes,
             const Memory& memory) {
  sk::VectorCall op;
  op.count = bytes / 4;
  op.symmetric_in = op.symmetric_out = memory.symmetric;
  op.peer = kind == sk::OpKind::kSendRecv ? 1 : 0;
  return {std::string(op_name) + " " + size + " " + memory.name,
          sk::describe(*sk::schema_of(kind), op), memory.mapped};
}

Case gemm(const sk::Schema& schema, int64_t n, const Memory& memory) {
  sk::GemmCall op;
  op.m = op.n = op.k = op.lda = op.ldc = n;
  op.symmetric_in = op.symmetric_out = memory.symmetric;
  const std::string name = std::string(schema.name) + " " + std::to_string(n) + "^3 " + memory.name;
  const char* reached = schema.operands[sk::GemmCall::kC].reached ? " C" : " A";
  return {name + (memory.symmetric ? reached : ""), sk::describe(schema, op), memory.mapped};
}

// The rows that misc_bench creates through the C ABI, too.
std::vector<Case> product_cases() {
  const Memory &symmetric = kMemories[0], &ordinary = kMemories[2];
  return {vectors("allreduce", sk::OpKind::kAllreduce, "4 KB", 4 << 10, symmetric),
          vectors("allreduce", sk::OpKind::kAllreduce, "16 MB", 16 << 20, symmetric),
          vectors("allreduce", sk::OpKind::kAllreduce, "4 KB", 4 << 10, ordinary),
          vectors("allreduce", sk::OpKind::kAllreduce, "16 MB", 16 << 20, ordinary),
          vectors("allgather", sk::OpKind::kAllgather, "1 MB", 1 << 20, symmetric),
          vectors("reduce_scatter", sk::OpKind::kReduceScatter, "1 MB", 1 << 20, symmetric),
          {"barrier", {}},
          gemm(sk::ops::kAllreduceGemm, 1024, symmetric)};
}

std::vector<Case> all_cases() {
  constexpr std::pair<const char*, sk::OpKind> kOps[] = {
      {"allreduce", sk::OpKind::kAllreduce},
      {"allgather", sk::OpKind::kAllgather},
      {"reduce_scatter", sk::OpKind::kReduceScatter},
      {"broadcast", sk::OpKind::kBroadcast},
      {"send_recv", sk::OpKind::kSendRecv}};
  constexpr std::pair<const char*, int64_t> kSizes[] = {
      {"512 B", 512}, {"32 KB", 32 << 10}, {"1 MB", 1 << 20}, {"16 MB", 16 << 20}};
  std::vector<Case> all = {{"barrier", {}}};
  for (const auto& [name, kind] : kOps) {
    for (const auto& [size, bytes] : kSizes) {
      for (const Memory& memory : kMemories) {
        if (kind == sk::OpKind::kSendRecv && memory.symmetric) continue;
        all.push_back(vectors(name, kind, size, bytes, memory));
      }
    }
  }
  for (const auto& [n, k] : {std::pair{512, 4096}, {4096, 512}}) {
    sk::GemmCall op;
    op.m = 64;
    op.n = op.ldc = n;
    op.k = op.lda = k;
    all.push_back({"shards of 64 rows, n " + std::to_string(n) + ", k " + std::to_string(k),
                   sk::describe(sk::ops::kAllgatherGemm, op), false});
  }
  for (const int64_t n : {256, 1024, 2048}) {
    for (const Memory& memory : kMemories) {
      all.push_back(gemm(sk::ops::kAllreduceGemm, n, memory));
      all.push_back(gemm(sk::ops::kAllgatherGemm, n, memory));
    }
  }
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
  size_t tasks = 0;
  sk::Target target;
  target.world_size = ranks;
  target.mapped = c.mapped;
  target.cores = uint32_t(sk::usable_cpus().count());
  sk::tune(target, sk::shared_cache_bytes());
  if (const auto cut = sk::product_of(c.op, target)) {
    const auto tiles = sk::cpu::gemm_target(cut->dtype, cut->m, cut->n, cut->k, cut->parts,
                                            1u << sk::cpu::kernel_set());
    target.tile_m = tiles.tile_m;
    target.tile_n = tiles.tile_n;
    target.packed_bytes = tiles.packed_bytes;
  }
  for (int i = 0; i < count; ++i) {
    sk::OpDesc op = c.op;
    if (const sk::Field size = op.schema().field("count")) op.set(size, op[size] + i);
    const double start = bench_now();
    const auto flows = sk::flows_of(op, target);
    const auto plan = flows ? sk::make_plan_part(op, target, ranks / 2) : sk::make_plan(op, target);
    const double planned = bench_now();
    const sk::Status status = !plan.ok() ? sk::Status()
                              : flows    ? sk::validate_part(plan.value(), *flows)
                                         : sk::validate(plan.value());
    const double validated = bench_now();
    if (!plan.ok() || !status.ok()) {
      const auto& why = plan.ok() ? status.message() : plan.status().message();
      printf("{\"case\": \"%s\", \"error\": \"%s\"}\n", c.name.c_str(), why.c_str());
      return;
    }
    tasks = 0;
    for (const sk::RankPlan& part : plan.value().ranks) tasks += part.tasks.size();
    plan_us.push_back((planned - start) * 1e6);
    validate_us.push_back((validated - planned) * 1e6);
  }
  printf("{\"case\": \"%s\", \"ranks\": %u, \"tasks\": %zu", c.name.c_str(), ranks, tasks);
  print("plan_us", plan_us);
  print("validate_us", validate_us);
  printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool usable = argc == 3 || argc == 4;
  const int ranks = usable ? atoi(argv[1]) : 0, count = usable ? atoi(argv[2]) : 0;
  const int ranks_max = argc == 4 ? sk::kWorldSizeMax : BENCH_RANKS_MAX;
  if (ranks < 1 || ranks > ranks_max || count < 1) {
    fprintf(stderr, "usage: plan_bench RANKS(1-%d) COUNT, or RANKS(1-%d) COUNT PREFIX\n",
            BENCH_RANKS_MAX, int(sk::kWorldSizeMax));
    return 2;
  }
  for (const Case& c : argc == 4 ? all_cases() : product_cases()) {
    if (argc == 4 && c.name.rfind(argv[3], 0) != 0) continue;
    measure(c, static_cast<uint32_t>(ranks), count);
  }
  return 0;
}
