// How a tile's results go to memory.
#ifndef SK_LIB_EXEC_CPU_TILE_STORE_HINT_H_
#define SK_LIB_EXEC_CPU_TILE_STORE_HINT_H_

#include <cstdint>

namespace sk::cpu {

enum class StoreHint : uint8_t {
  kNormal = 0,
  // Past the caches: faster once the result is much larger than them (above 1 to 4 MB), slower
  // below. Ends with a store fence, so that a release after the call covers these stores too.
  kNonTemporal = 1,
};

// How to store what another core reads next, into lines that it has read before. On AMD's cores
// each such store waits for the reader's copy to go, one line after the other (16 KB: 4.3 us
// measured against 0.8 us past the caches, and the reader is no slower); on others the caches do
// better.
StoreHint hand_over_hint();

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_STORE_HINT_H_
