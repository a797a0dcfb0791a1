// One line for each tile operation, in the order of their numbers.
#ifndef SK_LIB_TILE_ALL_H_
#define SK_LIB_TILE_ALL_H_

#include "lib/tile/tile_op.h"

#define SK_ALL_TILE_OPS(X) \
  X(kCopy)                 \
  X(kReduce)               \
  X(kPackB)                \
  X(kGemm)                 \
  X(kRmsnorm)              \
  X(kRmsnormBackward)      \
  X(kSumRows)              \
  X(kAddRmsnorm)           \
  X(kAdamw)                \
  X(kGemmRaw)

namespace sk::tiles {

#define SK_DECLARE_TILE_OP(name) extern const TileOp name;
SK_ALL_TILE_OPS(SK_DECLARE_TILE_OP)
#undef SK_DECLARE_TILE_OP

}  // namespace sk::tiles

#endif  // SK_LIB_TILE_ALL_H_
