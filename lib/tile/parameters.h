// Parameters that several tile operations have.
#ifndef SK_LIB_TILE_PARAMETERS_H_
#define SK_LIB_TILE_PARAMETERS_H_

#include "lib/tile/signature.h"
#include "sk/op.h"

namespace sk::tiles {

constexpr int64_t kExtentMax = int64_t(1) << 40;  // Rows, columns: products of two fit 128 bits.

constexpr Parameter dtype_parameter(const char* name) {
  return {name, ParamKind::kDtype, ParamUse::kMeaning, SK_F32, SK_I64};
}
constexpr Parameter flag_parameter(const char* name) {
  return {name, ParamKind::kBool, ParamUse::kMeaning, 0, 1};
}
// The bits of a double from 0 to infinity.
constexpr Parameter float_parameter(const char* name) {
  constexpr int64_t kInfinity = 0x7ff0000000000000;
  return {name, ParamKind::kFloat, ParamUse::kMeaning, 0, kInfinity};
}
// Of the whole array.
constexpr Parameter extent_parameter(const char* name, int64_t min = 0) {
  return {name, ParamKind::kInteger, ParamUse::kMeaning, min, kExtentMax};
}
// Of the tile in it.
constexpr Parameter place_parameter(const char* name, int64_t min = 0) {
  return {name, ParamKind::kInteger, ParamUse::kPlace, min, kExtentMax};
}

inline constexpr const char* kHintWords[] = {"default", "stream", "take", "hand_over"};
inline constexpr Parameter kHintParameter = {"hint",        ParamKind::kWord, ParamUse::kHint,
                                             kStoreDefault, kHandOver,        kHintWords};

// A value of a run: of which of the operation's runtime attributes.
inline constexpr const char* kRunWords[] = {"run.0", "run.1", "run.2", "run.3"};
constexpr Parameter run_parameter(const char* name) {
  return {name,     ParamKind::kWord, ParamUse::kRun, kRunValue, kRunValue + kRunValuesMax - 1,
          kRunWords};
}

}  // namespace sk::tiles

#endif  // SK_LIB_TILE_PARAMETERS_H_
