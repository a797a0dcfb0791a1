// What a user's tile does, read from its effect: which iterators there are, what they go over,
// which of them are cut, and where each region is read or written. Written again twice: as an
// operation means it, of one rank's arrays, and as the form of a tile.
#ifndef SK_LIB_TILE_USER_EFFECT_H_
#define SK_LIB_TILE_USER_EFFECT_H_

#include <array>
#include <string>
#include <vector>

#include "lib/tile/user_text.h"

namespace sk {

struct UserEffect {
  enum class Cut : uint8_t {
    kNot,
    kFirst,
    kSecond
  };  // Into tiles: along the first or second axis.
  struct Iterator {
    std::string name, extent;  // Of the axis that it goes over: an expression.
    Cut cut = Cut::kNot;
  };
  // Where a region is: for its rows and columns an iterator or -1, and of how many elements of it
  // each element is a block.
  struct Place {
    std::array<int, kAxesMax> iterator{-1, -1};
    std::array<uint64_t, kAxesMax> block{1, 1};
  };

  std::vector<Iterator> iterators;
  std::vector<Place> places;           // By region.
  std::array<uint64_t, 2> unit{1, 1};  // Cuts come between so many of what is cut.
  std::string meaning, form;           // Steps, as a schema's and as a tile's.

  // Of a text that check_tile_text() has passed.
  static Result<UserEffect> read(const TileText& text);
};

}  // namespace sk

#endif  // SK_LIB_TILE_USER_EFFECT_H_
