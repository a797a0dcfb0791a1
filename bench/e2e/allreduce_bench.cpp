// libsk's f32 all-reduce beside the direct loop, in one launch of R pinned processes.
//
// Candidates take turns in batches at every size: `symmetric` (memory of sk_alloc), `ordinary`
// (malloc on every rank), `direct` and `direct_nt` (direct_loop.h, plain and non-temporal stores).
// Inputs are rewritten before every call, outputs poisoned before and checked after every batch.
// Prints JSON lines.
//
// usage: allreduce_bench RANKS SIZES BUDGET_MS BATCHES CANDIDATES READ(0|1)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/e2e/direct_loop.h"
#include "bench/e2e/launch.h"

namespace {

using sk_bench::direct_allreduce;
using sk_bench::DirectLoop;
using sk_bench::must;

struct Buffers {
  float* in = nullptr;
  float* out = nullptr;
};

struct State {
  bench_world* world;
  sk_comm* comm;
  DirectLoop* loop;
  Buffers buffers;
  int64_t count;
  int round;
};

void prepare(void* user, int round) {
  auto* s = static_cast<State*>(user);
  s->round = round;
  if (s->world->read_outputs) s->world->sink = bench_read(s->buffers.out, s->count);
  bench_fill(s->buffers.in, s->count, s->world->rank, round);
}

int call_libsk(void* user) {
  auto* s = static_cast<State*>(user);
  must(s->world,
       sk_allreduce(s->comm, s->buffers.in, s->buffers.out, s->count, SK_F32, SK_SUM, nullptr),
       "sk_allreduce");
  return 0;
}

int call_direct(void* user) {
  auto* s = static_cast<State*>(user);
  s->loop->count = s->count;
  s->loop->non_temporal = false;
  direct_allreduce(s->loop);
  return 0;
}

int call_direct_nt(void* user) {
  auto* s = static_cast<State*>(user);
  s->loop->count = s->count;
  s->loop->non_temporal = true;
  direct_allreduce(s->loop);
  return 0;
}

struct Plan {
  int ranks = 0;
  std::vector<int64_t> sizes;
  int64_t size_max = 0;
  double budget = 0.0;
  int batches = 0;
  std::vector<std::string> candidates;
  int read_outputs = 0;
  float* direct_memory = nullptr;  // Per rank: in, then out.
  bench_flag* direct_flags = nullptr;

