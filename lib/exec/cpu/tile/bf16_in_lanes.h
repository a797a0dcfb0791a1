// bf16 rows for AVX2, computed two vectors at a time in the order in which its lanes unpack them
// (see isa_types.h for the rules).
//
// To widen eight elements costs a shift and a shuffle over both lanes, to narrow them a mask, a
// pack and another such shuffle: more than what rmsnorm does with them. Sixteen that are unpacked
// within lanes, below zeros, are floats at once, one instruction for eight; packed within lanes
// they lie as they lay.
#ifndef SK_LIB_EXEC_CPU_TILE_BF16_IN_LANES_H_
#define SK_LIB_EXEC_CPU_TILE_BF16_IN_LANES_H_

#include "lib/exec/cpu/tile/row_core.h"

namespace sk::cpu {

// Of sixteen elements in a row: 0 to 3 and 8 to 11, then 4 to 7 and 12 to 15.
template <typename Isa>
struct TwoLanes {
  using V = Vec<float, Isa::kBytes>;
  V low, high;

  friend TwoLanes operator+(TwoLanes a, TwoLanes b) { return {a.low + b.low, a.high + b.high}; }
  friend TwoLanes operator-(TwoLanes a, TwoLanes b) { return {a.low - b.low, a.high - b.high}; }
  friend TwoLanes operator*(TwoLanes a, TwoLanes b) { return {a.low * b.low, a.high * b.high}; }
  friend TwoLanes operator+(TwoLanes a, float b) { return {a.low + b, a.high + b}; }
  TwoLanes& operator+=(TwoLanes b) { return *this = *this + b; }
};

// The floats that go with them. As rows they are read and written by the vector: GCC 12 keeps a
// pair of them, copied as a whole, in memory.
template <typename Isa>
struct F32InLanes {};

template <typename Isa>
struct RowOf<Isa, F32InLanes<Isa>> {
  using Acc = TwoLanes<Isa>;
  static constexpr size_t kLanes = 2 * Isa::kBytes / sizeof(float);

  static inline __attribute__((always_inline)) Acc load(const void* row, size_t i) {
    const float* at = static_cast<const float*>(row) + i;
    const V first = load_vec<V>(at), second = load_vec<V>(at + kLanes / 2);
    return {Isa::low_lanes(first, second), Isa::high_lanes(first, second)};
  }
  // Behind the end are zeros.
  static Acc load_last(const void* row, size_t i, size_t count) {
    float part[kLanes] = {};
    __builtin_memcpy(part, static_cast<const float*>(row) + i, count * sizeof(float));
    return load(part, 0);
  }
  template <bool kStream>
  static inline __attribute__((always_inline)) void store(void* row, size_t i, Acc value) {
    static_assert(!kStream);
    float* at = static_cast<float*>(row) + i;
    store_vec(at, Isa::low_lanes(value.low, value.high));
    store_vec(at + kLanes / 2, Isa::high_lanes(value.low, value.high));
  }
  static void store_last(void* row, size_t i, Acc value, size_t count) {
    float part[kLanes];
    store<false>(part, 0, value);
    __builtin_memcpy(static_cast<float*>(row) + i, part, count * sizeof(float));
  }

 private:
  using V = Vec<float, Isa::kBytes>;
};

template <typename Isa>
struct Bf16InLanes {
  using Elem = uint16_t;
  using Acc = TwoLanes<Isa>;
  using Mem = Vec<uint16_t, Isa::kBytes>;
  using Sum = float;
  using InRows = F32InLanes<Isa>;
  static constexpr size_t kLanes = 2 * Isa::kBytes / sizeof(float);
  static Acc widen(Mem m) {
    const Mem zeros{};
    return {reinterpret_cast<typename Acc::V>(Isa::unpack_low(zeros, m)),
            reinterpret_cast<typename Acc::V>(Isa::unpack_high(zeros, m))};
  }
  // As f32_to_bf16() of lib/op/dtype.h.
  static Mem narrow(Acc a) {
    const Bits low = reinterpret_cast<Bits>(a.low), high = reinterpret_cast<Bits>(a.high);
    if (__builtin_expect(Isa::any_nan(a.low, a.high), 0)) {
      return Isa::pack(a.low != a.low ? quiet(low) : rounded(low),
                       a.high != a.high ? quiet(high) : rounded(high));
    }
    return Isa::pack(rounded(low), rounded(high));
  }

 private:
  using Bits = Vec<uint32_t, Isa::kBytes>;
  static Bits rounded(Bits bits) { return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16; }
  static Bits quiet(Bits bits) { return (bits >> 16) | 0x40u; }
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_BF16_IN_LANES_H_
