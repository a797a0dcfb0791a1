// Vector types and element formats shared by the kernels' templates.
//
// Included by translation units that are compiled for different instruction sets. Everything here
// is static, or a template over `Isa`, a type each of those files keeps in its anonymous namespace,
// so every function has internal linkage: the linker can never let code for one processor stand in
// for another's. For the same reason these files use no inline function of any shared header, the
// standard library's included.
#ifndef SK_LIB_EXEC_CPU_TILE_ISA_TYPES_H_
#define SK_LIB_EXEC_CPU_TILE_ISA_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace sk::cpu {

// `Isa` has: kBytes, the width of a vector; stream(), a non-temporal store; load_part() and
// store_part(), the first bytes of a vector; widen_f16() and narrow_f16(); widen_u16() and
// narrow_u32(), of which the low halves stay. (__builtin_convertvector does these in parts:
// GCC 12.)

template <typename T, size_t kBytes>
struct VecOf {
  typedef T type __attribute__((vector_size(kBytes)));
};
template <typename T, size_t kBytes>
using Vec = typename VecOf<T, kBytes>::type;

template <typename V>
static inline __attribute__((always_inline)) V load_vec(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <typename V>
static inline __attribute__((always_inline)) void store_vec(void* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}

// An element type as it lies in memory (Mem) and as it is computed with (Acc). Mem and Acc have the
// same number of lanes, and what they are computed with has elements of type Sum; InRows is the
// format of rows that keep those.
template <typename Isa, typename T>
struct Plain {
  using Elem = T;
  using Acc = Vec<T, Isa::kBytes>;
  using Mem = Acc;
  using Sum = T;
  using InRows = Plain;
  static constexpr size_t kLanes = Isa::kBytes / sizeof(T);
  static Acc widen(Mem m) { return m; }
  static Mem narrow(Acc a) { return a; }
};

template <typename Isa>
struct Bf16 {
  using Elem = uint16_t;
  using Acc = Vec<float, Isa::kBytes>;
  using Mem = Vec<uint16_t, Isa::kBytes / 2>;
  using Sum = float;
  using InRows = Plain<Isa, float>;
  static constexpr size_t kLanes = Isa::kBytes / sizeof(float);
  static Acc widen(Mem m) {
    using Bits = Vec<uint32_t, Isa::kBytes>;
    const Bits bits = Isa::widen_u16(m);
    return reinterpret_cast<Acc>(bits << 16);
  }
  // As f32_to_bf16() of lib/op/dtype.h. VCVTNEPS2BF16 would lose denormals.
  static Mem narrow(Acc a) {
    using Bits = Vec<uint32_t, Isa::kBytes>;
    const Bits bits = reinterpret_cast<Bits>(a);
    const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const Bits quiet = (bits >> 16) | 0x40u;
    return Isa::narrow_u32(a != a ? quiet : rounded);
  }
};

template <typename Isa>
struct F16 {
  using Elem = uint16_t;
  using Acc = Vec<float, Isa::kBytes>;
  using Mem = Vec<uint16_t, Isa::kBytes / 2>;
  using Sum = float;
  using InRows = Plain<Isa, float>;
  static constexpr size_t kLanes = Isa::kBytes / sizeof(float);
  static Acc widen(Mem m) { return Isa::widen_f16(m); }
  static Mem narrow(Acc a) { return Isa::narrow_f16(a); }
};

// f64 sums that end as f32.
template <typename Isa>
struct F32OfF64 {
  using Elem = float;
  using Acc = Vec<double, Isa::kBytes>;
  using Mem = Vec<float, Isa::kBytes / 2>;
  static constexpr size_t kLanes = Isa::kBytes / sizeof(double);
  static Acc widen(Mem m) { return __builtin_convertvector(m, Acc); }
  static Mem narrow(Acc a) { return __builtin_convertvector(a, Mem); }
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_ISA_TYPES_H_
