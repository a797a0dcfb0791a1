// What libsk costs beside the work: planning, calling, and waiting for nothing.
//
// usage: misc_bench plans RANKS COUNT       time of sk_plan_create() in a world of RANKS threads
//        misc_bench calls BUDGET_MS BATCHES calls without work beside raw flag exchange, 2 ranks
//        misc_bench idle SECONDS            CPU time and memory of a rank that calls nothing
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/e2e/direct_loop.h"
#include "bench/e2e/launch.h"

namespace {

using sk_bench::DirectLoop;
using sk_bench::must;
using sk_bench::Session;

// ---- plans ----

struct PlanCase {
  const char* name;
  sk_plan_desc desc;
};

std::vector<PlanCase> plan_cases() {
  sk_plan_desc base = {};
  base.struct_size = sizeof base;
  base.dtype = SK_F32;
  std::vector<PlanCase> cases;
  const auto reduction = [&](const char* name, int32_t kind, int64_t count, uint32_t flags) {
    sk_plan_desc d = base;
    d.kind = kind;
    if (kind != SK_OP_ALLGATHER) d.op = SK_SUM;
    d.count = count;
    d.flags = flags;
    cases.push_back({name, d});
  };
  constexpr uint32_t kSymmetric = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT;
  reduction("allreduce 4 KB symmetric", SK_OP_ALLREDUCE, 1 << 10, kSymmetric);
  reduction("allreduce 16 MB symmetric", SK_OP_ALLREDUCE, 4 << 20, kSymmetric);
  reduction("allreduce 4 KB ordinary", SK_OP_ALLREDUCE, 1 << 10, 0);
  reduction("allreduce 16 MB ordinary", SK_OP_ALLREDUCE, 4 << 20, 0);
  reduction("allgather 1 MB symmetric", SK_OP_ALLGATHER, 1 << 18, kSymmetric);
  reduction("reduce_scatter 1 MB symmetric", SK_OP_REDUCE_SCATTER, 1 << 18, kSymmetric);
  sk_plan_desc barrier = base;
  barrier.kind = SK_OP_BARRIER;
  barrier.dtype = 0;
  cases.push_back({"barrier", barrier});
  sk_plan_desc gemm = base;
  gemm.kind = SK_OP_ALLREDUCE_GEMM;
  gemm.op = SK_SUM;
  gemm.m = gemm.n = gemm.k = 1024;
  gemm.flags = SK_PLAN_SYMMETRIC_OUT;
  cases.push_back({"allreduce_gemm 1024^3 symmetric C", gemm});
  return cases;
}

// Each creation asks for another size, so that none comes from a cache.
void vary(sk_plan_desc* d, int i) {
  if (d->kind == SK_OP_ALLREDUCE_GEMM) d->k += i;
  if (d->count > 0) d->count += i;
}

void measure_plan(bench_world* w, sk_comm* comm, const PlanCase& c, int count) {
  std::vector<double> create_us, check_us;
  size_t text_bytes = 0;
  for (int i = 0; i < count; ++i) {
    sk_plan_desc desc = c.desc;
    vary(&desc, i);
    sk_plan* plan = nullptr;
    const double start = bench_now();
    if (sk_plan_create(comm, &desc, &plan) != SK_OK) {  // A result too: the sentence.
      printf("{\"case\": \"%s\", \"error\": \"%s\"}\n", c.name, sk_last_error());
      return;
    }
    create_us.push_back((bench_now() - start) * 1e6);
    size_t size = 0;
    const sk_status asked = sk_plan_dump(plan, nullptr, 0, &size);  // Only the size.
    if (asked != SK_ERR_OUT_OF_RANGE) must(w, asked, "sk_plan_dump");
    std::string text(size + 1, '\0');
    must(w, sk_plan_dump(plan, text.data(), text.size(), &size), "sk_plan_dump");
    const double parse = bench_now();
    must(w, sk_plan_check(text.data(), size), "sk_plan_check");
    check_us.push_back((bench_now() - parse) * 1e6);
    text_bytes = size;
    must(w, sk_plan_free(plan), "sk_plan_free");
  }
  printf("{\"case\": \"%s\", \"text_bytes\": %zu, \"create_us\": [", c.name, text_bytes);
  for (int i = 0; i < count; ++i) printf("%s%.2f", i ? ", " : "", create_us[i]);
  printf("], \"check_us\": [");
  for (int i = 0; i < count; ++i) printf("%s%.2f", i ? ", " : "", check_us[i]);
  printf("]}\n");
  fflush(stdout);
}

int plans_rank(bench_world* w, int rank, int ranks, int count) {
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
  must(w, sk_init(nullptr, &context), "sk_init");
  sk_comm_config config = {};
  config.struct_size = sizeof config;
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.rank = rank;
  config.world_size = ranks;
  config.name = "plans";
  config.workers = 1;
  config.timeout_ms = 60'000;
  must(w, sk_comm_create(context, &config, &comm), "sk_comm_create");
  if (rank == 0) {
    for (const PlanCase& c : plan_cases()) measure_plan(w, comm, c, count);
  }
  must(w, sk_barrier(comm, nullptr), "sk_barrier");  // The others wait here meanwhile.
  sk_comm_free(comm);
  sk_finalize(context);
  return 0;
}

int plans_main(bench_world* w, int ranks, int count) {
  std::vector<std::thread> others;
  for (int rank = 1; rank < ranks; ++rank) {
    others.emplace_back([=] { plans_rank(w, rank, ranks, count); });
  }
  plans_rank(w, 0, ranks, count);
  for (std::thread& t : others) t.join();
  return 0;
}

// ---- calls ----

struct CallState {
  bench_world* world;
  sk_comm* comm;
  DirectLoop loop;
  float* in;
  float* out;
  sk_tensor from, to;  // The same as tensors,
  sk_allreduce_args args;
  sk_op* op;  // and kept ready.
};

// What the generic path takes of `in` and `out`.
void describe(CallState* s) {
  s->from = {};
  s->from.struct_size = sizeof s->from;
  s->from.dtype = SK_F32;
  s->from.ndim = 1;
  s->from.shape[0] = s->from.strides[0] = 1;
  s->to = s->from;
  s->from.data = s->in;
  s->to.data = s->out;
  s->args = {};
  s->args.struct_size = sizeof s->args;
  s->args.in = &s->from;
  s->args.out = &s->to;
  s->args.op = SK_SUM;
  must(s->world, sk_op_create(s->comm, SK_OP_ALLREDUCE, &s->args, &s->op), "sk_op_create");
}

void rewrite(void* user, int round) {
  auto* s = static_cast<CallState*>(user);
  bench_fill(s->in, 1, s->world->rank, round);
}
void rewrite_direct(void* user, int round) {
  auto* s = static_cast<CallState*>(user);
  bench_fill(s->loop.in[s->world->rank], 1, s->world->rank, round);
}
int call_barrier(void* user) {
  auto* s = static_cast<CallState*>(user);
  must(s->world, sk_barrier(s->comm, nullptr), "sk_barrier");
  return 0;
}
int call_allreduce(void* user) {
  auto* s = static_cast<CallState*>(user);
  must(s->world, sk_allreduce(s->comm, s->in, s->out, 1, SK_F32, SK_SUM, nullptr), "sk_allreduce");
  return 0;
}
int call_by_number(void* user) {
  auto* s = static_cast<CallState*>(user);
  must(s->world, sk_call(s->comm, SK_OP_ALLREDUCE, &s->args, nullptr), "sk_call");
  return 0;
}
int call_kept(void* user) {
  auto* s = static_cast<CallState*>(user);
  must(s->world, sk_op_run(s->op, nullptr, nullptr), "sk_op_run");
  return 0;
}
int call_raw_barrier(void* user) {
  sk_bench::direct_barrier(&static_cast<CallState*>(user)->loop);
  return 0;
}
int call_raw_allreduce(void* user) {
  sk_bench::direct_allreduce(&static_cast<CallState*>(user)->loop);
  return 0;
}

struct DirectMemory {
  float* floats = nullptr;
  bench_flag* flags = nullptr;
};

int calls_main(bench_world* w, const DirectMemory& memory) {
  Session session(w, 0);
  CallState symmetric = {};
  symmetric.world = w;
  symmetric.comm = session.comm;
  void *in = nullptr, *out = nullptr;
  must(w, sk_alloc(session.comm, 64, &in), "sk_alloc");
  must(w, sk_alloc(session.comm, 64, &out), "sk_alloc");
  symmetric.in = static_cast<float*>(in);
  symmetric.out = static_cast<float*>(out);
  symmetric.loop.world = w;
  symmetric.loop.flags = memory.flags;
  symmetric.loop.count = 1;
  for (int r = 0; r < w->ranks; ++r) {
    symmetric.loop.in[r] = memory.floats + 64 * r;
    symmetric.loop.out[r] = symmetric.loop.in[r] + 32;
  }
  alignas(64) float own_in[16] = {}, own_out[16] = {};
  CallState ordinary = symmetric;
  ordinary.in = own_in;
  ordinary.out = own_out;
  for (CallState* each : {&symmetric, &ordinary}) describe(each);
  // The raw cases share one turn counter: one state.
  bench_case cases[] = {
      {"barrier", 0, nullptr, call_barrier, &symmetric, 0},
      {"raw barrier", 0, nullptr, call_raw_barrier, &symmetric, 0},
      {"allreduce of 1, symmetric", 4, rewrite, call_allreduce, &symmetric, 0},
      {"raw allreduce of 1", 4, rewrite_direct, call_raw_allreduce, &symmetric, 0},
      {"allreduce of 1, ordinary", 4, rewrite, call_allreduce, &ordinary, 0},
      {"sk_call, symmetric", 4, rewrite, call_by_number, &symmetric, 0},
      {"sk_op_run, symmetric", 4, rewrite, call_kept, &symmetric, 0},
      {"sk_call, ordinary", 4, rewrite, call_by_number, &ordinary, 0},
      {"sk_op_run, ordinary", 4, rewrite, call_kept, &ordinary, 0},
  };
  for (bench_case& c : cases) bench_calibrate(w, &c, 2.0);
  for (int batch = 0; batch < w->batches; ++batch) {
    for (bench_case& c : cases) {
      bench_batch(w, &c, 5 + batch * c.iters);
      bench_report(w, &c, c.iters);
    }
  }
  for (CallState* each : {&symmetric, &ordinary}) must(w, sk_op_free(each->op), "sk_op_free");
  return 0;
}

// ---- idle ----

double cpu_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// Proportional set size of this process: shared pages counted by their share.
double pss_mb() {
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  if (file == nullptr) return -1.0;
  char line[256];
  double kb = -1.0;
  while (fgets(line, sizeof line, file) != nullptr) {
    if (sscanf(line, "Pss: %lf kB", &kb) == 1) break;
  }
  fclose(file);
  return kb / 1024.0;
}

int idle_main(bench_world* w, double seconds) {
  const double before_mb = pss_mb();
  Session session(w, 0);
  float in[16] = {}, out[16] = {};
  must(w, sk_allreduce(session.comm, in, out, 16, SK_F32, SK_SUM, nullptr), "sk_allreduce");
  bench_barrier(w);
  const double after_mb = pss_mb();
  const double cpu = cpu_seconds(), start = bench_now();
  timespec rest = {static_cast<time_t>(seconds), 0};
  nanosleep(&rest, nullptr);
  const double wall = bench_now() - start, used = cpu_seconds() - cpu;
  for (int r = 0; r < w->ranks; ++r) {
    if (r == w->rank) {
      printf(
          "{\"case\": \"idle\", \"rank\": %d, \"seconds\": %.2f, \"cpu_percent\": %.4f, "
          "\"pss_mb\": %.3f}\n",
          r, wall, 100.0 * used / wall, after_mb - before_mb);
      fflush(stdout);
    }
    bench_barrier(w);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "plans" && argc == 4) {
    const int ranks = atoi(argv[2]), count = atoi(argv[3]);
    if (ranks >= 1 && ranks <= BENCH_RANKS_MAX && count >= 1) {
      return sk_bench::run_ranks(1, [=](bench_world* w) { return plans_main(w, ranks, count); });
    }
  }
  if (mode == "calls" && argc == 4 && atoi(argv[3]) >= 1) {
    DirectMemory memory;
    memory.floats =
        static_cast<float*>(sk_bench::shared_memory(sizeof(float) * 64 * BENCH_RANKS_MAX));
    memory.flags =
        static_cast<bench_flag*>(sk_bench::shared_memory(sizeof(bench_flag) * BENCH_RANKS_MAX));
    return sk_bench::run_ranks(2, [&](bench_world* w) {
      w->budget = atof(argv[2]) * 1e-3;
      w->batches = atoi(argv[3]);
      return calls_main(w, memory);
    });
  }
  if (mode == "idle" && argc == 3 && atoi(argv[2]) >= 1) {
    return sk_bench::run_ranks(
        2, [&](bench_world* w) { return idle_main(w, static_cast<double>(atoi(argv[2]))); });
  }
  fprintf(stderr,
          "usage: misc_bench plans RANKS(1-%d) COUNT | calls BUDGET_MS BATCHES | idle SECONDS\n",
          BENCH_RANKS_MAX);
  return 2;
}
