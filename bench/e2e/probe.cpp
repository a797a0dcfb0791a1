#include "bench/e2e/probe.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "bench/e2e/harness.h"

namespace sk_bench {
namespace {

constexpr int kWindows = 5;
volatile float g_sink;  // Keeps the chains alive.

// The rate of the best of kWindows windows; `window` returns seconds, `work` is what it did.
template <typename Window>
double best_rate(double work, Window window) {
  double best = 0.0;
  for (int i = 0; i < kWindows; ++i) best = std::max(best, work / window());
  return best;
}

__attribute__((target("avx2,fma"), noinline)) double latency_window(long steps) {
  __m128 x = _mm_set1_ps(0.5f);
  const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(1e-4f);
  const double start = bench_now();
  for (long i = 0; i < steps; ++i) {
    x = _mm_fmadd_ps(x, a, b);
    asm volatile("" : "+x"(x));
  }
  const double time = bench_now() - start;
  g_sink = _mm_cvtss_f32(x);
  return time;
}

// Twelve chains hide a latency of 4 on two ports with room to spare.
#define SK_BENCH_CHAINS(step) \
  step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) step(10) step(11)

__attribute__((target("avx512f"), noinline)) double peak_window_512(long steps) {
  __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-4f);
#define SK_BENCH_DECLARE(i) __m512 x##i = _mm512_set1_ps(i * 1e-3f);
#define SK_BENCH_STEP(i) x##i = _mm512_fmadd_ps(x##i, a, b);
#define SK_BENCH_SUM(i) sum += _mm512_cvtss_f32(x##i);
  SK_BENCH_CHAINS(SK_BENCH_DECLARE)
  const double start = bench_now();
  for (long k = 0; k < steps; ++k) {
    SK_BENCH_CHAINS(SK_BENCH_STEP)
    asm volatile("" : "+v"(a), "+v"(b));
  }
  const double time = bench_now() - start;
  float sum = 0.0f;
  SK_BENCH_CHAINS(SK_BENCH_SUM)
  g_sink = sum;
  return time;
#undef SK_BENCH_DECLARE
#undef SK_BENCH_STEP
#undef SK_BENCH_SUM
}

__attribute__((target("avx2,fma"), noinline)) double peak_window_256(long steps) {
  __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-4f);
#define SK_BENCH_DECLARE(i) __m256 x##i = _mm256_set1_ps(i * 1e-3f);
#define SK_BENCH_STEP(i) x##i = _mm256_fmadd_ps(x##i, a, b);
#define SK_BENCH_SUM(i) sum += _mm256_cvtss_f32(x##i);
  SK_BENCH_CHAINS(SK_BENCH_DECLARE)
  const double start = bench_now();
  for (long k = 0; k < steps; ++k) {
    SK_BENCH_CHAINS(SK_BENCH_STEP)
    asm volatile("" : "+x"(a), "+x"(b));
  }
  const double time = bench_now() - start;
  float sum = 0.0f;
  SK_BENCH_CHAINS(SK_BENCH_SUM)
  g_sink = sum;
  return time;
#undef SK_BENCH_DECLARE
#undef SK_BENCH_STEP
#undef SK_BENCH_SUM
}

__attribute__((target("avx512f,avx512bf16"), noinline)) double bf16_window_512(long steps) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  __m512bh b = a;
#define SK_BENCH_DECLARE(i) __m512 x##i = _mm512_set1_ps(i * 1e-3f);
#define SK_BENCH_STEP(i) x##i = _mm512_dpbf16_ps(x##i, a, b);
#define SK_BENCH_SUM(i) sum += _mm512_cvtss_f32(x##i);
  SK_BENCH_CHAINS(SK_BENCH_DECLARE)
  const double start = bench_now();
  for (long k = 0; k < steps; ++k) {
    SK_BENCH_CHAINS(SK_BENCH_STEP)
    asm volatile("" : "+v"(b));
  }
  const double time = bench_now() - start;
  float sum = 0.0f;
  SK_BENCH_CHAINS(SK_BENCH_SUM)
  g_sink = sum;
  return time;
