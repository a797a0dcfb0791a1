// How large a world may be, wherever its ranks come from.
#ifndef SK_LIB_BASE_WORLD_H_
#define SK_LIB_BASE_WORLD_H_

#include <cstdint>

namespace sk {

// Ranks. The validator judges plans of no more, so no launcher may promise them.
inline constexpr int32_t kWorldSizeMax = 4096;

}  // namespace sk

#endif  // SK_LIB_BASE_WORLD_H_
