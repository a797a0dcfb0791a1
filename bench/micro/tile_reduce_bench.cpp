// The reduction that an all-reduce of two ranks consists of, out[0] = out[1] = in[0] + in[1] in
// f32, against the loop one would write by hand for exactly that, in one process.
//
// usage: tile_reduce_bench [--core C] [--rounds N]
//
// One JSON line per candidate and size goes to stdout (nanoseconds per call, one figure a round), a
// table to stderr.
#include <immintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/e2e/harness.h"
#include "lib/exec/cpu/tile/reduce.h"

namespace {

namespace cpu = sk::cpu;

struct FreeMemory {
  void operator()(void* p) const { free(p); }
};
using Floats = std::unique_ptr<float[], FreeMemory>;

Floats allocate(size_t bytes) {
  float* p = static_cast<float*>(aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (p == nullptr) {
    fprintf(stderr, "tile_reduce_bench: out of memory\n");
    exit(2);
  }
  memset(p, 0, bytes);
  return Floats(p);
}

__attribute__((target("avx512f"), noinline)) void by_hand_512(const float* x, const float* y,
                                                              float* p, float* q, size_t n,
                                                              bool stream) {
  if (stream) {
    for (size_t i = 0; i < n; i += 16) {
      const __m512 v = _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i));
      _mm512_stream_ps(p + i, v);
      _mm512_stream_ps(q + i, v);
    }
    _mm_sfence();
    return;
  }
  for (size_t i = 0; i < n; i += 16) {
    const __m512 v = _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i));
    _mm512_storeu_ps(p + i, v);
    _mm512_storeu_ps(q + i, v);
  }
}

__attribute__((target("avx2"), noinline)) void by_hand_256(const float* x, const float* y, float* p,
                                                           float* q, size_t n, bool stream) {
  for (size_t i = 0; i < n; i += 8) {
    const __m256 v = _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i));
    if (stream) {
      _mm256_stream_ps(p + i, v);
      _mm256_stream_ps(q + i, v);
    } else {
      _mm256_storeu_ps(p + i, v);
      _mm256_storeu_ps(q + i, v);
    }
  }
  _mm_sfence();
}

struct Candidate {
  std::string name;
  std::function<void()> call;
  std::vector<double> ns;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void run_size(size_t bytes, int rounds) {
  const size_t n = bytes / sizeof(float);
  const Floats x = allocate(bytes), y = allocate(bytes), p = allocate(bytes), q = allocate(bytes);
  const void* in[] = {x.get(), y.get()};
  void* out[] = {p.get(), q.get()};
  const cpu::ReduceFn fn = cpu::select_reduce(sk::DType::kF32, sk::RedOp::kSum, 2, 2);
  const auto by_hand = cpu::machine_isa() >= cpu::CpuIsa::kAvx512 ? by_hand_512 : by_hand_256;
  std::vector<Candidate> candidates;
  for (const bool stream : {false, true}) {
    if (stream && bytes < (size_t(1) << 20)) continue;
    const auto hint = stream ? cpu::StoreHint::kNonTemporal : cpu::StoreHint::kNormal;
    const std::string suffix = stream ? " streaming" : "";
    candidates.push_back({"libsk" + suffix, [=, &in, &out] { fn(in, 2, out, 2, n, hint); }, {}});
    candidates.push_back(
        {"by hand" + suffix,
         [=, &x, &y, &p, &q] { by_hand(x.get(), y.get(), p.get(), q.get(), n, stream); },
         {}});
  }
  const int calls = int(std::max<size_t>(1, (size_t(1) << 20) / bytes));
  const int count = int(candidates.size());
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 2 * count; ++i) {  // Forth and back.
      Candidate& c = candidates[size_t(i < count ? i : 2 * count - 1 - i)];
      c.call();
      const double start = bench_now();
      for (int z = 0; z < calls; ++z) c.call();
      c.ns.push_back((bench_now() - start) / calls * 1e9);
    }
  }
  for (const Candidate& c : candidates) {
    printf("{\"case\": \"%s\", \"bytes\": %zu, \"ns\": [", c.name.c_str(), bytes);
    for (size_t i = 0; i < c.ns.size(); ++i) printf("%s%.1f", i != 0 ? ", " : "", c.ns[i]);
    printf("]}\n");
    fprintf(stderr, "%9zu B  %-18s median %10.1f ns, best %10.1f ns\n", bytes, c.name.c_str(),
            median(c.ns), *std::min_element(c.ns.begin(), c.ns.end()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int core = 1, rounds = 31;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--core") == 0) core = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--rounds") == 0) rounds = std::max(1, atoi(argv[i + 1]));
  }
  bench_pin(core);
  if (cpu::machine_isa() < cpu::CpuIsa::kAvx2) {
    fprintf(stderr, "tile_reduce_bench: the hand-written loop needs AVX2\n");
    return 2;
  }
  for (const size_t bytes : {64, 512, 4096, 32768, 262144, 2 << 20, 16 << 20}) {
    run_size(bytes, rounds);
  }
  return 0;
}
