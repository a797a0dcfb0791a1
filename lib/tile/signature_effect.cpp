#include "lib/tile/signature_effect.h"

namespace sk {

SignatureEffect::SignatureEffect(const Signature& signature) {
  for (const Parameter& parameter : signature.parameters) names_.push_back(parameter.name);
  regions_.reserve(signature.forms.size());
  for (const Form& form : signature.forms) {
    std::vector<effect::RegionRecord>& regions = regions_.emplace_back();
    for (const RegionRole& role : form.regions) {
      regions.push_back({.name = role.name,
                         .type = role.type,
                         .turned_by = role.turned_by,
                         .layout = role.layout,
                         .written = role.access == kWrite,
                         .repeats = role.has_entries(),
                         .whole = role.whole,
                         .from_first_row = role.from_first_row});
    }
    forms_.push_back({form.steps, regions, form.ranges});
  }
  record_ = {.parameters = names_, .forms = forms_, .refuses = signature.refuses};
  if (signature.form_parameter != kNoParameter) record_.form_by = names_[signature.form_parameter];
  tile_ = std::make_unique<const effect::Tile>(record_);
}

}  // namespace sk
