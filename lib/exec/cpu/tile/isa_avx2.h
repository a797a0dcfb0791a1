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
};

}  // namespace
}  // namespace sk::cpu
