// The op line of the text form: one word for each field of the description, in the order of the
// schema.
#ifndef SK_LIB_PLAN_TEXT_WORDS_H_
#define SK_LIB_PLAN_TEXT_WORDS_H_

#include <string>

#include "lib/op/schema.h"
#include "lib/plan/text_reader.h"

namespace sk::text {

// " rows=4 cols=8 eps=1e-05 x.dtype=f32 x.stride=8 weight.absent=1 ...".
std::string op_words(const OpDesc& op);
// Behind "kind=NAME".
Result<OpDesc> read_op_words(const Schema& schema, Reader& reader);

}  // namespace sk::text

#endif  // SK_LIB_PLAN_TEXT_WORDS_H_
