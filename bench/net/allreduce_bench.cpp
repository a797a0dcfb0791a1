// libsk's f32 all-reduce between hosts, as ranks of several hosts call it: the harness of the other
// collectives, whose area is a file that all of these hosts map. SK_NET_TLS says whether they
// encrypt.
//
// usage: hosts_allreduce_bench AREA_FILE RANK RANKS SIZES BUDGET_MS BATCHES   one for each rank
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/e2e/launch.h"

namespace {

struct State {
  bench_world* world;
  sk_comm* comm;
  float *in, *out;
  int64_t count;
  int round;
};

void prepare(void* user, int round) {
  auto* s = static_cast<State*>(user);
  s->round = round;
  bench_fill(s->in, s->count, s->world->rank, round);
}

int call(void* user) {
  auto* s = static_cast<State*>(user);
  sk_bench::must(s->world, sk_allreduce(s->comm, s->in, s->out, s->count, SK_F32, SK_SUM, nullptr),
                 "sk_allreduce");
  return 0;
}

float* memory(bench_world* world, int64_t bytes) {
  void* found = nullptr;
  if (posix_memalign(&found, 4096, size_t(bytes)) != 0) bench_die(world, "out of memory");
  return static_cast<float*>(found);
}

void measure(bench_world* w, State& state, int64_t bytes) {
  state.count = bytes / int64_t(sizeof(float));
  bench_case c = {"libsk", bytes, prepare, call, &state, 0};
  bench_calibrate(w, &c, /*give_up=*/2.0);
  for (int batch = 0; batch < w->batches && c.iters > 0; ++batch) {
    bench_poison(state.out, state.count);
    bench_batch(w, &c, 5 + batch * c.iters);
    bench_check_sum(w, state.out, state.count, state.round, c.name);
    bench_report(w, &c, c.iters);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t sizes[16];
  const int size_count = argc == 7 ? bench_parse_list(argv[4], sizes, 16) : -1;
  bench_area* area = size_count > 0 ? bench_map_area(argv[1]) : nullptr;
  const int rank = area != nullptr ? std::atoi(argv[2]) : -1;
  const int ranks = area != nullptr ? std::atoi(argv[3]) : 0;
  if (rank < 0 || rank >= ranks || ranks > BENCH_RANKS_MAX || std::atoi(argv[6]) < 1) {
    fprintf(stderr, "usage: hosts_allreduce_bench AREA_FILE RANK RANKS SIZES BUDGET_MS BATCHES\n");
    return 2;
  }
  bench_world w;
  bench_world_init(&w, area, rank, ranks);
  w.budget = std::atof(argv[5]) * 1e-3;
  w.batches = std::atoi(argv[6]);
  const sk_bench::Session libsk(&w, 0);
  if (rank == 0) printf("{\"version\": \"libsk %d\"}\n", sk_version());
  int64_t most = 0;
  for (int i = 0; i < size_count; ++i) most = sizes[i] > most ? sizes[i] : most;
  State state = {&w, libsk.comm, memory(&w, most), memory(&w, most), 0, 0};
  for (int i = 0; i < size_count; ++i) measure(&w, state, sizes[i]);
  return 0;
}
