// Copies of one source into several destinations, reading it once.
#ifndef SK_LIB_EXEC_CPU_TILE_COPY_H_
#define SK_LIB_EXEC_CPU_TILE_COPY_H_

#include <cstddef>
#include <cstdint>

#include "lib/exec/cpu/tile/store_hint.h"

namespace sk::cpu {

// dst[j][0, bytes) = src[0, bytes). A destination may be the source itself; no other overlap.
void copy(void* const* dst, int dst_count, const void* src, size_t bytes, StoreHint hint);

// `rows` rows of `row_bytes`; pitches in bytes, one per destination. With rows <= 1 the pitches are
// not read.
void copy_2d(void* const* dst, const int64_t* dst_pitch, int dst_count, const void* src,
             int64_t src_pitch, size_t rows, size_t row_bytes, StoreHint hint);

// Finds out what copies on this machine; else the first one does.
void choose_copies();

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_COPY_H_
