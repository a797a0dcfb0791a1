// A product fused with an all-reduce between hosts, beside the same as two calls: a product of each
// rank alone, then an all-reduce of it. Batches of both take turns, so that what others take of the
// machine falls on both. SK_NET_TLS says whether ranks encrypt.
//
// usage: hosts_fused_bench AREA_FILE RANK RANKS SHAPES DTYPES BUDGET_MS BATCHES   one for each rank
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/e2e/gemm_libsk.h"
#include "bench/e2e/gemm_shapes.h"

namespace {

using sk_bench::kSets;
using sk_bench::LibskGemm;
using sk_bench::Shape;

struct Fused {
  LibskGemm gemm;
  int set = 0;
};

struct Pair {
  bench_world* world;
  sk_comm* comm;
  LibskGemm gemm;
  std::vector<float> out;
  int set = 0;
};

void next_fused(void* user, int round) { static_cast<Fused*>(user)->set = round % kSets; }
void next_pair(void* user, int round) { static_cast<Pair*>(user)->set = round % kSets; }

int call_fused(void* user) {
  auto* s = static_cast<Fused*>(user);
  s->gemm.run(s->set);
  return 0;
}

int call_pair(void* user) {
  auto* s = static_cast<Pair*>(user);
  s->gemm.run(s->set);
  sk_bench::must(s->world,
                 sk_allreduce(s->comm, s->gemm.out(s->set), s->out.data(),
                              static_cast<int64_t>(s->out.size()), SK_F32, SK_SUM, nullptr),
                 "sk_allreduce");
  return 0;
}

void check(bench_world* w, const Shape& shape, int set, const float* out, const char* name) {
  const auto which = static_cast<uint32_t>(set);
  if (sk_bench::gemm_wrong_row(shape, which, out, 0, w->ranks, which) >= 0)
    bench_die(w, (std::string(name) + ": wrong result").c_str());
}

void measure(bench_world* w, sk_comm* comm, sk_comm* alone, const Shape& shape, bool bf16) {
  const auto elements = static_cast<size_t>(shape.m * shape.n);
  Fused fused = {LibskGemm(w, comm, shape, bf16, w->rank)};
  Pair pair = {w, comm, LibskGemm(w, alone, shape, bf16, w->rank), std::vector<float>(elements)};
  char label[64];
  snprintf(label, sizeof label, "%s %lldx%lldx%lld", bf16 ? "bf16" : "f32",
           static_cast<long long>(shape.m), static_cast<long long>(shape.n),
           static_cast<long long>(shape.k));
  const std::string names[] = {std::string(label) + " fused", std::string(label) + " pair"};
  const auto bytes = static_cast<int64_t>(elements * sizeof(float));
  bench_case cases[] = {{names[0].c_str(), bytes, next_fused, call_fused, &fused, 0},
                        {names[1].c_str(), bytes, next_pair, call_pair, &pair, 0}};
  for (bench_case& c : cases) bench_calibrate(w, &c, /*give_up=*/10.0);
  cases[0].iters = cases[1].iters = std::min(cases[0].iters, cases[1].iters);
  for (int batch = 0; batch < w->batches; ++batch) {
    for (bench_case& c : cases) {
      bench_batch(w, &c, 5 + batch * c.iters);
      bench_report(w, &c, c.iters);
    }
  }
  for (int set = 0; set < kSets; ++set) check(w, shape, set, fused.gemm.out(set), names[0].c_str());
  check(w, shape, pair.set, pair.out.data(), names[1].c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Shape> shapes;
  std::vector<std::string> dtypes;
  const bool is_read = argc == 8 && sk_bench::parse_shapes(argv[4], &shapes) &&
                       sk_bench::parse_dtypes(argv[5], &dtypes);
  bench_area* area = is_read ? bench_map_area(argv[1]) : nullptr;
  const int rank = area != nullptr ? std::atoi(argv[2]) : -1;
  const int ranks = area != nullptr ? std::atoi(argv[3]) : 0;
  if (rank < 0 || rank >= ranks || ranks > BENCH_RANKS_MAX || std::atoi(argv[7]) < 1) {
    fprintf(stderr,
            "usage: hosts_fused_bench AREA_FILE RANK RANKS SHAPES DTYPES BUDGET_MS BATCHES\n");
    return 2;
  }
  bench_world w;
  bench_world_init(&w, area, rank, ranks);
  w.budget = std::atof(argv[6]) * 1e-3;
  w.batches = std::atoi(argv[7]);
  w.iters_min = 3;  // At least one call per set of A and C.
  const sk_bench::Session libsk(&w, 0);
  const sk_bench::Alone alone(&w);
  if (rank == 0) printf("{\"version\": \"libsk %d\"}\n", sk_version());
  for (const Shape& shape : shapes) {
    for (const std::string& dtype : dtypes)
      measure(&w, libsk.comm, alone.comm, shape, dtype == "bf16");
  }
  return 0;
}