  bool wants(const char* name) const {
    return std::find(candidates.begin(), candidates.end(), name) != candidates.end();
  }
  bool wants_libsk() const { return wants("symmetric") || wants("ordinary"); }
};

Buffers ordinary_buffers(bench_world* world, int64_t bytes) {
  Buffers b;
  void *in = nullptr, *out = nullptr;
  if (posix_memalign(&in, 4096, bytes) != 0 || posix_memalign(&out, 4096, bytes) != 0) {
    bench_die(world, "out of memory");
  }
  b.in = static_cast<float*>(in);
  b.out = static_cast<float*>(out);
  return b;
}

Buffers symmetric_buffers(bench_world* world, sk_comm* comm, int64_t bytes) {
  void *in = nullptr, *out = nullptr;
  must(world, sk_alloc(comm, static_cast<uint64_t>(bytes), &in), "sk_alloc");
  must(world, sk_alloc(comm, static_cast<uint64_t>(bytes), &out), "sk_alloc");
  return {static_cast<float*>(in), static_cast<float*>(out)};
}

void run_cases(bench_world* w, std::vector<bench_case>& cases) {
  for (bench_case& c : cases) bench_calibrate(w, &c, /*give_up=*/2.0);
  for (int batch = 0; batch < w->batches; ++batch) {
    for (bench_case& c : cases) {
      if (c.iters == 0) continue;
      auto* s = static_cast<State*>(c.user);
      bench_poison(s->buffers.out, s->count);
      bench_batch(w, &c, 5 + batch * c.iters);
      bench_check_sum(w, s->buffers.out, s->count, s->round, c.name);
      bench_report(w, &c, c.iters);
    }
  }
  for (const bench_case& c : cases) {
    if (c.iters == 0 && w->rank == 0) {
      printf("{\"case\": \"%s\", \"bytes\": %lld, \"gave_up\": true}\n", c.name,
             static_cast<long long>(c.bytes));
    }
  }
}

int rank_main(const Plan& plan, bench_world* w) {
  w->budget = plan.budget;
  w->batches = plan.batches;
  w->read_outputs = plan.read_outputs;
  DirectLoop loop = {};
  loop.world = w;
  loop.flags = plan.direct_flags;
  const int64_t floats = plan.size_max / static_cast<int64_t>(sizeof(float));
  for (int r = 0; r < w->ranks; ++r) {
    loop.in[r] = plan.direct_memory + 2 * floats * r;
    loop.out[r] = loop.in[r] + floats;
  }
  sk_comm* comm = nullptr;
  Buffers symmetric, ordinary;
  std::unique_ptr<sk_bench::Session> libsk;
  if (plan.wants_libsk()) {
    libsk = std::make_unique<sk_bench::Session>(w, 0);
    comm = libsk->comm;
  } else {
    bench_pin(w->rank);
  }
  if (plan.wants("symmetric")) symmetric = symmetric_buffers(w, comm, plan.size_max);
  if (plan.wants("ordinary")) ordinary = ordinary_buffers(w, plan.size_max);
  if (w->rank == 0) printf("{\"version\": \"libsk %d\"}\n", comm ? sk_version() : 0);

  for (const int64_t bytes : plan.sizes) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    State sym = {w, comm, nullptr, symmetric, count, 0};
    State ord = {w, comm, nullptr, ordinary, count, 0};
    State direct = {w, comm, &loop, {loop.in[w->rank], loop.out[w->rank]}, count, 0};
    State direct_nt = direct;
    std::vector<bench_case> cases;
    if (plan.wants("symmetric")) {
      cases.push_back({"symmetric", bytes, prepare, call_libsk, &sym, 0});
    }
    if (plan.wants("direct")) {
      cases.push_back({"direct", bytes, prepare, call_direct, &direct, 0});
      if (bytes >= 1 << 20) {  // Below, bypassing the cache only loses.
        cases.push_back({"direct_nt", bytes, prepare, call_direct_nt, &direct_nt, 0});
      }
    }
    if (plan.wants("ordinary")) {
      cases.push_back({"ordinary", bytes, prepare, call_libsk, &ord, 0});
    }
    run_cases(w, cases);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  int64_t sizes[16];
  const int size_count = argc == 7 ? bench_parse_list(argv[2], sizes, 16) : -1;
  if (size_count > 0) {
    plan.ranks = atoi(argv[1]);
    plan.budget = atof(argv[3]) * 1e-3;
    plan.batches = atoi(argv[4]);
    plan.read_outputs = atoi(argv[6]);
    std::istringstream names(argv[5]);
    for (std::string name; std::getline(names, name, ',');) plan.candidates.push_back(name);
  }
  if (plan.ranks < 1 || plan.ranks > BENCH_RANKS_MAX || plan.batches < 1) {
    fprintf(stderr, "usage: allreduce_bench RANKS(1-%d) SIZES BUDGET_MS BATCHES CANDIDATES READ\n",
            BENCH_RANKS_MAX);
    return 2;
  }
  plan.sizes.assign(sizes, sizes + size_count);
  for (const int64_t bytes : plan.sizes) {
    if (bytes % 64 != 0) {
      fprintf(stderr, "allreduce_bench: size %lld is not a multiple of 64 bytes\n",
              static_cast<long long>(bytes));
      return 2;
    }
    if (bytes > plan.size_max) plan.size_max = bytes;
  }
  plan.direct_memory = static_cast<float*>(sk_bench::shared_memory(
      2 * static_cast<size_t>(plan.size_max) * static_cast<size_t>(plan.ranks)));
  plan.direct_flags =
      static_cast<bench_flag*>(sk_bench::shared_memory(sizeof(bench_flag) * BENCH_RANKS_MAX));
  return sk_bench::run_ranks(plan.ranks, [&plan](bench_world* w) { return rank_main(plan, w); });
}
