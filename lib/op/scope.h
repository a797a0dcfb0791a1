// What the names in a schema's expressions stand for in one call (expr.h).
#ifndef SK_LIB_OP_SCOPE_H_
#define SK_LIB_OP_SCOPE_H_

#include <string_view>

#include "lib/op/schema.h"

namespace sk {

class OpScope {
 public:
  static constexpr int64_t kNoRank = -1;  // `rank` is unknown then: what holds for all ranks.

  OpScope(const OpDesc& op, int64_t world, int64_t rank = kNoRank)
      : op_(op), world_(world), rank_(rank) {}

  bool find(std::string_view name, int64_t* value) const;
  bool find_is_float(std::string_view operand, bool* value) const;

 private:
  const OpDesc& op_;
  int64_t world_, rank_;
};

// A boolean attribute's value; false for "", which stands for none.
bool flag(const OpDesc& op, std::string_view attribute);

}  // namespace sk

#endif  // SK_LIB_OP_SCOPE_H_
