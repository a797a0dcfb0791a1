// libsk's all-gather fused with a GEMM, and what it stands beside, in one launch of R processes.
//
// Cases per shape and type, where A is M x K at each rank and C has R * M rows: `fused` and
// `fused symmetric` (sk_allgather_gemm, A in ordinary memory and in that of sk_alloc()), `comm`
// (sk_allgather of A, symmetric), `gemm libsk` and, for each GEMM peer, `gemm NAME` (all rows, on
// each rank alone) and `pair NAME` (that sk_allgather into the peer's A, then its GEMM). Weights
// are packed, three sets of A and C rotate, A is rewritten before each call that passes it on, and
// every element of what is fused and of pairs is checked.
//
// usage: gemm_ag_bench RANKS SHAPES DTYPES BUDGET_MS BATCHES [SHIM.so ...]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/e2e/gemm_libsk.h"
#include "bench/e2e/gemm_peers.h"
#include "bench/e2e/gemm_shapes.h"

namespace {

using sk_bench::GemmPeer;
using sk_bench::kSets;
using sk_bench::kWeights;
using sk_bench::LibskGemm;
using sk_bench::must;
using sk_bench::Shape;

struct Job {
  int ranks = 0;
  std::vector<Shape> shapes;
  std::vector<std::string> dtypes;
  double budget_s = 0.0;
  int batches = 0;
  std::vector<std::string> shims;
};

// One rank's matrices of one shape and type.
struct Data {
  Data(bench_world* w, sk_comm* comm, const Shape& s, bool is_bf16)
      : world(w), comm(comm), shape(s), bf16(is_bf16), dtype(is_bf16 ? SK_BF16 : SK_F32) {
    const auto a_bytes = static_cast<uint64_t>(s.m * s.k) * (bf16 ? 2 : 4);
    for (int set = 0; set < kSets; ++set) {
      values[set] = sk_bench::gemm_matrix(w->rank, static_cast<uint32_t>(set), s.m * s.k);
      ordinary[set] = sk_bench::stored(w, values[set], bf16);
      must(w, sk_alloc(comm, a_bytes, &symmetric[set]), "sk_alloc");
      must(w, sk_alloc(comm, a_bytes * static_cast<uint64_t>(w->ranks), &gathered[set]),
           "sk_alloc");
      const auto count = static_cast<size_t>(w->ranks * s.m * s.n);
      if (posix_memalign(reinterpret_cast<void**>(&c[set]), 4096, count * sizeof(float)) != 0)
        bench_die(w, "out of memory");
      bench_poison(c[set], static_cast<int64_t>(count));
    }
    void* b = sk_bench::stored(w, sk_bench::gemm_matrix(w->rank, kWeights, s.k * s.n), bf16);
    const sk_tensor weights = sk_bench::matrix_of(b, dtype, s.k, s.n);
    must(w, sk_pack(comm, &weights, 0, &packed), "sk_pack");
    ::free(b);
  }
  ~Data() {
    sk_packed_free(packed);
    for (int set = 0; set < kSets; ++set) {
      ::free(ordinary[set]);
      ::free(c[set]);
      must(world, sk_free(comm, symmetric[set]), "sk_free");
      must(world, sk_free(comm, gathered[set]), "sk_free");
    }
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  // Every rank's rows of `found`, by B of this rank.
  void check(int set, const float* found, const std::string& name) const {
    const auto which = static_cast<uint32_t>(set);
    for (int rank = 0; rank < world->ranks; ++rank) {
      const float* rows = found + rank * shape.m * shape.n;
      if (sk_bench::gemm_wrong_row(shape, which, rows, rank, rank + 1, which, world->rank) >= 0)
        bench_die(world, (name + ": wrong result").c_str());
    }
  }

  bench_world* world;
  sk_comm* comm;
  Shape shape;
  bool bf16;
  int32_t dtype;
  std::vector<float> values[kSets];
  void* ordinary[kSets] = {};
  void* symmetric[kSets] = {};
  void* gathered[kSets] = {};
  float* c[kSets] = {};
  sk_packed* packed = nullptr;
};

struct State {
  Data* data;
  void** a = nullptr;  // What is rewritten before a call and passed on in it.
  const GemmPeer* peer = nullptr;
  void* gemm[kSets] = {};
  LibskGemm* own = nullptr;
  int set = 0;
};

void next_set(void* user, int round) {
  auto* s = static_cast<State*>(user);
  s->set = round % kSets;
  if (s->a != nullptr) sk_bench::store(s->data->values[s->set], s->data->bf16, s->a[s->set]);
}

int call_fused(void* user) {
  auto* s = static_cast<State*>(user);
  const Data& d = *s->data;
  const sk_tensor a = sk_bench::matrix_of(s->a[s->set], d.dtype, d.shape.m, d.shape.k);
  sk_tensor c = sk_bench::matrix_of(d.c[s->set], SK_F32, d.world->ranks * d.shape.m, d.shape.n);
  must(d.world, sk_allgather_gemm(d.comm, &a, nullptr, d.packed, &c, 0, nullptr),
       "sk_allgather_gemm");
  return 0;
}

int call_comm(void* user) {
  auto* s = static_cast<State*>(user);
  const Data& d = *s->data;
  must(d.world,
       sk_allgather(d.comm, s->a[s->set], d.gathered[s->set], d.shape.m * d.shape.k, d.dtype,
                    nullptr),
       "sk_allgather");
  return 0;
}

int call_peer(void* user) {
  auto* s = static_cast<State*>(user);
  return s->peer->run(s->gemm[s->set]);
}

int call_pair(void* user) { return call_comm(user) != 0 ? 1 : call_peer(user); }

int call_own(void* user) {
  auto* s = static_cast<State*>(user);
  s->own->run(s->set);
  return 0;
}

void measure(Data& data, const std::string& name, State* state, int (*call)(void*)) {
  bench_world* w = data.world;
  bench_case c = {
      name.c_str(), data.shape.m * data.shape.k * (data.bf16 ? 2 : 4), next_set, call, state, 0};
  bench_calibrate(w, &c, /*give_up=*/60.0);
  for (int batch = 0; batch < w->batches; ++batch) {
    bench_batch(w, &c, 5 + batch * c.iters);
    bench_report(w, &c, c.iters);
  }
}

void run_peer(Data& data, const std::string& label, const GemmPeer& peer) {
  const Shape& s = data.shape;
  const int64_t rows = data.world->ranks * s.m;
  const auto b = sk_bench::gemm_matrix(data.world->rank, kWeights, s.k * s.n);
  const std::vector<float> none(static_cast<size_t>(rows * s.k));
  State state = {&data, data.symmetric, &peer};
  for (int set = 0; set < kSets; ++set) {
    state.gemm[set] = peer.create(rows, s.n, s.k, data.bf16, none.data(), b.data());
    if (state.gemm[set] == nullptr) return;  // It has said why: this type is not for this CPU.
    peer.use_a(state.gemm[set], data.gathered[set]);
  }
  measure(data, label + " pair " + peer.name, &state, call_pair);
  for (int set = 0; set < kSets; ++set) data.check(set, peer.out(state.gemm[set]), peer.name);
  state.a = nullptr;
  measure(data, label + " gemm " + peer.name, &state, call_peer);
  for (void* gemm : state.gemm) peer.free(gemm);
}

void run_fused(Data& data, const std::string& name, void** a) {
  State state = {&data, a};
  for (float* c : data.c) bench_poison(c, data.world->ranks * data.shape.m * data.shape.n);
  measure(data, name, &state, call_fused);
  for (int set = 0; set < kSets; ++set) data.check(set, data.c[set], name);
}

void run_shape(bench_world* w, sk_comm* comm, sk_comm* alone, const Shape& s, bool bf16,
               const std::vector<GemmPeer>& peers) {
  char label[64];
  snprintf(label, sizeof label, "%s %lldx%lldx%lld", bf16 ? "bf16" : "f32",
           static_cast<long long>(s.m), static_cast<long long>(s.n), static_cast<long long>(s.k));
  const std::string name = label;
  Data data(w, comm, s, bf16);
  LibskGemm whole(w, alone, {w->ranks * s.m, s.n, s.k}, bf16, w->rank);
  State gather = {&data, data.symmetric}, own = {&data};
  own.own = &whole;
  run_fused(data, name + " fused", data.ordinary);
  run_fused(data, name + " fused symmetric", data.symmetric);
  measure(data, name + " comm", &gather, call_comm);
  measure(data, name + " gemm libsk", &own, call_own);
  for (const GemmPeer& peer : peers) run_peer(data, name, peer);
}

int rank_main(const Job& job, bench_world* w) {
  w->budget = job.budget_s;
  w->batches = job.batches;
  w->iters_min = kSets;
  std::vector<GemmPeer> peers(job.shims.size());
  for (size_t i = 0; i < peers.size(); ++i) {
    if (!sk_bench::load_gemm_peer(job.shims[i], &peers[i])) bench_die(w, job.shims[i].c_str());
  }
  sk_bench::Session session(w, 0);
  sk_bench::Alone alone(w);
  for (const Shape& s : job.shapes) {
    for (const std::string& dtype : job.dtypes)
      run_shape(w, session.comm, alone.comm, s, dtype == "bf16", peers);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  if (argc >= 6) {
    job.ranks = atoi(argv[1]);
    job.budget_s = atof(argv[4]) * 1e-3;
    job.batches = atoi(argv[5]);
    job.shims.assign(argv + 6, argv + argc);
  }
  if (job.ranks < 1 || job.ranks > BENCH_RANKS_MAX || job.batches < 1 ||
      !sk_bench::parse_shapes(argv[2], &job.shapes) ||
      !sk_bench::parse_dtypes(argv[3], &job.dtypes)) {
    fprintf(stderr,
            "usage: gemm_ag_bench RANKS(1-%d) SHAPES DTYPES BUDGET_MS BATCHES [SHIM.so ...]\n",
            BENCH_RANKS_MAX);
    return 2;
  }
  return sk_bench::run_ranks(job.ranks, [&job](bench_world* w) { return rank_main(job, w); });
}
