#include "lib/tile/signature.h"

#include <algorithm>

#include "lib/op/dtype.h"

namespace sk {

std::string_view Parameter::word(int64_t value) const {
  switch (kind) {
    case ParamKind::kInteger:
    case ParamKind::kBool:
    case ParamKind::kFloat:
      return "";
    case ParamKind::kDtype:
      return value >= SK_F32 && value <= SK_I64 ? dtype_name(DType(value)) : "";
    case ParamKind::kRedop:
      return value >= SK_SUM && value <= SK_AVG ? redop_name(RedOp(value)) : "";
    case ParamKind::kWord:
      return value >= min && value <= max ? words[size_t(value - min)] : "";
  }
  return "";
}

const RegionRole* Form::repeated_role(uint32_t index, uint32_t count) const {
  if (!takes(count)) return nullptr;
  const uint32_t repeated = count - region_count_min();
  for (const RegionRole& role : regions) {
    const uint32_t taken = role.repeats ? 1 + repeated : 1;
    if (index < taken) return &role;
    index -= taken;
  }
  return nullptr;
}

uint32_t Signature::region_count_min() const {
  uint32_t count = forms[0].region_count_min();
  for (const Form& form : forms) count = std::min(count, form.region_count_min());
  return count;
}

uint32_t Signature::region_count_max() const {
  uint32_t count = 0;
  for (const Form& form : forms) count = std::max(count, form.region_count_max());
  return count;
}

const Form* Signature::form_of(int64_t value) const {
  const Parameter& parameter = parameters[form_parameter];
  if (value < parameter.min || value > parameter.max) return nullptr;
  return &forms[size_t(value - parameter.min)];
}

}  // namespace sk
