// One core: libsk's GEMM with packed weights against oneDNN and MKL, call by call in one process.
//
// The order of calls is ABBA over all candidates; each call stands between two readings of the peak
// of the unit it uses, so that a sample is a share of what the core could do just then. Candidates
// rotate three sets of A and C. Results are checked in every element at the end.
//
// usage: gemm_bench SHAPES DTYPES BUDGET_MS SHIM.so ...     (SHAPES like 512x512x512,16x16x16)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/e2e/gemm_libsk.h"
#include "bench/e2e/gemm_peers.h"
#include "bench/e2e/gemm_shapes.h"
#include "bench/e2e/probe.h"

namespace {

using sk_bench::GemmPeer;
using sk_bench::kSets;
using sk_bench::LibskGemm;
using sk_bench::Shape;

constexpr int kCallsMax = 60;

// A candidate at one shape and type: libsk when `peer` is null.
struct Entry {
  std::string name;
  std::string info;
  const GemmPeer* peer = nullptr;
  std::unique_ptr<LibskGemm> libsk;
  void* gemm[kSets] = {};
  std::vector<double> us, peak_before, peak_after;

  int run(int set) {
    if (peer != nullptr) return peer->run(gemm[set]);
    libsk->run(set);
    return 0;
  }
  float* out(int set) { return peer != nullptr ? peer->out(gemm[set]) : libsk->out(set); }
};

struct Job {
  std::vector<Shape> shapes;
  std::vector<std::string> dtypes;
  double budget_s;
  std::vector<std::string> shims;
};

void print_list(const char* name, const std::vector<double>& values, const char* format) {
  printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) printf(", ");
    printf(format, values[i]);
  }
  printf("]");
}

// Of the unit that the type uses; a CPU without bf16 products computes them in f32.
double peak(bool bf16) {
  const double rate = bf16 ? sk_bench::bf16_peak_gflops() : 0.0;
  return rate > 0.0 ? rate : sk_bench::f32_peak_gflops();
}

bool add_peer(bench_world* w, const GemmPeer& peer, const Shape& s, bool bf16, Entry* e) {
  const auto b = sk_bench::gemm_matrix(w->rank, sk_bench::kWeights, s.k * s.n);
  for (int set = 0; set < kSets; ++set) {
    const auto a = sk_bench::gemm_matrix(w->rank, static_cast<uint32_t>(set), s.m * s.k);
    e->gemm[set] = peer.create(s.m, s.n, s.k, bf16, a.data(), b.data());
    if (e->gemm[set] == nullptr) return false;
    bench_poison(peer.out(e->gemm[set]), s.m * s.n);
  }
  e->peer = &peer;
  e->name = peer.name;
  e->info = peer.info(e->gemm[0]);
  return true;
}

void measure(bench_world* w, std::vector<Entry>& entries, bool bf16, double budget_s) {
  double slowest = 1e-7;
  for (Entry& e : entries) {
    for (int set = 0; set < kSets; ++set) {  // Packing, code generation, first touch.
      const double start = bench_now();
      if (e.run(set)) bench_die(w, e.name.c_str());
      if (set > 0) slowest = std::max(slowest, bench_now() - start);
    }
  }
  const int calls = std::clamp(static_cast<int>(budget_s / slowest / 2), 2, kCallsMax);
  int turn = 0;
  const auto sample = [&](Entry& e) {
    const double before = peak(bf16);
    // A set other than the last two: its A and C have left the nearer caches.
    const int set = ++turn % kSets;
    const double start = bench_now();
    const int failed = e.run(set);
    const double end = bench_now();
    if (failed) bench_die(w, e.name.c_str());
    e.peak_before.push_back(before);
    e.peak_after.push_back(peak(bf16));
    e.us.push_back((end - start) * 1e6);
  };
  for (int call = 0; call < calls; ++call) {
    for (size_t i = 0; i < entries.size(); ++i) sample(entries[i]);
    for (size_t i = entries.size(); i-- > 0;) sample(entries[i]);
  }
}

void run_shape(bench_world* w, sk_comm* comm, const std::vector<GemmPeer>& peers, const Shape& s,
               bool bf16, double budget_s) {
  std::vector<Entry> entries(1);
  entries[0].name = "libsk";
  entries[0].info = "sk_allreduce_gemm, one rank, packed";
  entries[0].libsk = std::make_unique<LibskGemm>(w, comm, s, bf16, w->rank);
  for (const GemmPeer& peer : peers) {
    Entry e;
    if (add_peer(w, peer, s, bf16, &e)) entries.push_back(std::move(e));
  }
  measure(w, entries, bf16, budget_s);
  for (Entry& e : entries) {
    for (int set = 0; set < kSets; ++set) {
      const auto which = static_cast<uint32_t>(set);
      if (sk_bench::gemm_wrong_row(s, which, e.out(set), w->rank, w->rank + 1, which) >= 0) {
        bench_die(w, (e.name + ": wrong product").c_str());
      }
    }
    printf("{\"case\": \"%s\", \"info\": \"%s\", \"dtype\": \"%s\", \"shape\": [%lld, %lld, %lld]",
           e.name.c_str(), e.info.c_str(), bf16 ? "bf16" : "f32", static_cast<long long>(s.m),
           static_cast<long long>(s.n), static_cast<long long>(s.k));
    print_list("us", e.us, "%.3f");
    print_list("peak_before", e.peak_before, "%.1f");
    print_list("peak_after", e.peak_after, "%.1f");
    printf("}\n");
    fflush(stdout);
    for (void* gemm : e.gemm) {
      if (gemm != nullptr) e.peer->free(gemm);
    }
  }
}

int rank_main(const Job& job, bench_world* w) {
  std::vector<GemmPeer> peers;
  for (const std::string& shim : job.shims) {
    GemmPeer peer;
    if (sk_bench::load_gemm_peer(shim, &peer)) peers.push_back(peer);
  }
  sk_bench::Session session(w, 0);
  for (const Shape& s : job.shapes) {
    for (const std::string& dtype : job.dtypes) {
      run_shape(w, session.comm, peers, s, dtype == "bf16", job.budget_s);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Job job = {};
  if (argc < 4 || !sk_bench::parse_shapes(argv[1], &job.shapes) ||
      !sk_bench::parse_dtypes(argv[2], &job.dtypes)) {
    fprintf(stderr, "usage: gemm_bench SHAPES DTYPES BUDGET_MS SHIM.so ...\n");
    return 2;
  }
  job.budget_s = atof(argv[3]) * 1e-3;
  job.shims.assign(argv + 4, argv + argc);
  return sk_bench::run_ranks(1, [&job](bench_world* w) { return rank_main(job, w); });
}
