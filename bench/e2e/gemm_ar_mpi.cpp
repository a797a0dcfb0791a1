// The unfused pair beside libsk's fused call: a peer's GEMM with packed weights, then
// MPI_Allreduce of its f32 result.
//
// Cases per shape, type and GEMM peer: `pair` and `gemm` alone; per shape and type `comm` alone
// (MPI_Allreduce of C's size, inputs rewritten). Three sets of A and C rotate; every element of the
// pair's result is checked. The GEMM peer is named in the case: "f32 512x512x512 pair mkl". CASES
// lists those that are wanted, separated by commas, for a call of a large one takes long.
//
// usage: mpirun -n R gemm_ar_mpi AREA_FILE SHAPES DTYPES BUDGET_MS BATCHES CASES SHIM.so ...
#include <mpi.h>

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/e2e/gemm_data.h"
#include "bench/e2e/gemm_peers.h"
#include "bench/e2e/gemm_shapes.h"
#include "bench/e2e/harness.h"

namespace {

using sk_bench::GemmPeer;
using sk_bench::Shape;

constexpr int kSets = 3;

struct State {
  bench_world* world;
  const GemmPeer* peer;
  void* gemm[kSets];
  float* in;
  float* out[kSets];
  int64_t count;
  int set;
  int round;
};

void next_set(void* user, int round) { static_cast<State*>(user)->set = round % kSets; }

int reduce(const float* in, float* out, int64_t count) {
  return MPI_Allreduce(in, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) !=
         MPI_SUCCESS;
}

int call_gemm(void* user) {
  auto* s = static_cast<State*>(user);
  return s->peer->run(s->gemm[s->set]);
}

int call_pair(void* user) {
  auto* s = static_cast<State*>(user);
  if (s->peer->run(s->gemm[s->set])) return 1;
  return reduce(s->peer->out(s->gemm[s->set]), s->out[s->set], s->count);
}

void refill(void* user, int round) {
  auto* s = static_cast<State*>(user);
  s->round = round;
  bench_fill(s->in, s->count, s->world->rank, round);
}

int call_comm(void* user) {
  auto* s = static_cast<State*>(user);
  return reduce(s->in, s->out[0], s->count);
}

float* allocate(bench_world* w, int64_t count) {
  void* p = nullptr;
  if (posix_memalign(&p, 4096, static_cast<size_t>(count) * sizeof(float)) != 0) {
    bench_die(w, "out of memory");
  }
  bench_poison(static_cast<float*>(p), count);
  return static_cast<float*>(p);
}

void measure(bench_world* w, const std::string& name, State* s, void (*prepare)(void*, int),
             int (*call)(void*)) {
  bench_case c = {name.c_str(), s->count * 4, prepare, call, s, 0};
  bench_calibrate(w, &c, /*give_up=*/60.0);
  for (int batch = 0; batch < w->batches; ++batch) {
    bench_batch(w, &c, 5 + batch * c.iters);
    bench_report(w, &c, c.iters);
  }
}

std::set<std::string> split(const char* text) {
  std::set<std::string> parts;
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) parts.insert(item);
  return parts;
}

void run_peer(bench_world* w, const GemmPeer& peer, const Shape& shape, bool bf16,
              const std::set<std::string>& wanted, const std::string& label, State* s) {
  const std::string pair = label + " pair " + peer.name, gemm = label + " gemm " + peer.name;
  if (!wanted.contains(pair) && !wanted.contains(gemm)) return;
  const auto b = sk_bench::gemm_matrix(w->rank, sk_bench::kWeights, shape.k * shape.n);
  s->peer = &peer;
  for (int set = 0; set < kSets; ++set) {
    const auto a = sk_bench::gemm_matrix(w->rank, static_cast<uint32_t>(set), shape.m * shape.k);
    s->gemm[set] = peer.create(shape.m, shape.n, shape.k, bf16, a.data(), b.data());
    if (s->gemm[set] == nullptr) return;  // It has said why: this type is not for this CPU.
    bench_poison(s->out[set], s->count);
  }
  if (wanted.contains(pair)) {
    measure(w, pair, s, next_set, call_pair);
    for (int set = 0; set < kSets; ++set) {
      const auto which = static_cast<uint32_t>(set);
      if (sk_bench::gemm_wrong_row(shape, which, s->out[set], 0, w->ranks, which) >= 0) {
        bench_die(w, (peer.name + ": wrong result of the pair").c_str());
      }
    }
  }
  if (wanted.contains(gemm)) measure(w, gemm, s, next_set, call_gemm);
  for (void* packed : s->gemm) peer.free(packed);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<Shape> shapes;
  std::vector<std::string> dtypes;
  if (argc < 7 || !sk_bench::parse_shapes(argv[2], &shapes) ||
      !sk_bench::parse_dtypes(argv[3], &dtypes)) {
    fprintf(stderr,
            "usage: gemm_ar_mpi AREA_FILE SHAPES DTYPES BUDGET_MS BATCHES CASES SHIM.so ...\n");
    return 2;
  }
  bench_area* area = bench_map_area(argv[1]);
  if (area == nullptr) {
    perror("bench: the area file");
    return 2;
  }
  bench_world world;
  bench_world* w = &world;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bench_world_init(w, area, rank, ranks);
  bench_pin(rank);  // The libraries loaded below see one core.
  w->budget = atof(argv[4]) * 1e-3;
  w->batches = atoi(argv[5]);
  w->iters_min = kSets;
  const std::set<std::string> wanted = split(argv[6]);
  std::vector<GemmPeer> peers(static_cast<size_t>(argc - 7));
  for (size_t i = 0; i < peers.size(); ++i) {
    if (!sk_bench::load_gemm_peer(argv[7 + i], &peers[i])) bench_die(w, argv[7 + i]);
  }
  for (const Shape& shape : shapes) {
    State s = {};
    s.world = w;
    s.count = shape.m * shape.n;
    s.in = allocate(w, s.count);
    for (float*& out : s.out) out = allocate(w, s.count);
    for (const std::string& dtype : dtypes) {
      char label[64];
      snprintf(label, sizeof label, "%s %lldx%lldx%lld", dtype.c_str(),
               static_cast<long long>(shape.m), static_cast<long long>(shape.n),
               static_cast<long long>(shape.k));
      const std::string comm = std::string(label) + " comm";
      if (wanted.contains(comm)) {
        measure(w, comm, &s, refill, call_comm);
        bench_check_sum(w, s.out[0], s.count, s.round, "MPI_Allreduce");
      }
      for (const GemmPeer& peer : peers) {
        run_peer(w, peer, shape, dtype == "bf16", wanted, label, &s);
      }
    }
    free(s.in);
    for (float* out : s.out) free(out);
  }
  MPI_Finalize();
  return 0;
}
