// What an operation is: constant data, one record each, from which sentences, checks, sizes and
// windows of operands are derived (ADR 14). Expressions are those of expr.h; their names are the
// operation's dimensions and attributes, `world`, and what an attribute may be: `op_avg`. A keyword
// of Python's has an underscore there: the operand `in` is `in_` (names.h).
#ifndef SK_LIB_OP_SCHEMA_H_
#define SK_LIB_OP_SCHEMA_H_

#include <limits>
#include <span>
#include <string_view>

#include "lib/op/op.h"
#include "lib/op/steps.h"
#include "lib/plan/task.h"

namespace sk {

struct Dimension {
  const char* name;
  const char* doc = "";
};

enum class Role : uint8_t { kIn, kOut };

struct OperandSchema {
  const char* name;
  Role role;
  // "any"; "float"; another operand's name: of its type; "a|f32": or f32; "accumulator(a)": of sums
  // of its elements. The first is an absent operand's, where it is another operand's.
  const char* types;
  const char* shape;                  // "m, k": rows and columns. "count": a vector.
  Storage storage = Storage::kDense;  // Of a new description.
  Storage or_storage = storage;       // The other one that it may have.
  const char* turned_by = "";         // The attribute under which rows are stored transposed.
  bool reached = false;               // By peers: whether they can map it is part of the call.
  const char* only_on = "";           // The attribute that names the one rank that has it.
  // In place it is this part of that operand, from element `alias_at` on, which knows `rank`. Rows
  // are in place as a whole: of one shape and stride, from element 0 on.
  const char* alias = "";
  const char* alias_at = "0";
  bool optional = false;  // A call may come without it.
  // Any number of tensors, one vector in their order; the n-th of all lists are equally long. It
  // has the free dimension, along which tiles are cut: where one tensor ends is of the call alone.
  bool list = false;
  // What becomes of `alias`, in its place: no argument of its own.
  bool only_in_place = false;
  bool not_negative = false;  // Its elements, as the caller promises.
  // It may lie in all of that operand's memory, which is this rank's own business.
  const char* may_be_in = "";
  const char* doc = "";

  constexpr bool may_be(Storage how) const { return storage == how || or_storage == how; }
};

enum class AttributeKind : uint8_t {
  kBool,
  kRank,
  kRedOp,
  kInt,
  kFloat,  // The bits of a double. Expressions do not know it; a NaN is never one.
};

struct Attribute {
  const char* name;
  AttributeKind kind;
  const char* label = "";  // As sentences name it, where not by its name.
  // kInt: expressions of what it may be; empty: any.
  const char *least = "", *most = "";
  double lowest = -std::numeric_limits<double>::infinity();  // kFloat: likewise.
  double highest = std::numeric_limits<double>::infinity();
  // Of a run, and of no plan: descriptions have no word for it, tasks take its value when they run
  // (kRunValue). Of local operations so far, where no rank has to agree.
  bool runtime = false;
  const char* suggested = "";  // What Python and Julia take where nothing is said; C has none.
  const char* doc = "";

  constexpr const char* spoken() const { return label[0] != '\0' ? label : name; }
};

struct Condition {
  const char* holds;
  const char* sentence;
};

// Neither given nor returned: what lies between two steps.
struct InnerArray {
  const char* name;
  const char* type;  // An operand's name: as it; "accumulator(a)": as sums of its elements.
  const char* shape;
};

enum class Scope : uint8_t {
  kAll,
  kPair,   // The ranks that its first two attributes name.
  kLocal,  // Each rank alone: its plan is that of a world of one.
};

// Null where none has that name.
template <typename T>
constexpr const T* named(std::span<const T> all, std::string_view wanted) {
  for (const T& each : all) {
    if (wanted == each.name) return &each;
  }
  return nullptr;
}

struct Schema {
  OpKind id;  // Never reused.
  const char* name;
  const char* brief;  // Behind the name in sentences: "{in.dtype}, {op}, {count}".
  Scope scope = Scope::kAll;
  std::span<const Dimension> dimensions = {};
  std::span<const OperandSchema> operands = {};  // In the order of their numbers in plans.
  std::span<const Attribute> attributes = {};
  std::span<const Condition> conditions = {};
  std::span<const InnerArray> arrays = {};
  const Steps* meaning = nullptr;  // Null: it moves nothing.
  // A local operation's: the dimension, outermost wherever it is, for any number of which one plan
  // does (lib/plan/free_rows.h). Empty: none.
  const char* free = "";
  // For who reads about it: a sentence or two, and where its formula comes from.
  const char *summary = "", *source = "";
  // Of a user's: the tile that does it, and what hashes take for its number.
  TaskOp tile = TaskOp::kNop;
  uint64_t digest = 0;

