#include "bench/e2e/direct_loop.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

namespace sk_bench {
namespace {

using Slice = void (*)(float* const* in, float* const* out, int ranks, int64_t begin, int64_t end,
                       bool non_temporal);

void add_scalar(float* const* in, float* const* out, int ranks, int64_t begin, int64_t end, bool) {
  for (int64_t i = begin; i < end; ++i) {
    float sum = in[0][i];
    for (int r = 1; r < ranks; ++r) sum += in[r][i];
    for (int r = 0; r < ranks; ++r) out[r][i] = sum;
  }
}

#if defined(__x86_64__)
// `begin` is a multiple of 16 elements and the buffers are aligned to a line.
__attribute__((target("avx512f"))) void add_avx512(float* const* in, float* const* out, int ranks,
                                                   int64_t begin, int64_t end, bool non_temporal) {
  int64_t i = begin;
  if (ranks == 2) {  // Pointers in registers: the loop that sets the floor.
    const float *x = in[0], *y = in[1];
    float *p = out[0], *q = out[1];
    for (; non_temporal && i + 16 <= end; i += 16) {
      const __m512 sum = _mm512_add_ps(_mm512_load_ps(x + i), _mm512_load_ps(y + i));
      _mm512_stream_ps(p + i, sum);
      _mm512_stream_ps(q + i, sum);
    }
    for (; i + 16 <= end; i += 16) {
      const __m512 sum = _mm512_add_ps(_mm512_load_ps(x + i), _mm512_load_ps(y + i));
      _mm512_store_ps(p + i, sum);
      _mm512_store_ps(q + i, sum);
    }
  }
  for (; i + 16 <= end; i += 16) {
    __m512 sum = _mm512_load_ps(in[0] + i);
    for (int r = 1; r < ranks; ++r) sum = _mm512_add_ps(sum, _mm512_load_ps(in[r] + i));
    for (int r = 0; r < ranks; ++r) {
      non_temporal ? _mm512_stream_ps(out[r] + i, sum) : _mm512_store_ps(out[r] + i, sum);
    }
  }
  add_scalar(in, out, ranks, i, end, false);
  if (non_temporal) _mm_sfence();
}

__attribute__((target("avx2"))) void add_avx2(float* const* in, float* const* out, int ranks,
                                              int64_t begin, int64_t end, bool non_temporal) {
  int64_t i = begin;
  if (ranks == 2) {
    const float *x = in[0], *y = in[1];
    float *p = out[0], *q = out[1];
    for (; non_temporal && i + 8 <= end; i += 8) {
      const __m256 sum = _mm256_add_ps(_mm256_load_ps(x + i), _mm256_load_ps(y + i));
      _mm256_stream_ps(p + i, sum);
      _mm256_stream_ps(q + i, sum);
    }
    for (; i + 8 <= end; i += 8) {
      const __m256 sum = _mm256_add_ps(_mm256_load_ps(x + i), _mm256_load_ps(y + i));
      _mm256_store_ps(p + i, sum);
      _mm256_store_ps(q + i, sum);
    }
  }
  for (; i + 8 <= end; i += 8) {
    __m256 sum = _mm256_load_ps(in[0] + i);
    for (int r = 1; r < ranks; ++r) sum = _mm256_add_ps(sum, _mm256_load_ps(in[r] + i));
    for (int r = 0; r < ranks; ++r) {
      non_temporal ? _mm256_stream_ps(out[r] + i, sum) : _mm256_store_ps(out[r] + i, sum);
    }
  }
  add_scalar(in, out, ranks, i, end, false);
  if (non_temporal) _mm_sfence();
}
#endif

Slice pick() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return add_avx512;
  if (__builtin_cpu_supports("avx2")) return add_avx2;
#endif
  return add_scalar;
}

}  // namespace

void direct_barrier(DirectLoop* loop) {
  bench_world* w = loop->world;
  const uint32_t turn = ++loop->turn;
  __atomic_store_n(&loop->flags[w->rank].value, turn, __ATOMIC_RELEASE);
  for (int r = 0; r < w->ranks; ++r) {
    if (r != w->rank) bench_wait(w, &loop->flags[r].value, turn);
  }
}

void direct_allreduce(DirectLoop* loop) {
  static const Slice kAdd = pick();
  const bench_world* w = loop->world;
  // Slices of whole lines, so that no line has two writers.
  const int64_t slice = ((loop->count + w->ranks - 1) / w->ranks + 15) / 16 * 16;
  const int64_t begin = std::min(loop->count, slice * w->rank);
  const int64_t end = std::min(loop->count, begin + slice);
  direct_barrier(loop);
  if (begin < end) kAdd(loop->in, loop->out, w->ranks, begin, end, loop->non_temporal);
  direct_barrier(loop);
}

}  // namespace sk_bench
