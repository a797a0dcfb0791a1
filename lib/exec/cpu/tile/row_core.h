// How rows are read and written, as a template over an instruction set (see isa_types.h for the
// rules).
#ifndef SK_LIB_EXEC_CPU_TILE_ROW_CORE_H_
#define SK_LIB_EXEC_CPU_TILE_ROW_CORE_H_

#include "lib/exec/cpu/tile/isa_types.h"

namespace sk::cpu {

// Elements of one type, in whole vectors and a last part.
template <typename Isa, typename T>
struct RowOf {
  using Mem = typename T::Mem;
  using Acc = typename T::Acc;
  static constexpr size_t kBytes = sizeof(typename T::Elem);

  static inline __attribute__((always_inline)) Acc load(const void* row, size_t i) {
    return T::widen(load_vec<Mem>(static_cast<const char*>(row) + i * kBytes));
  }
  // Behind the end are zeros.
  static Acc load_last(const void* row, size_t i, size_t count) {
    return T::widen(
        Isa::template load_part<Mem>(static_cast<const char*>(row) + i * kBytes, count * kBytes));
  }
  template <bool kStream>
  static inline __attribute__((always_inline)) void store(void* row, size_t i, Acc value) {
    char* at = static_cast<char*>(row) + i * kBytes;
    if constexpr (kStream) {
      Isa::stream(at, T::narrow(value));
    } else {
      store_vec(at, T::narrow(value));
    }
  }
  static void store_last(void* row, size_t i, Acc value, size_t count) {
    Isa::store_part(static_cast<char*>(row) + i * kBytes, T::narrow(value), count * kBytes);
  }
  // So many elements lie before the first vector that may be stored past the caches; all of them
  // where rows are not aligned to their elements.
  static size_t before_aligned(const void* row, size_t count) {
    const size_t off = reinterpret_cast<uintptr_t>(row) % sizeof(Mem);
    if (off % kBytes != 0) return count;
    const size_t head = off == 0 ? 0 : (sizeof(Mem) - off) / kBytes;
    return head < count ? head : count;
  }
};

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_ROW_CORE_H_
