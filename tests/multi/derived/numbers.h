// The numbers that inputs are made of.
#ifndef SK_TESTS_MULTI_DERIVED_NUMBERS_H_
#define SK_TESTS_MULTI_DERIVED_NUMBERS_H_

#include <string>
#include <vector>

#include "tests/multi/derived/choices.h"
#include "tests/multi/derived/elements.h"

namespace sk::derived {

// What numbers are drawn, of an axis of its own. "plain": products of as many as there are ranks
// stay small. "zeros": of either sign among them. "far apart": subnormal ones, and such as are
// large beside others; some are another's opposite. Then plain ones, one of which is none.
inline const std::vector<std::string> kNumbers = {"plain", "zeros", "far apart", "one NaN",
                                                  "one infinity"};

inline bool chance(Random& random, uint32_t in) { return random() % in == 0; }

inline double plain(Random& random) {
  const double size = 0.5 + double(random() % 1024) / 1024;
  return chance(random, 2) ? size : -size;
}
inline double number(DType type, const std::string& kind, Random& random) {
  if (!is_float(type)) return double(int64_t(random() % 5) - 2);
  if (kind == "zeros" && !chance(random, 3)) return chance(random, 2) ? 0.0 : -0.0;
  if (kind != "far apart") return plain(random);
  switch (random() % 4) {
    case 0:
      return plain(random) * (type == DType::kF16   ? 0x1p-20
                              : type == DType::kF64 ? 0x1p-1060
                                                    : 0x1p-130);
    case 1:
      return plain(random) * (type == DType::kF16 ? 0x1p6 : 0x1p18);
    case 2:
      return chance(random, 2) ? 1024 : -1024;
    default:
      return plain(random);
  }
}

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_NUMBERS_H_
