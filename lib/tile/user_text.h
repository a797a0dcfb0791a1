// What a user says of a tile (sk/tile.h), as values, and whether it can be one.
#ifndef SK_LIB_TILE_USER_TEXT_H_
#define SK_LIB_TILE_USER_TEXT_H_

#include <limits>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/op/schema.h"
#include "sk/tile.h"

namespace sk {

enum class TileOver : uint8_t {
  kRows = SK_TILE_OVER_ROWS,
  kBlocks = SK_TILE_OVER_BLOCKS,
  kAll = SK_TILE_OVER_ALL,
};
// "rows", "blocks", "all".
const char* tile_over_name(TileOver over);

struct TileText {
  struct Array {
    Role role = Role::kIn;
    std::string name, types, shape, in_place, doc;
    bool operator==(const Array&) const = default;
  };
  struct Number {
    AttributeKind kind = AttributeKind::kInt;
    std::string name, least, most, doc;
    bool operator==(const Number&) const = default;
  };

  std::string name, summary;
  std::string effect;  // Empty: opaque.
  uint16_t version = 1;
  TileOver over = TileOver::kRows;
  bool serial = false;
  int64_t tile_rows = 0;
  std::vector<Array> regions;
  std::vector<Number> numbers;

  const Array* region(std::string_view wanted) const;
  // Of all of it; never 0.
  uint64_t digest() const;
  bool operator==(const TileText&) const = default;
};

inline constexpr size_t kTileRegionsMax = 6, kTileNumbersMax = kStepBindingsMax;

// Names, types, shapes and numbers; of the effect nothing but whether there is one where it must
// be. Else a sentence that names the tile and what of it.
Status check_tile_text(const TileText& text);

// Texts of users in sentences: of one line, and not without end.
std::string quoted_text(std::string_view text);

// A bound of a number that is a float.
bool read_float(const std::string& text, double* value);

}  // namespace sk

#endif  // SK_LIB_TILE_USER_TEXT_H_
