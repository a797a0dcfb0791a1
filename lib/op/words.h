// The words of a description by what a schema calls them.
#ifndef SK_LIB_OP_WORDS_H_
#define SK_LIB_OP_WORDS_H_

#include <string_view>

#include "lib/op/schema.h"

namespace sk {

int64_t word(const OpDesc& op, Member member);

inline int64_t word_or_0(const OpDesc& op, Member member) {
  return member == Member::kNone ? 0 : word(op, member);
}

// The names that expressions of `schema` may have, with their values in one call (expr.h).
class OpScope {
 public:
  OpScope(const Schema& schema, const OpDesc& op, int64_t world, int64_t rank)
      : schema_(schema), op_(op), world_(world), rank_(rank) {}

  bool find(std::string_view name, int64_t* value) const;
  bool find_is_float(std::string_view operand, bool* value) const;

 private:
  const Schema& schema_;
  const OpDesc& op_;
  int64_t world_, rank_;
};

}  // namespace sk

#endif  // SK_LIB_OP_WORDS_H_