#undef SK_BENCH_DECLARE
#undef SK_BENCH_STEP
#undef SK_BENCH_SUM
}

__attribute__((target("avx2"), noinline)) double copy_window(char* dst, const char* src,
                                                             size_t bytes) {
  const double start = bench_now();
  for (size_t i = 0; i + 32 <= bytes; i += 32) {
    const auto* from = reinterpret_cast<const __m256i*>(src + i);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + i), _mm256_load_si256(from));
  }
  _mm_sfence();
  return bench_now() - start;
}

struct alignas(64) TileConfig {
  unsigned char palette = 1;
  unsigned char start_row = 0;
  unsigned char reserved[14] = {};
  unsigned short row_bytes[16] = {};
  unsigned char rows[16] = {};
};

__attribute__((target("amx-tile,amx-bf16"), noinline)) double amx_window(long steps) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  _tile_loadconfig(&config);  // Each time: a peer's call may have released it.
  const double start = bench_now();
  for (long k = 0; k < steps; ++k) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  const double time = bench_now() - start;
  _tile_release();
  return time;
}

bool cpuid_bit(unsigned leaf, unsigned subleaf, int reg, int bit) {
  unsigned r[4] = {};
  if (!__get_cpuid_count(leaf, subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
  return (r[reg] >> bit & 1) != 0;
}

bool has_amx_bf16() {
  // The kernel grants tile state per process; ARCH_REQ_XCOMP_PERM, XTILEDATA.
  static const bool kHas =
      cpuid_bit(7, 0, 3, 22) && cpuid_bit(7, 0, 3, 24) && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
  return kHas;
}

bool has_avx512_bf16() {
  static const bool kHas = __builtin_cpu_supports("avx512f") && cpuid_bit(7, 1, 0, 5);
  return kHas;
}

}  // namespace

double fma_latency_ns() {
  constexpr long kSteps = 100'000;
  return 1e9 / best_rate(kSteps, [] { return latency_window(kSteps); });
}

double f32_peak_gflops() {
  constexpr long kSteps = 20'000;
  if (__builtin_cpu_supports("avx512f")) {
    return best_rate(kSteps * 12.0 * 32, [] { return peak_window_512(kSteps); }) / 1e9;
  }
  return best_rate(kSteps * 12.0 * 16, [] { return peak_window_256(kSteps); }) / 1e9;
}

double bf16_peak_gflops() {
  constexpr long kSteps = 2'000;
  if (has_amx_bf16()) {
    return best_rate(kSteps * 4.0 * 16384, [] { return amx_window(kSteps); }) / 1e9;
  }
  if (has_avx512_bf16()) {
    return best_rate(kSteps * 10.0 * 12 * 64, [] { return bf16_window_512(kSteps * 10); }) / 1e9;
  }
  return 0.0;
}

const char* bf16_unit() {
  return has_amx_bf16() ? "amx" : has_avx512_bf16() ? "avx512_bf16" : "none";
}

double copy_gbs(char* dst, const char* src, size_t bytes) {
  const double work = 2.0 * static_cast<double>(bytes);
  return best_rate(work, [=] { return copy_window(dst, src, bytes); }) / 1e9;
}

bench_place place_of(int core_a, int core_b) {
  constexpr double kSecondsMax = 5.0;  // The other core may be taken by others.
  bench_meeting meeting = {};
  bench_place place = {};
  const uint32_t never = 0;
  const auto take_part = [&](int party, int core) {
    uint32_t turns = 0;
    bench_pin(core);
    return bench_read_place(&meeting, party, &turns, &never, kSecondsMax, &place) != 0;
  };
  std::thread far([&] { take_part(1, core_b); });
  const bool read = take_part(0, core_a);
  far.join();
  return read ? place : bench_place{};
}

}  // namespace sk_bench
