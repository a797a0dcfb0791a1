// libsk's GEMM fused with an all-reduce, and its two halves alone, in one launch of R processes.
//
// Cases per shape and type: `fused` (sk_allreduce_gemm, weights packed, C symmetric), `gemm` (the
// same call on a communicator of one rank, all ranks at once) and `comm` (sk_allreduce of C's size,
// symmetric). Three sets of A and C rotate; every element of the result is checked.
//
// usage: gemm_ar_bench RANKS SHAPES DTYPES BUDGET_MS BATCHES
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/e2e/gemm_libsk.h"
#include "bench/e2e/gemm_shapes.h"

namespace {

using sk_bench::kSets;
using sk_bench::LibskGemm;
using sk_bench::must;
using sk_bench::Shape;

struct Job {
  int ranks = 0;
  std::vector<Shape> shapes;
  std::vector<std::string> dtypes;
  double budget_s = 0.0;
  int batches = 0;
};

struct GemmState {
  LibskGemm* gemm;
  int set;
};

void next_set(void* user, int round) { static_cast<GemmState*>(user)->set = round % kSets; }

int call_gemm(void* user) {
  auto* s = static_cast<GemmState*>(user);
  s->gemm->run(s->set);
  return 0;
}

struct CommState {
  bench_world* world;
  sk_comm* comm;
  float* in;
  float* out;
  int64_t count;
  int round;
};

void refill(void* user, int round) {
  auto* s = static_cast<CommState*>(user);
  s->round = round;
  bench_fill(s->in, s->count, s->world->rank, round);
}

int call_comm(void* user) {
  auto* s = static_cast<CommState*>(user);
  must(s->world, sk_allreduce(s->comm, s->in, s->out, s->count, SK_F32, SK_SUM, nullptr),
       "sk_allreduce");
  return 0;
}

void check(bench_world* w, LibskGemm* gemm, const Shape& s, int first, int last, const char* name) {
  for (int set = 0; set < kSets; ++set) {
    const auto which = static_cast<uint32_t>(set);
    if (sk_bench::gemm_wrong_row(s, which, gemm->out(set), first, last, which) >= 0) {
      bench_die(w, (std::string(name) + ": wrong result").c_str());
    }
  }
}

void run_shape(bench_world* w, sk_comm* comm, sk_comm* alone, const Shape& s, bool bf16) {
  LibskGemm fused(w, comm, s, bf16, w->rank), single(w, alone, s, bf16, w->rank);
  GemmState fused_state = {&fused, 0}, single_state = {&single, 0};
  CommState comm_state = {w, comm, nullptr, nullptr, s.m * s.n, 0};
  void *in = nullptr, *out = nullptr;
  const auto bytes = static_cast<uint64_t>(s.m * s.n) * sizeof(float);
  must(w, sk_alloc(comm, bytes, &in), "sk_alloc");
  must(w, sk_alloc(comm, bytes, &out), "sk_alloc");
  comm_state.in = static_cast<float*>(in);
  comm_state.out = static_cast<float*>(out);

  char label[64];
  snprintf(label, sizeof label, "%s %lldx%lldx%lld", bf16 ? "bf16" : "f32",
           static_cast<long long>(s.m), static_cast<long long>(s.n), static_cast<long long>(s.k));
  const std::string names[] = {std::string(label) + " fused", std::string(label) + " gemm",
                               std::string(label) + " comm"};
  const auto size = static_cast<int64_t>(bytes);
  bench_case cases[] = {{names[0].c_str(), size, next_set, call_gemm, &fused_state, 0},
                        {names[1].c_str(), size, next_set, call_gemm, &single_state, 0},
                        {names[2].c_str(), size, refill, call_comm, &comm_state, 0}};
  for (bench_case& c : cases) bench_calibrate(w, &c, /*give_up=*/60.0);
  for (int batch = 0; batch < w->batches; ++batch) {
    for (bench_case& c : cases) {
      bench_batch(w, &c, 5 + batch * c.iters);
      bench_report(w, &c, c.iters);
    }
  }
  bench_check_sum(w, comm_state.out, comm_state.count, comm_state.round, "sk_allreduce");
  check(w, &fused, s, 0, w->ranks, names[0].c_str());
  check(w, &single, s, w->rank, w->rank + 1, names[1].c_str());
  must(w, sk_free(comm, in), "sk_free");
  must(w, sk_free(comm, out), "sk_free");
}

int rank_main(const Job& job, bench_world* w) {
  w->budget = job.budget_s;
  w->batches = job.batches;
  w->iters_min = 3;  // At least one call per set of A and C.
  sk_bench::Session session(w, 0);
  sk_bench::Alone alone(w);
  for (const Shape& s : job.shapes) {
    for (const std::string& dtype : job.dtypes) {
      run_shape(w, session.comm, alone.comm, s, dtype == "bf16");
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  if (argc == 6) {
    job.ranks = atoi(argv[1]);
    job.budget_s = atof(argv[4]) * 1e-3;
    job.batches = atoi(argv[5]);
  }
  if (job.ranks < 1 || job.ranks > BENCH_RANKS_MAX || job.batches < 1 ||
      !sk_bench::parse_shapes(argv[2], &job.shapes) ||
      !sk_bench::parse_dtypes(argv[3], &job.dtypes)) {
    fprintf(stderr, "usage: gemm_ar_bench RANKS(1-%d) SHAPES DTYPES BUDGET_MS BATCHES\n",
            BENCH_RANKS_MAX);
    return 2;
  }
  return sk_bench::run_ranks(job.ranks, [&job](bench_world* w) { return rank_main(job, w); });
}
