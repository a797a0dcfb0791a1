// What lies in callers' memory before a run, and what must lie there behind it: the operation's
// meaning, where its operands lie.
#ifndef SK_LIB_PLAN_CHECK_CALLERS_H_
#define SK_LIB_PLAN_CHECK_CALLERS_H_

#include "lib/effect/meaning.h"
#include "lib/op/schema.h"
#include "lib/plan/check/operands.h"

namespace sk::check {

class Callers {
 public:
  Callers(const Plan& plan, const Operands& operands, const effect::Meaning& meaning,
          effect::Blocks& blocks, effect::Work& work)
      : plan_(plan), operands_(operands), meaning_(meaning), blocks_(blocks), work_(work) {}

  // What the caller has put into the memory of `rank` that is operand `home`'s.
  struct Given {
    effect::Term term;  // Nothing, or elements in this window: rows of `row_bytes`.
    Window window;
    uint64_t row_bytes = 0, stride = 0;
    effect::Work* work = nullptr;

    // Of these bytes; appends. Of what is exhausted by then nothing is said.
    void bytes(uint64_t offset, uint64_t bytes, effect::Stream* out) const;
  };
  Given given(uint32_t home, uint32_t rank) const;
  // All of it that is some operand's, when the run has ended. What no step defines is as before.
  effect::Stream behind(uint32_t home, uint32_t rank) const;
  // Whether a step defines any of that.
  bool has_results(uint32_t home, uint32_t rank) const;

 private:
  // An operand of that role in the memory, or none.
  uint32_t find(Role role, uint32_t home, uint32_t rank) const;

  const Plan& plan_;
  const Operands& operands_;
  const effect::Meaning& meaning_;
  effect::Blocks& blocks_;
  effect::Work& work_;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_CALLERS_H_
