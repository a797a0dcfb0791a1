// Words of the text form: the op line's, one for each field of the description in the order of the
// schema, and what tasks' parameters are.
#ifndef SK_LIB_PLAN_TEXT_WORDS_H_
#define SK_LIB_PLAN_TEXT_WORDS_H_

#include <string>

#include "lib/op/schema.h"
#include "lib/plan/text_reader.h"
#include "lib/tile/signature.h"

namespace sk::text {

// " rows=4 cols=8 eps=1e-05 x.dtype=f32 x.stride=8 weight.absent=1 ...".
std::string op_words(const OpDesc& op);
// Behind "kind=NAME".
Result<OpDesc> read_op_words(const Schema& schema, Reader& reader);

// A task's parameter: "f32", "1e-05", "run.0", "24".
std::string value_text(const Parameter& parameter, int64_t value);

}  // namespace sk::text

#endif  // SK_LIB_PLAN_TEXT_WORDS_H_
