// A product of one rank by one worker and by several, in one process: what a second core gains.
//
// usage: gemm_workers_bench SHAPES DTYPES WORKERS BUDGET_MS BATCHES
//
// One JSON line per shape, type, batch and number of workers (microseconds per call), with looks at
// the cores around the batch. Weights are packed; both have the same data, and all is checked.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/e2e/gemm_libsk.h"
#include "bench/e2e/gemm_shapes.h"
#include "bench/e2e/looks.h"

namespace {

using sk_bench::kSets;
using sk_bench::LibskGemm;
using sk_bench::Looks;
using sk_bench::must;
using sk_bench::Shape;

struct Job {
  std::vector<Shape> shapes;
  std::vector<std::string> dtypes;
  int workers = 2, batches = 1;
  double budget_s = 0.1;
};

// A world of one with so many workers.
struct Rank {
  Rank(bench_world* world, sk_context* context, int workers) : workers(workers) {
    const std::string name = "workers-" + std::to_string(workers);
    sk_comm_config config = {};
    config.struct_size = sizeof config;
    config.bootstrap = SK_BOOTSTRAP_THREADS;
    config.world_size = 1;
    config.name = name.c_str();
    config.workers = workers;
    must(world, sk_comm_create(context, &config, &comm), "sk_comm_create");
  }
  int workers;
  sk_comm* comm = nullptr;
};

struct Side {
  int workers = 0;
  std::unique_ptr<LibskGemm> product;
  std::vector<double> us;

  // As many calls as there are sets, one after the other: threads that slept are awake behind the
  // first.
  double run() {
    const double begin = bench_now();
    for (int set = 0; set < kSets; ++set) {
      const double start = bench_now();
      product->run(set);
      us.push_back((bench_now() - start) * 1e6);
    }
    return bench_now() - begin;
  }
};

void run_shape(bench_world* w, Looks& looks, const Rank (&ranks)[2], const Shape& s, bool bf16,
               const Job& job) {
  char label[64];
  snprintf(label, sizeof label, "%s %lldx%lldx%lld", bf16 ? "bf16" : "f32",
           static_cast<long long>(s.m), static_cast<long long>(s.n), static_cast<long long>(s.k));
  Side sides[2];
  double seconds = 0.0;
  for (int i = 0; i < 2; ++i) {
    sides[i].workers = ranks[i].workers;
    sides[i].product = std::make_unique<LibskGemm>(w, ranks[i].comm, s, bf16, w->rank);
    sides[i].run();  // Plans, scratch, first touch.
    seconds += sides[i].run();
  }
  const int rounds = std::max(1, static_cast<int>(job.budget_s / job.batches / seconds / 2));
  for (int batch = 0; batch < job.batches; ++batch) {
    for (Side& side : sides) side.us.clear();
    const bench_place before = looks.look();
    for (int round = 0; round < rounds; ++round) {
      for (const int i : {0, 1, 1, 0}) sides[i].run();
    }
    const std::string place = Looks::field(before, looks.look());
    for (const Side& side : sides) {
      printf("{\"case\": \"%s by %d\", %s\"us\": [", label, side.workers, place.c_str());
      for (size_t i = 0; i < side.us.size(); ++i) printf("%s%.2f", i ? ", " : "", side.us[i]);
      printf("]}\n");
    }
    fflush(stdout);
  }
  for (const Side& side : sides) {
    for (int set = 0; set < kSets; ++set) {
      const auto which = static_cast<uint32_t>(set);
      if (sk_bench::gemm_wrong_row(s, which, side.product->out(set), 0, 1, which) >= 0) {
        bench_die(w, (std::string(label) + ": wrong product").c_str());
      }
    }
  }
}

int rank_main(const Job& job, bench_world* w, const cpu_set_t& cores) {
  sched_setaffinity(0, sizeof cores, &cores);  // A world of one is pinned to a core.
  sk_context* context = nullptr;
  must(w, sk_init(nullptr, &context), "sk_init");
  Looks looks;
  const Rank ranks[2] = {{w, context, 1}, {w, context, job.workers}};
  for (const Shape& s : job.shapes) {
    for (const std::string& dtype : job.dtypes) run_shape(w, looks, ranks, s, dtype == "bf16", job);
  }
  for (const Rank& rank : ranks) must(w, sk_comm_free(rank.comm), "sk_comm_free");
  must(w, sk_finalize(context), "sk_finalize");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  if (argc == 6) {
    job.workers = atoi(argv[3]);
    job.budget_s = atof(argv[4]) * 1e-3;
    job.batches = atoi(argv[5]);
  }
  if (argc != 6 || job.workers < 2 || job.batches < 1 ||
      !sk_bench::parse_shapes(argv[1], &job.shapes) ||
      !sk_bench::parse_dtypes(argv[2], &job.dtypes)) {
    fprintf(stderr, "usage: gemm_workers_bench SHAPES DTYPES WORKERS(2-) BUDGET_MS BATCHES\n");
    return 2;
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) {
    perror("gemm_workers_bench: sched_getaffinity");
    return 2;
  }
  return sk_bench::run_ranks(1, [&](bench_world* w) { return rank_main(job, w, cores); });
}
