// What names mean in the expressions of a schema (expr.h), and whether all that it says in them can
// be read. In C++ and in Python one name means one thing.
#ifndef SK_LIB_OP_NAMES_H_
#define SK_LIB_OP_NAMES_H_

#include <string_view>

#include "lib/op/expr.h"
#include "lib/op/schema.h"

namespace sk {

struct Meaning {
  enum Kind : uint8_t { kNothing, kField, kWorld, kRank, kValue };
  Kind kind = kNothing;
  Field field = {};
  // A float's bits, or a runtime value (kRunValue): bound to functions as they are, and else of no
  // use.
  bool only_bound = false;
  int64_t value = 0;
};

namespace names {

// An operand `in` is `in_` in expressions: Python could not read it.
constexpr bool is_called(std::string_view written, std::string_view name) {
  if (written == name) return !expr::is_keyword(name);
  return written.ends_with('_') && written.substr(0, written.size() - 1) == name &&
         expr::is_keyword(name);
}

// `op_avg` of the attribute `op`: `min` and `max` alone are functions.
constexpr bool is_value_of(std::string_view written, std::string_view attribute, RedOp value) {
  return written.starts_with(attribute) && written.substr(attribute.size()).starts_with('_') &&
         written.substr(attribute.size() + 1) == redop_name(value);
}

}  // namespace names

constexpr const OperandSchema* operand_in_expressions(const Schema& schema, std::string_view name) {
  for (const OperandSchema& operand : schema.operands) {
    if (names::is_called(name, operand.name)) return &operand;
  }
  return nullptr;
}

constexpr Meaning meaning_of(const Schema& schema, std::string_view name) {
  for (const Dimension& dimension : schema.dimensions) {
    if (!names::is_called(name, dimension.name)) continue;
    return {Meaning::kField, schema.field(dimension.name)};
  }
  for (const Attribute& attribute : schema.attributes) {
    if (names::is_called(name, attribute.name) && attribute.runtime) {
      const size_t index = size_t(&attribute - schema.attributes.data());
      return {Meaning::kValue, {}, true, kRunValue + schema.run_value(index)};
    }
    if (names::is_called(name, attribute.name)) {
      return {Meaning::kField, schema.field(attribute.name),
              attribute.kind == AttributeKind::kFloat};
    }
    if (attribute.kind != AttributeKind::kRedOp) continue;
    for (int32_t each = SK_SUM; each <= SK_AVG; ++each) {
      if (names::is_value_of(name, attribute.name, RedOp(each))) {
        return {Meaning::kValue, {}, false, each};
      }
    }
  }
  if (name == "world") return {Meaning::kWorld};
  if (name == "rank") return {Meaning::kRank};
  return {};
}

namespace names {

// A scope (expr.h) without values. What holds for all ranks knows no `rank`.
class Known {
 public:
  constexpr explicit Known(const Schema& schema, bool has_rank = false, bool has_floats = false)
      : schema_(schema), has_rank_(has_rank), has_floats_(has_floats) {}

  constexpr bool find(std::string_view name, int64_t* value) const {
    *value = 0;
    const Meaning is = meaning_of(schema_, name);
    if (is.only_bound && !has_floats_) return false;
    return is.kind != Meaning::kNothing && (is.kind != Meaning::kRank || has_rank_);
  }
  constexpr bool find_is_float(std::string_view operand, bool* value) const {
    *value = false;
    return operand_in_expressions(schema_, operand) != nullptr;
  }

 private:
  const Schema& schema_;
  bool has_rank_, has_floats_;
};

// How many things of `schema` have that name.
constexpr int count(const Schema& schema, std::string_view name) {
  int found = name == "world" || name == "rank" || (name == "length" && schema.has_lists());
  for (const Dimension& each : schema.dimensions) found += name == each.name;
  for (const OperandSchema& each : schema.operands) found += name == each.name;
  for (const InnerArray& each : schema.arrays) found += name == each.name;
  for (const Attribute& each : schema.attributes) {
    found += name == each.name;
    for (int32_t value = SK_SUM; value <= SK_AVG; ++value) {
      found += each.kind == AttributeKind::kRedOp && is_value_of(name, each.name, RedOp(value));
    }
  }
  return found;
}

// What types are called in schemas, and keywords of the languages that get names from schemas.
// Python's are not among them: it is used to `in_`.
constexpr bool is_word_elsewhere(std::string_view name) {
  constexpr std::string_view kWords[] = {
      "any",      "auto",    "begin",    "bool",        "case",     "char",     "const",
      "default",  "delete",  "do",       "double",      "end",      "enum",     "export",
      "float",    "friend",  "function", "goto",        "inline",   "int",      "let",
      "local",    "long",    "macro",    "module",      "mutable",  "new",      "operation",
      "operator", "private", "public",   "quote",       "register", "short",    "signed",
      "sizeof",   "static",  "struct",   "struct_size", "switch",   "template", "this",
      "throw",    "typedef", "union",    "unsigned",    "using",    "virtual",  "void",
      "volatile"};
  for (const std::string_view word : kWords) {
    if (name == word) return true;
  }
  for (int32_t type = SK_F32; type <= SK_I64; ++type) {
    if (name == dtype_name(DType(type))) return true;
  }
  return false;
}

constexpr bool is_name(std::string_view name) {
  if (name.empty() || expr::is_digit(name.front()) || name.ends_with('_')) return false;
  for (const char c : name) {
    if (!expr::is_letter(c) && !expr::is_digit(c)) return false;
  }
  return true;
}

// Whether `text` has that name in it, as a whole.
constexpr bool has_word(std::string_view text, std::string_view name) {
  const auto goes_on = [&](size_t at) {
    return at < text.size() && (expr::is_letter(text[at]) || expr::is_digit(text[at]));
  };
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    if (!goes_on(at + name.size()) && (at == 0 || !goes_on(at - 1))) return true;
  }
  return false;
}

// A number from 1 on, as it is written.
constexpr bool is_positive(std::string_view text) {
  for (const char c : text) {
    if (!expr::is_digit(c)) return false;
  }
  return !text.empty() && text.size() <= 9 && text.front() != '0';
}

constexpr bool is_own(const Schema& schema, std::string_view name) {
  return is_name(name) && !expr::is_function(name) && !is_word_elsewhere(name) &&
         count(schema, name) == 1;
}

}  // namespace names

// Whether each of its names is one, and means one thing.
constexpr bool has_own_names(const Schema& schema) {
  bool own = names::is_name(schema.name);
  for (const Dimension& each : schema.dimensions) own &= names::is_own(schema, each.name);
  for (const Attribute& each : schema.attributes) own &= names::is_own(schema, each.name);
  for (const OperandSchema& each : schema.operands) own &= names::is_own(schema, each.name);
  for (const InnerArray& each : schema.arrays) own &= names::is_own(schema, each.name);
  return own;
}

}  // namespace sk

#endif  // SK_LIB_OP_NAMES_H_
