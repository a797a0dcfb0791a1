// AVX2, FMA and F16C. For translation units compiled with those flags.
#include <immintrin.h>

#include "lib/exec/cpu/tile/isa_types.h"

namespace sk::cpu {
namespace {

struct Avx2 {
  static constexpr size_t kBytes = 32;

  template <typename V>
  static void stream(void* to, V v) {
    if constexpr (sizeof(V) == 32) {
      _mm256_stream_si256(static_cast<__m256i*>(to), reinterpret_cast<__m256i>(v));
    } else {
      _mm_stream_si128(static_cast<__m128i*>(to), reinterpret_cast<__m128i>(v));
    }
  }
  static void stream_fence() { _mm_sfence(); }

  template <typename V>
  static V load_part(const void* from, size_t bytes) {
    V v{};
    __builtin_memcpy(&v, from, bytes);
    return v;
  }
  template <typename V>
  static void store_part(void* to, V v, size_t bytes) {
    __builtin_memcpy(to, &v, bytes);
  }

  static Vec<float, 32> widen_f16(Vec<uint16_t, 16> m) {
    return reinterpret_cast<Vec<float, 32>>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(m)));
  }
  static Vec<uint16_t, 16> narrow_f16(Vec<float, 32> a) {
    return reinterpret_cast<Vec<uint16_t, 16>>(
        _mm256_cvtps_ph(reinterpret_cast<__m256>(a), _MM_FROUND_TO_NEAREST_INT));
  }

  static Vec<uint32_t, 32> widen_u16(Vec<uint16_t, 16> m) {
    return reinterpret_cast<Vec<uint32_t, 32>>(_mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(m)));
  }
  static Vec<uint16_t, 16> narrow_u32(Vec<uint32_t, 32> a) {
    const __m256i low = _mm256_and_si256(reinterpret_cast<__m256i>(a), _mm256_set1_epi32(0xffff));
    const __m256i halves = _mm256_packus_epi32(low, low);  // Of each half, twice.
    return reinterpret_cast<Vec<uint16_t, 16>>(
        _mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0x08)));
  }

  // Within lanes: an element of `a`, then one of `b`, from the first or the second half of each.
  static Vec<uint16_t, 32> unpack_low(Vec<uint16_t, 32> a, Vec<uint16_t, 32> b) {
    return reinterpret_cast<Vec<uint16_t, 32>>(
        _mm256_unpacklo_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  static Vec<uint16_t, 32> unpack_high(Vec<uint16_t, 32> a, Vec<uint16_t, 32> b) {
    return reinterpret_cast<Vec<uint16_t, 32>>(
        _mm256_unpackhi_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  // Within lanes. Of numbers below 2^16.
  static Vec<uint16_t, 32> pack(Vec<uint32_t, 32> a, Vec<uint32_t, 32> b) {
    return reinterpret_cast<Vec<uint16_t, 32>>(
        _mm256_packus_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  static Vec<float, 32> low_lanes(Vec<float, 32> a, Vec<float, 32> b) {
    return reinterpret_cast<Vec<float, 32>>(
        _mm256_permute2f128_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), 0x20));
  }
  static Vec<float, 32> high_lanes(Vec<float, 32> a, Vec<float, 32> b) {
    return reinterpret_cast<Vec<float, 32>>(
        _mm256_permute2f128_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), 0x31));
  }
  static bool any_nan(Vec<float, 32> a, Vec<float, 32> b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(reinterpret_cast<__m256>(a),
                                            reinterpret_cast<__m256>(b), _CMP_UNORD_Q)) != 0;
  }
};

}  // namespace
}  // namespace sk::cpu
