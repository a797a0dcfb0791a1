// Whether a record is one that everything which walks schemas can rely on. Of the library's own it
// is asked when they are compiled, of a user's when it is registered.
#ifndef SK_LIB_OP_WELL_FORMED_H_
#define SK_LIB_OP_WELL_FORMED_H_

#include "lib/op/names.h"
#include "lib/op/types.h"
#include "lib/op/well_meant.h"

namespace sk {

inline constexpr std::string_view kNoFlaw = "";

namespace flaws {

constexpr bool has_types(const Schema& schema, const OperandSchema& operand) {
  bool all = operand.types[0] != '\0';
  for_each_type(operand.types, [&](std::string_view rule) {
    bool known = rule == "any" || rule == "float";
    for (int32_t type = SK_F32; type <= SK_I64; ++type) known |= rule == dtype_name(DType(type));
    const std::string_view summed = summed_in(rule);
    const OperandSchema* other = schema.operand(summed.empty() ? rule : summed);
    all &= known || (other != nullptr && other < &operand);  // One before it.
  });
  return all;
}

constexpr size_t axes_of(const OperandSchema& operand) {
  size_t axes = 0;
  for_each_axis(operand.shape, [&](std::string_view) { ++axes; });
  return axes;
}

constexpr bool has_attribute(const Schema& schema, std::string_view name, AttributeKind kind) {
  const Attribute* attribute = schema.attribute(name);
  return attribute != nullptr && attribute->kind == kind;
}

constexpr std::string_view in_list(const Schema& schema, const OperandSchema& operand) {
  if (schema.scope != Scope::kLocal) return "a list is of an operation of several ranks";
  if (schema.free[0] == '\0' || std::string_view(schema.free) != operand.shape) {
    return "a list is no vector of the free dimension";
  }
  if (operand.optional) return "a list may be absent, where it may be empty";
  const OperandSchema* home = schema.operand(operand.alias);
  const bool in_list = home == nullptr || home->list;
  if (!in_list ||
      (operand.role == Role::kOut && operand.alias[0] != '\0' && !operand.only_in_place))
    return "a list is in place of no list, or only at times";
  return kNoFlaw;
}

constexpr std::string_view in_operand(const Schema& schema, const OperandSchema& operand) {
  if (!has_types(schema, operand)) return "an operand's types name none that there is";
  if (operand.reached && &operand - schema.operands.data() >= OpDesc::kReachedMax) {
    return "peers reach an operand that comes too late in it";
  }
  const size_t axes = axes_of(operand);
  if (axes < 1 || axes > 2) return "an operand has neither one axis nor two";
  bool reads_all = true;
  for_each_axis(operand.shape, [&](std::string_view axis) {
    reads_all &= proofread(axis, names::Known(schema)).ok();
  });
  if (!reads_all) return "an operand's shape cannot be read";
  if (axes == 1 && (operand.storage != Storage::kDense || !operand.may_be(Storage::kDense) ||
                    operand.or_storage != Storage::kDense)) {
    return "a vector is stored element after element";
  }
  if (operand.turned_by[0] != '\0' &&
      (axes != 2 || !has_attribute(schema, operand.turned_by, AttributeKind::kBool))) {
    return "an operand is turned by no boolean of the schema, or has no two axes";
  }
  if (operand.only_on[0] != '\0' && !has_attribute(schema, operand.only_on, AttributeKind::kRank)) {
    return "an operand is only on a rank that no attribute names";
  }
  if (operand.list && in_list(schema, operand) != kNoFlaw) return in_list(schema, operand);
  if (operand.only_in_place) {
    const OperandSchema* home = schema.operand(operand.alias);
    if (home == nullptr || operand.role != Role::kOut || operand.optional ||
        home->only_on[0] != '\0')
      return "only in place there is an output, in the place of an operand that is there";
    if (home->list != operand.list || std::string_view(home->shape) != operand.shape ||
        std::string_view(operand.types) != home->name || operand.alias_at != std::string_view("0"))
      return "only in place an output is all of an operand, and as that";
  }
  if (operand.alias[0] == '\0') return kNoFlaw;
  const OperandSchema* home = schema.operand(operand.alias);
  if (home == nullptr || home == &operand || home->alias[0] != '\0' || home->optional) {
    return "in place an operand is part of none that has its own memory";
  }
  const bool rows = axes == 2 && std::string_view(home->shape) == operand.shape &&
                    operand.alias_at == std::string_view("0") && operand.turned_by[0] == '\0' &&
                    home->turned_by[0] == '\0' && std::string_view(operand.types) == home->name;
  if (!rows && (axes != 1 || axes_of(*home) != 1)) {
    return "in place an operand is part of no other vector, nor all of other rows";
  }
  if (!proofread(operand.alias_at, names::Known(schema, /*has_rank=*/true)).ok()) {
    return "an operand's place cannot be read";
  }
  return kNoFlaw;
}

// Sentences and the lines that ranks tell each other are made of it.
constexpr bool is_spoken(std::string_view text) {
  for (const char c : text) {
    if (c < ' ' || c > '~') return false;
  }
  return !text.empty();
}

constexpr std::string_view in_attribute(const Schema& schema, const Attribute& attribute) {
  const bool is_int = attribute.kind == AttributeKind::kInt;
  for (const std::string_view bound : {attribute.least, attribute.most}) {
    if (bound.empty()) continue;
    if (!is_int) return "a bound is no integer's";
    if (!proofread(bound, names::Known(schema)).ok()) return "a bound cannot be read";
  }
  const bool number = is_int || attribute.kind == AttributeKind::kFloat;
  if (attribute.runtime && (schema.scope != Scope::kLocal || !number)) {
    return "a runtime value is no number, or other ranks would have to agree on it";
  }
  if (attribute.kind == AttributeKind::kFloat && !(attribute.lowest <= attribute.highest)) {
    return "nothing is between a number's bounds";
  }
  return is_spoken(attribute.spoken()) ? kNoFlaw : "a label in it is no text of one line";
}

constexpr size_t booleans(const Schema& schema) {
  size_t count = 0;
  for (const Attribute& each : schema.attributes) count += each.kind == AttributeKind::kBool;
  return count;
}

// "{name}", "{operand.dtype}".
constexpr bool reads_brief(const Schema& schema) {
  std::string_view rest = schema.brief;
  while (rest.find('{') != rest.npos) {
    rest.remove_prefix(rest.find('{') + 1);
    const size_t close = rest.find('}');
    if (close == rest.npos) return false;
    const std::string_view name = rest.substr(0, close);
    const size_t dot = name.find('.');
    const bool known = dot == name.npos ? bool(schema.field(name))
                                        : schema.operand(name.substr(0, dot)) != nullptr &&
                                              name.substr(dot) == ".dtype";
    if (!known) return false;
  }
  return true;
}

}  // namespace flaws

// kNoFlaw, or the first thing that is wrong with it.
constexpr std::string_view flaw_in(const Schema& schema) {
  if (schema.operands.size() > OpDesc::kOperandsMax) return "it has too many operands";
  if (schema.word_count() > OpDesc::kWordsMax) return "it has too many words";
  if (schema.run_values() > kRunValuesMax) return "it has too many runtime values";
  if (flaws::booleans(schema) > 64) return "it has too many booleans";
  if (!has_own_names(schema)) return "a name in it is none, or has another meaning";
  for (const OperandSchema& operand : schema.operands) {
    const std::string_view flaw = flaws::in_operand(schema, operand);
    if (flaw != kNoFlaw) return flaw;
  }
  for (const Condition& condition : schema.conditions) {
    if (!proofread(condition.holds, names::Known(schema)).ok()) return "a condition cannot be read";
  }
  if (schema.scope == Scope::kPair &&
      (schema.attributes.size() < 2 || schema.attributes[0].kind != AttributeKind::kRank ||
       schema.attributes[1].kind != AttributeKind::kRank)) {
    return "a pair's first two attributes name its ranks";
  }
  for (const Attribute& attribute : schema.attributes) {
    const std::string_view flaw = flaws::in_attribute(schema, attribute);
    if (flaw != kNoFlaw) return flaw;
  }
  if (!flaws::reads_brief(schema)) return "its brief names what is not there";
  return flaws::in_meaning(schema);
}

}  // namespace sk

#endif  // SK_LIB_OP_WELL_FORMED_H_
