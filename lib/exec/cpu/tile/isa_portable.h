// The instruction set of plain C++: what every processor of the target has. For inclusion in one
// translation unit's anonymous namespace each.
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "lib/exec/cpu/tile/isa_types.h"
#include "lib/op/dtype.h"

namespace sk::cpu {
namespace {

struct Portable {
  static constexpr size_t kBytes = 16;

  static void stream(void* to, Vec<float, 16> v) { stream_16(to, v); }
  static void stream(void* to, Vec<double, 16> v) { stream_16(to, v); }
  static void stream(void* to, Vec<uint32_t, 16> v) { stream_16(to, v); }
  static void stream(void* to, Vec<int32_t, 16> v) { stream_16(to, v); }
  static void stream(void* to, Vec<uint64_t, 16> v) { stream_16(to, v); }
  static void stream(void* to, Vec<int64_t, 16> v) { stream_16(to, v); }
  static void stream(void* to, Vec<uint16_t, 8> v) { store_vec(to, v); }
  static void stream(void* to, Vec<float, 8> v) { store_vec(to, v); }

#if defined(__SSE2__)
  template <typename V>
  static void stream_16(void* to, V v) {
    _mm_stream_si128(static_cast<__m128i*>(to), reinterpret_cast<__m128i>(v));
  }
  static void stream_fence() { _mm_sfence(); }
#else
  template <typename V>
  static void stream_16(void* to, V v) {
    store_vec(to, v);
  }
  static void stream_fence() {}
#endif

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

  static Vec<float, 16> widen_f16(Vec<uint16_t, 8> m) {
    Vec<float, 16> a;
    for (int i = 0; i < 4; ++i) a[i] = f16_to_f32(m[i]);
    return a;
  }
  static Vec<uint16_t, 8> narrow_f16(Vec<float, 16> a) {
    Vec<uint16_t, 8> m;
    for (int i = 0; i < 4; ++i) m[i] = f32_to_f16(a[i]);
    return m;
  }

  static Vec<uint32_t, 16> widen_u16(Vec<uint16_t, 8> m) {
    return __builtin_convertvector(m, Vec<uint32_t, 16>);
  }
  static Vec<uint16_t, 8> narrow_u32(Vec<uint32_t, 16> a) {
    return __builtin_convertvector(a, Vec<uint16_t, 8>);
  }
};

}  // namespace
}  // namespace sk::cpu
