#include "lib/tile/describe_user.h"

#include "lib/op/describe_schema.h"

namespace sk {
namespace {

std::string describe(const UserTile& tile) {
  std::string text = describe_schema(tile.schema());
  text.pop_back();  // The brace.
  return fmt::format("{}, \"version\": {}, \"over\": \"{}\", \"serial\": {}, \"opaque\": {}}}",
                     text, tile.text().version, tile_over_name(tile.text().over),
                     tile.text().serial, tile.text().effect.empty());
}

}  // namespace

Result<std::string> describe_tiles(TileSet& tiles, const char* name) {
  if (name != nullptr) {
    SK_ASSIGN_OR_RETURN(const TileSet::Use tile, tiles.use(std::string_view(name)));
    return describe(*tile);
  }
  std::string text;
  for (const TileSet::Use& tile : tiles.all()) text += (text.empty() ? "" : ", ") + describe(*tile);
  return "[" + text + "]";
}

}  // namespace sk
