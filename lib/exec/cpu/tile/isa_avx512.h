// AVX-512 F, BW, DQ, VL. For translation units compiled with those flags.
#include <immintrin.h>

#include "lib/exec/cpu/tile/isa_types.h"

namespace sk::cpu {
namespace {

struct Avx512 {
  static constexpr size_t kBytes = 64;

  template <typename V>
  static void stream(void* to, V v) {
    if constexpr (sizeof(V) == 64) {
      _mm512_stream_si512(static_cast<__m512i*>(to), reinterpret_cast<__m512i>(v));
    } else {
      _mm256_stream_si256(static_cast<__m256i*>(to), reinterpret_cast<__m256i>(v));
    }
  }
  static void stream_fence() { _mm_sfence(); }

  // Fewer bytes than a vector has: masked, so that nothing beyond them is touched.
  template <typename V>
  static V load_part(const void* from, size_t bytes) {
    const uint64_t mask = (uint64_t(1) << bytes) - 1;
    if constexpr (sizeof(V) == 64) {
      return reinterpret_cast<V>(_mm512_maskz_loadu_epi8(mask, from));
    } else {
      return reinterpret_cast<V>(_mm256_maskz_loadu_epi8(__mmask32(mask), from));
    }
  }
  template <typename V>
  static void store_part(void* to, V v, size_t bytes) {
    const uint64_t mask = (uint64_t(1) << bytes) - 1;
    if constexpr (sizeof(V) == 64) {
      _mm512_mask_storeu_epi8(to, mask, reinterpret_cast<__m512i>(v));
    } else {
      _mm256_mask_storeu_epi8(to, __mmask32(mask), reinterpret_cast<__m256i>(v));
    }
  }

  static Vec<float, 64> widen_f16(Vec<uint16_t, 32> m) {
    return reinterpret_cast<Vec<float, 64>>(_mm512_cvtph_ps(reinterpret_cast<__m256i>(m)));
  }
  static Vec<uint16_t, 32> narrow_f16(Vec<float, 64> a) {
    return reinterpret_cast<Vec<uint16_t, 32>>(
        _mm512_cvtps_ph(reinterpret_cast<__m512>(a), _MM_FROUND_TO_NEAREST_INT));
  }

  // to[i * rows + r] = from[r * stride + i] for r < rows <= 16 and the largest multiple of 4 of the
  // items, which is returned. Vectors of 16 rows are stored in ascending order, each overwriting
  // what the one before it wrote beyond its rows; the last is masked.
  static int64_t transpose_items(const void* from, int64_t stride, int64_t rows, int64_t count,
                                 uint32_t* to) {
    const int64_t whole = count & ~int64_t(3);
    const float* row[16];  // Only moved, never computed with.
    for (int64_t r = 0; r < 16; ++r) {
      row[r] = static_cast<const float*>(from) + (r < rows ? r : rows - 1) * stride;
    }
    const __mmask16 mask = __mmask16((1u << rows) - 1);
    for (int64_t i = 0; i < whole; i += 4) {
      const __m512 z0 = gather_blocks(row[0] + i, row[4] + i, row[8] + i, row[12] + i);
      const __m512 z1 = gather_blocks(row[1] + i, row[5] + i, row[9] + i, row[13] + i);
      const __m512 z2 = gather_blocks(row[2] + i, row[6] + i, row[10] + i, row[14] + i);
      const __m512 z3 = gather_blocks(row[3] + i, row[7] + i, row[11] + i, row[15] + i);
      const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(z0, z1));
      const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(z0, z1));
      const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(z2, z3));
      const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(z2, z3));
      uint32_t* at = to + i * rows;
      _mm512_storeu_pd(at, _mm512_unpacklo_pd(low01, low23));
      _mm512_storeu_pd(at + rows, _mm512_unpackhi_pd(low01, low23));
      _mm512_storeu_pd(at + 2 * rows, _mm512_unpacklo_pd(high01, high23));
      const __m512 last = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
      if (i + 4 < whole) {
        _mm512_storeu_ps(at + 3 * rows, last);
      } else {
        _mm512_mask_storeu_ps(at + 3 * rows, mask, last);
      }
    }
    return whole;
  }
  static int64_t transpose_items(const void* from, int64_t stride, int64_t rows, int64_t count,
                                 float* to) {
    return transpose_items(from, stride, rows, count, reinterpret_cast<uint32_t*>(to));
  }

  static __m512 gather_blocks(const float* a, const float* b, const float* c, const float* d) {
    __m512 z = _mm512_castps128_ps512(_mm_loadu_ps(a));
    z = _mm512_insertf32x4(z, _mm_loadu_ps(b), 1);
    z = _mm512_insertf32x4(z, _mm_loadu_ps(c), 2);
    return _mm512_insertf32x4(z, _mm_loadu_ps(d), 3);
  }
};

}  // namespace
}  // namespace sk::cpu
