// Whether a description is one of its operation's: what a hostile plan text may say and no call.
#ifndef SK_LIB_OP_JUDGE_H_
#define SK_LIB_OP_JUDGE_H_

#include "lib/op/op.h"

namespace sk {

inline constexpr int64_t kElementsMax = int64_t(1) << 46;  // Of any dimension or stride.

// "" where all is well, else what is wrong: words that the operation does not have, types, ranks,
// sizes, strides, conditions.
std::string mistake_in(const OpDesc& op, uint32_t world_size);

}  // namespace sk

#endif  // SK_LIB_OP_JUDGE_H_
