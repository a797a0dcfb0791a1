// Users' tiles as JSON: what is said of the library's operations, and what only tiles have.
#ifndef SK_LIB_TILE_DESCRIBE_USER_H_
#define SK_LIB_TILE_DESCRIBE_USER_H_

#include <string>

#include "lib/tile/user_table.h"

namespace sk {

// An array of all, or with a name the one object.
Result<std::string> describe_tiles(TileSet& tiles, const char* name);

}  // namespace sk

#endif  // SK_LIB_TILE_DESCRIBE_USER_H_
