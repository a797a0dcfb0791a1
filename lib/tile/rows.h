// What tiles that go over rows of one type have in common: their parameters (RowsParam, task.h).
#ifndef SK_LIB_TILE_ROWS_H_
#define SK_LIB_TILE_ROWS_H_

#include <fmt/format.h>

#include <array>

#include "lib/op/dtype.h"
#include "lib/tile/parameters.h"

namespace sk::tiles {

// `own` is what one of them has alone, where its row of parameters has a place for it.
constexpr std::array<Parameter, kRowsParamCount> row_parameters(
    std::span<const char* const> given_words, const Parameter& own) {
  return {dtype_parameter("dtype"),
          dtype_parameter("weight_dtype"),
          Parameter{"given", ParamKind::kWord, ParamUse::kMeaning, 0, kGivenWeight + kGivenSecond,
                    given_words},
          extent_parameter("m", 1),
          extent_parameter("n", 1),
          place_parameter("row0"),
          place_parameter("rows", 1),
          own,
          kHintParameter};
}

inline constexpr effect::RangeRecord kRowRanges[] = {{"i", "row0", "rows", "m"},
                                                     {"j", "0", "n", "n"}};

inline std::string refuses_rows(std::span<const int64_t> p) {
  const DType dtype = DType(p[kRowsDtype]), weight = DType(p[kRowsWeightDtype]);
  if (is_float(dtype) && (weight == dtype || weight == DType::kF32)) return "";
  return fmt::format("no rows of {} with weights of {}", dtype_name(dtype), dtype_name(weight));
}

}  // namespace sk::tiles

#endif  // SK_LIB_TILE_ROWS_H_
