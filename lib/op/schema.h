// What an operation is: constant data, one record each, from which sentences, checks, sizes and
// windows of operands are derived (ADR 14). Expressions are those of expr.h; their names are the
// operation's dimensions and attributes, `world`, `rank`, and the reductions' names.
#ifndef SK_LIB_OP_SCHEMA_H_
#define SK_LIB_OP_SCHEMA_H_

#include <span>
#include <string_view>

#include "lib/op/op.h"

namespace sk {

// Where a description keeps a word.
enum class Member : uint8_t {
  kNone,
  kDType,
  kOutDType,
  kRedOp,
  kSymmetricIn,
  kSymmetricOut,
  kInPlace,
  kTransposeA,
  kPackB,
  kTransposeB,
  kRoot,
  kPeer,
  kCount,
  kM,
  kN,
  kK,
  kLda,
  kLdb,
  kLdc,
};
inline constexpr uint8_t kMemberCount = 19;

struct Dimension {
  const char* name;
  Member member;
};

enum class Role : uint8_t { kIn, kOut };

struct OperandSchema {
  const char* name;
  Role role;
  // "any"; "float"; another operand's name: of its type; "a|f32": of its type, or f32.
  const char* types;
  Member type;
  const char* shape;  // "m, k": rows and columns. "count": elements one after the other.
  Member stride = Member::kNone;     // From row to row, in elements. None: dense.
  const char* turned_by = "";        // The attribute under which it is stored transposed.
  const char* plain_if = "";         // The attribute without which it is packed (sk_pack()).
  Member symmetric = Member::kNone;  // Whether peers can map it; none: they never reach it.
  const char* only_on = "";          // The attribute that names the one rank that has it.
  // In place it is this part of that operand, from element `alias_at` on, and has no memory of its
  // own.
  const char* alias = "";
  const char* alias_at = "0";
};

enum class AttributeKind : uint8_t { kBool, kRank, kRedOp };

struct Attribute {
  const char* name;
  AttributeKind kind;
  Member member;
  const char* label = "";  // As sentences name it, where not by its name.
  bool inverted = false;   // The label says the contrary.
};

struct Condition {
  const char* holds;
  const char* sentence;
};

struct Schema {
  OpKind id;  // Never reused.
  const char* name;
  const char* brief;  // Behind the name in sentences: "{in.dtype}, {op}, {count}".
  std::span<const Dimension> dimensions = {};
  std::span<const OperandSchema> operands = {};  // In the order of their numbers in plans.
  std::span<const Attribute> attributes = {};
  std::span<const Condition> conditions = {};

  // Null where it has none of that name.
  const OperandSchema* operand(std::string_view operand_name) const;
  const Attribute* attribute(std::string_view attribute_name) const;
  // Whether its descriptions use that word.
  bool has(Member member) const;
};

// Null for a number or a name that is no operation.
const Schema* schema_of(OpKind id);
const Schema* schema_of(std::string_view name);
std::span<const Schema* const> all_schemas();

}  // namespace sk

#endif  // SK_LIB_OP_SCHEMA_H_
