// Reads the probes of one core, or where cores 0 and 1 lie to each other; prints one JSON line.
//
// usage: bench_probe CORE | bench_probe place
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/e2e/harness.h"
#include "bench/e2e/probe.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: bench_probe CORE | bench_probe place\n");
    return 2;
  }
  if (strcmp(argv[1], "place") == 0) {
    const bench_place place = sk_bench::place_of(0, 1);
    printf("{\"place\": [%.1f, %.3f, %.3f]}\n", place.handoff_ns, place.together, place.chain_us);
    return 0;
  }
  constexpr size_t kCopyBytes = 32 << 20;  // Beyond any private cache.
  bench_pin(atoi(argv[1]));
  void *a = nullptr, *b = nullptr;
  if (posix_memalign(&a, 64, kCopyBytes) != 0 || posix_memalign(&b, 64, kCopyBytes) != 0) return 2;
  memset(a, 1, kCopyBytes);
  memset(b, 2, kCopyBytes);
  sk_bench::f32_peak_gflops();  // Wakes the vector units up before the clock is read.
  const double latency = sk_bench::fma_latency_ns();
  const double f32 = sk_bench::f32_peak_gflops();
  const double bf16 = sk_bench::bf16_peak_gflops();
  const double copy = sk_bench::copy_gbs(static_cast<char*>(b), static_cast<char*>(a), kCopyBytes);
  printf(
      "{\"core\": %d, \"fma_ns\": %.4f, \"f32_gflops\": %.2f, \"bf16_gflops\": %.2f, "
      "\"bf16_unit\": \"%s\", \"copy_gbs\": %.2f}\n",
      atoi(argv[1]), latency, f32, bf16, sk_bench::bf16_unit(), copy);
  return 0;
}