  // Null where it has none of that name.
  constexpr const OperandSchema* operand(std::string_view wanted) const {
    return named(operands, wanted);
  }
  constexpr const Attribute* attribute(std::string_view wanted) const {
    return named(attributes, wanted);
  }

  constexpr bool has_lists() const {
    bool any = false;
    for (const OperandSchema& each : operands) any |= each.list;
    return any;
  }
  // Whether a call leaves something else where that operand was.
  constexpr bool is_written(size_t index) const {
    bool written = operands[index].role == Role::kOut;
    for (const OperandSchema& each : operands) {
      written |= each.only_in_place && std::string_view(each.alias) == operands[index].name;
    }
    return written;
  }
  // The number of an attribute among those that are runtime values, or of all of these.
  constexpr uint32_t run_value(size_t index) const {
    uint32_t before = 0;
    for (size_t i = 0; i < index; ++i) before += attributes[i].runtime;
    return before;
  }
  constexpr uint32_t run_values() const { return run_value(attributes.size()); }

  // Where descriptions keep them. Of an operand that is never stored in rows, and of an attribute
  // that is a runtime value: none.
  constexpr Field dimension_field(size_t index) const { return whole(OpDesc::kFirstWord + index); }
  constexpr Field stride_field(size_t operand_index) const {
    if (!operands[operand_index].may_be(Storage::kRows)) return {};
    return whole(OpDesc::kFirstWord + dimensions.size() + strides_before(operand_index));
  }
  constexpr Field attribute_field(size_t index) const {
    size_t flags = 0, words = 0;
    if (attributes[index].runtime) return {};
    for (size_t i = 0; i < index; ++i) {
      if (attributes[i].runtime) continue;
      (attributes[i].kind == AttributeKind::kBool ? flags : words) += 1;
    }
    if (attributes[index].kind == AttributeKind::kBool) {
      return {uint8_t(OpDesc::kFlagWord), uint8_t(flags), 1};
    }
    return whole(OpDesc::kFirstWord + dimensions.size() + strides_before(operands.size()) + words);
  }
  // A dimension's or an attribute's.
  constexpr Field field(std::string_view wanted) const {
    for (size_t i = 0; i < dimensions.size(); ++i) {
      if (wanted == dimensions[i].name) return dimension_field(i);
    }
    for (size_t i = 0; i < attributes.size(); ++i) {
      if (wanted == attributes[i].name) return attribute_field(i);
    }
    return {};
  }
  constexpr uint32_t word_count() const {
    size_t words = OpDesc::kFirstWord + dimensions.size() + strides_before(operands.size());
    for (const Attribute& each : attributes) {
      words += each.kind != AttributeKind::kBool && !each.runtime;
    }
    return uint32_t(words);
  }

 private:
  static constexpr Field whole(size_t word) { return {uint8_t(word), 0, 64}; }
  constexpr size_t strides_before(size_t operand_index) const {
    size_t strides = 0;
    for (size_t i = 0; i < operand_index; ++i) strides += operands[i].may_be(Storage::kRows);
    return strides;
  }
};

// The field of a name that the schema must have: else it does not compile.
void the_schema_has_no_such_name();  // Not there, so that nothing constant can call it.
consteval Field field_of(const Schema& schema, std::string_view name) {
  const Field field = schema.field(name);
  if (!field) the_schema_has_no_such_name();
  return field;
}

// What plans have for a runtime attribute that the schema must have.
consteval int64_t run_value_of(const Schema& schema, std::string_view name) {
  size_t index = 0;  // No pointer: for GCC 12 under UBSan those into constants are no constants.
  while (index < schema.attributes.size() && name != schema.attributes[index].name) ++index;
  if (index == schema.attributes.size() || !schema.attributes[index].runtime) {
    the_schema_has_no_such_name();
  }
  return kRunValue + schema.run_value(index);
}

// Null for a number or a name that is no operation.
const Schema* schema_of(OpKind id);
const Schema* schema_of(std::string_view name);
std::span<const Schema* const> all_schemas();

}  // namespace sk

#endif  // SK_LIB_OP_SCHEMA_H_
