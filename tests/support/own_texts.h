// Tiles of users as values, for tests below the C ABI.
#ifndef SK_TESTS_SUPPORT_OWN_TEXTS_H_
#define SK_TESTS_SUPPORT_OWN_TEXTS_H_

#include "lib/tile/user_tile.h"

namespace sk::testing_support {

inline TileText::Array read_region(const char* name, const char* types, const char* shape) {
  return {
      .role = Role::kIn, .name = name, .types = types, .shape = shape, .in_place = "", .doc = ""};
}
inline TileText::Array written_region(const char* name, const char* types, const char* shape,
                                      const char* in_place = "") {
  return {.role = Role::kOut,
          .name = name,
          .types = types,
          .shape = shape,
          .in_place = in_place,
          .doc = ""};
}

// z = alpha * x + y, which z may be.
inline TileText saxpy_text(TileOver over = TileOver::kRows) {
  TileText text;
  text.name = "saxpy";
  text.effect = "z[i, j] = saxpy(x[i, j], y[i, j])";
  text.over = over;
  text.regions = {read_region("x", "float", "m, n"), read_region("y", "x", "m, n"),
                  written_region("z", "y", "m, n", "y")};
  text.numbers = {
      {.kind = AttributeKind::kFloat, .name = "alpha", .least = "", .most = "", .doc = ""}};
  return text;
}

// y = x in rows of their own sum, which s has.
inline TileText normed_text() {
  TileText text;
  text.name = "sum_normed";
  text.effect = "y[i, j] = normed[j](x[i, j], w[j]); s[i] = rowsum[j](x[i, j], w[j])";
  text.regions = {read_region("x", "f32", "m, n"), read_region("w", "x", "n"),
                  written_region("y", "x", "m, n"), written_region("s", "x", "m")};
  return text;
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_OWN_TEXTS_H_
