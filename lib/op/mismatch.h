// What to say where ranks called different things.
#ifndef SK_LIB_OP_MISMATCH_H_
#define SK_LIB_OP_MISMATCH_H_

#include <string>
#include <vector>

#include "lib/op/op.h"

namespace sk {

// A call in words, as the ranks tell each other once they know that they disagree: a line for the
// operation, one for describe(), then one "name\tvalue" for each field that callers know.
inline constexpr size_t kCallTextMax = 4096;
std::string call_text(const OpDesc& op);
// `text` as it can be told: of one that is too long, whole lines and a sign that there were more.
std::string cut_call_text(std::string text);
// The second line, where `text` has one.
std::string described(const std::string& text);

// "count is 9, not 8; ...": what of one call's words is not as in the other's; "" where nothing is.
std::string fields_that_differ(const OpDesc& is, const OpDesc& other);

// Equal fingerprints are equal calls; of equal texts with other fingerprints the plans differ.
struct RankCall {
  uint32_t rank = 0;
  uint64_t fingerprint = 0;
  std::string text;
};

// "rank 5 called allreduce(f32, sum, 9) while the other 15 ranks called allreduce(f32, sum, 8):
// count is 9, not 8". The ranks that agree with most others are one group; every rank that is given
// the same calls says the same.
std::string explain_mismatch(std::vector<RankCall> calls);

// "rank 3", "ranks 3, 4 and 9"; of very many the first and how many more. Ascending.
std::string name_ranks(const std::vector<uint32_t>& ranks);

}  // namespace sk

#endif  // SK_LIB_OP_MISMATCH_H_
