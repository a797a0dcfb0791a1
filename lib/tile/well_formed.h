// What a record must be before anything walks it, asked of each as it is compiled.
#ifndef SK_LIB_TILE_WELL_FORMED_H_
#define SK_LIB_TILE_WELL_FORMED_H_

#include <string_view>

#include "lib/base/sound.h"  // SK_SOUND(flaw_in(record)) stands below each.
#include "lib/tile/tile_op.h"

namespace sk {

constexpr const char* kNoTileFlaw = "";

constexpr const char* flaw_in(const Parameter& parameter) {
  if (parameter.name[0] == '\0') return "a parameter without a name";
  if (parameter.min > parameter.max) return "a parameter that no value suits";
  const uint64_t words =
      parameter.kind == ParamKind::kWord ? uint64_t(parameter.max - parameter.min) + 1 : 0;
  return parameter.words.size() == words ? kNoTileFlaw : "words that are not one for each value";
}

constexpr const char* flaw_in(const Form& form, size_t parameter_count) {
  size_t repeat = 0;
  for (const RegionRole& role : form.regions) {
    repeat += role.repeats;
    if (role.name[0] == '\0') return "a region without a name";
    if (role.access != kRead && role.access != kWrite) return "a region neither read nor written";
    if (role.but_parameter == kNoParameter) continue;
    if (role.but_parameter >= parameter_count) return "an entry that no parameter names";
    if (!role.many_buffers) return "an entry of a region in one buffer";
  }
  if (repeat > 1) return "two roles that repeat";
  if (form.steps[0] == '\0') return "nothing that it does";
  return form.regions.size() <= kRegionCountMax ? kNoTileFlaw : "more regions than tasks have";
}

constexpr const char* flaw_in(const Signature& signature) {
  const auto& parameters = signature.parameters;
  if (signature.name[0] == '\0') return "no name";
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (const char* flaw = flaw_in(parameters[i]); flaw[0] != '\0') return flaw;
    for (size_t j = 0; j < i; ++j) {
      if (std::string_view(parameters[i].name) == parameters[j].name) return "a name twice";
    }
  }
  uint64_t forms = 1;
  if (signature.form_parameter != kNoParameter) {
    if (signature.form_parameter >= parameters.size()) return "forms of no parameter";
    const Parameter& chooses = parameters[signature.form_parameter];
    if (chooses.use != ParamUse::kMeaning) return "forms of a parameter that means nothing";
    forms = uint64_t(chooses.max - chooses.min) + 1;
  }
  if (signature.forms.size() != forms) return "forms that are not one for each value";
  for (const Form& form : signature.forms) {
    if (const char* flaw = flaw_in(form, parameters.size()); flaw[0] != '\0') return flaw;
  }
  return kNoTileFlaw;
}

constexpr const char* flaw_in(const TileOp& tile) {
  if (tile.version == 0) return "no version";
  if (tile.reference == nullptr) return "no reference";
  return flaw_in(tile.signature);
}

}  // namespace sk

#endif  // SK_LIB_TILE_WELL_FORMED_H_
