// A caller's sk_tile_desc, copied: every struct of it checked for its size, every number for what
// it may be. What its texts say is for lib/tile to judge.
#ifndef SK_LIB_COMM_TILE_ARGUMENTS_H_
#define SK_LIB_COMM_TILE_ARGUMENTS_H_

#include "lib/tile/user_tile.h"

namespace sk {

struct TileArguments {
  TileText text;
  TileFunction function;
  bool replaces = false;  // A tile of this name.
};
Result<TileArguments> tile_arguments(const sk_tile_desc* desc);

}  // namespace sk

#endif  // SK_LIB_COMM_TILE_ARGUMENTS_H_
