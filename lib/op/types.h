// Which element types an operand of a call may have, by the rules of its schema.
#ifndef SK_LIB_OP_TYPES_H_
#define SK_LIB_OP_TYPES_H_

#include <string_view>

#include "lib/op/schema.h"

namespace sk {

// Calls `visit` with each rule of "a|f32".
template <typename Visitor>
constexpr void for_each_type(std::string_view rules, Visitor&& visit) {
  while (!rules.empty()) {
    const std::string_view rule = rules.substr(0, rules.find('|'));
    rules.remove_prefix(rule.size() < rules.size() ? rule.size() + 1 : rules.size());
    visit(rule);
  }
}

// "a" of "accumulator(a)"; else empty.
constexpr std::string_view summed_in(std::string_view rule) {
  constexpr std::string_view kSum = "accumulator(";
  if (!rule.starts_with(kSum) || !rule.ends_with(')')) return {};
  return rule.substr(kSum.size(), rule.size() - kSum.size() - 1);
}

bool may_have_type(const OpDesc& op, uint32_t operand, DType type);
// What the first rule says; f32 where it says several.
DType first_type(const OpDesc& op, uint32_t operand);

}  // namespace sk

#endif  // SK_LIB_OP_TYPES_H_
