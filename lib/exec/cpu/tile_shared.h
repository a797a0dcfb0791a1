// What the functions behind several tile operations share.
#ifndef SK_LIB_EXEC_CPU_TILE_SHARED_H_
#define SK_LIB_EXEC_CPU_TILE_SHARED_H_

#include "lib/base/status.h"
#include "lib/exec/cpu/tile/store_hint.h"
#include "lib/op/dtype.h"
#include "lib/tile/tile_op.h"

namespace sk::cpu {

inline constexpr int kPointersMax = 1024;  // Buffers of one region: the ranks of one host.

inline StoreHint store_hint(int64_t param) {
  return param == kStoreNonTemporal ? StoreHint::kNonTemporal : StoreHint::kNormal;
}

// Asks for the lines as if to write them, a block ahead of the tile that reads them. A prefetch is
// a hint: lines that may not be written are left alone.
inline void take(const std::byte* data, uint64_t bytes) {
#if defined(__x86_64__)
  for (uint64_t i = 0; i < bytes; i += 64) asm volatile("prefetchw %0" ::"m"(data[i]));
#else
  for (uint64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i, 1, 3);
#endif
}

inline void* const* writable(std::byte* const* pointers) {
  return reinterpret_cast<void* const*>(pointers);
}
inline const void* const* readable(std::byte* const* pointers) {
  return reinterpret_cast<const void* const*>(pointers);
}

// "a copy has 1025 outputs in rows, ...": `what` there are `count` of.
Status check_count(const TileOp& tile, const char* what, uint64_t count, int most);

// B's layout is one whole: its columns lie apart in chunks of k.
Status check_packed(const TileOp& tile, const Region& packed, DType dtype, int64_t k, int64_t n);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_SHARED_H_
