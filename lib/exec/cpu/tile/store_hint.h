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

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_STORE_HINT_H_
