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

  static Vec<uint32_t, 64> widen_u16(Vec<uint16_t, 32> m) {
    return reinterpret_cast<Vec<uint32_t, 64>>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(m)));
  }
  static Vec<uint16_t, 32> narrow_u32(Vec<uint32_t, 64> a) {
    return reinterpret_cast<Vec<uint16_t, 32>>(_mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(a)));
  }

  // to[i * to_stride + r] = from[r * stride + i] for 16 values of r and the largest multiple of 4
  // of `count` values of i, which is returned.
  static int64_t turn_16(const void* from, int64_t stride, int64_t count, uint32_t* to,
                         int64_t to_stride) {
    const int64_t whole = count & ~int64_t(3);
    const float* row = static_cast<const float*>(from);  // Only moved, never computed with.
    for (int64_t i = 0; i < whole; i += 4, row += 4) {
      const __m512 z0 = gather_blocks(row, 4 * stride);
      const __m512 z1 = gather_blocks(row + stride, 4 * stride);
      const __m512 z2 = gather_blocks(row + 2 * stride, 4 * stride);
      const __m512 z3 = gather_blocks(row + 3 * stride, 4 * stride);
      const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(z0, z1));
      const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(z0, z1));
      const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(z2, z3));
      const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(z2, z3));
      uint32_t* at = to + i * to_stride;
      _mm512_storeu_pd(at, _mm512_unpacklo_pd(low01, low23));
      _mm512_storeu_pd(at + to_stride, _mm512_unpackhi_pd(low01, low23));
      _mm512_storeu_pd(at + 2 * to_stride, _mm512_unpacklo_pd(high01, high23));
      _mm512_storeu_pd(at + 3 * to_stride, _mm512_unpackhi_pd(high01, high23));
    }
    return whole;
  }
  static int64_t turn_16(const void* from, int64_t stride, int64_t count, float* to,
                         int64_t to_stride) {
    return turn_16(from, stride, count, reinterpret_cast<uint32_t*>(to), to_stride);
  }

  // Four items of each of four rows.
  static __m512 gather_blocks(const float* from, int64_t stride) {
    __m512 z = _mm512_castps128_ps512(_mm_loadu_ps(from));
    z = _mm512_insertf32x4(z, _mm_loadu_ps(from + stride), 1);
    z = _mm512_insertf32x4(z, _mm_loadu_ps(from + 2 * stride), 2);
    return _mm512_insertf32x4(z, _mm_loadu_ps(from + 3 * stride), 3);
  }
};

}  // namespace
}  // namespace sk::cpu
