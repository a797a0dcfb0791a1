#include "lib/op/values.h"

#include <fmt/format.h>

#include <limits>

namespace sk {
namespace {

std::string outside(const Attribute& attribute, int64_t value, const std::string& allowed) {
  return fmt::format("{} is {}, allowed are {}", attribute.spoken(), value_text(attribute, value),
                     allowed);
}

// A bound that cannot be computed lets nothing through.
std::string outside_integers(const Attribute& attribute, int64_t value, const OpScope& scope) {
  const auto bound = [&](const char* text, int64_t without) {
    return text[0] == '\0' ? ExprValue{without} : evaluate(text, scope);
  };
  const ExprValue least = bound(attribute.least, std::numeric_limits<int64_t>::min());
  const ExprValue most = bound(attribute.most, std::numeric_limits<int64_t>::max());
  if (least.ok() && most.ok() && value >= least.value && value <= most.value) return "";
  const auto told = [](const char* text, const ExprValue& of, const char* without) {
    if (text[0] == '\0') return std::string(without);
    return of.ok() ? fmt::to_string(of.value) : std::string(text);
  };
  return outside(attribute, value,
                 fmt::format("{} to {}", told(attribute.least, least, "-2^63"),
                             told(attribute.most, most, "2^63 - 1")));
}

}  // namespace

std::string value_text(const Attribute& attribute, int64_t value) {
  switch (attribute.kind) {
    case AttributeKind::kBool:
      return value != 0 ? "true" : "false";
    case AttributeKind::kRank:
    case AttributeKind::kInt:
      return fmt::to_string(value);
    case AttributeKind::kRedOp:
      return redop_name(RedOp(value));
    case AttributeKind::kFloat:
      return fmt::format("{}", float_of(value));
  }
  return "?";
}

std::string outside_of(const Attribute& attribute, int64_t value, const OpScope& scope) {
  switch (attribute.kind) {
    case AttributeKind::kBool:
    case AttributeKind::kRank:
    case AttributeKind::kRedOp:
      return "";
    case AttributeKind::kInt:
      return outside_integers(attribute, value, scope);
    case AttributeKind::kFloat:
      break;
  }
  const double number = float_of(value);
  if (number >= attribute.lowest && number <= attribute.highest) return "";
  return outside(attribute, value, fmt::format("{} to {}", attribute.lowest, attribute.highest));
}

}  // namespace sk
