#include "lib/plan/check/accumulate.h"

namespace sk::check {
namespace {

Status check_tag(const Tag& tag, size_t i, size_t count, RedOp redop, DType dtype,
                 const Where& where) {
  if (tag.space != kElements && tag.space != kProduct) {
    return refuse('e', "{}: input {} is {}", where, i, describe(Piece{.tag = tag}));
  }
  if (tag.dtype != dtype) {
    return refuse('e', "{} reads {} as {}", where, dtype_name(tag.dtype), dtype_name(dtype));
  }
  if (count == 1) return Status();
  if (tag.rounded) return refuse('e', "{}: input {} has been rounded already", where, i);
  if (tag.count == 1) return Status();
  if (tag.redop != uint8_t(redop) || redop == RedOp::kAvg) {
    return refuse('e', "{}: input {} is a {} already", where, i, redop_name(RedOp(tag.redop)));
  }
  if (is_float(dtype) && i > 0) {
    return refuse('e', "{}: input {} joins {} contributions, which is not in rank order", where, i,
                  tag.count);
  }
  if (accumulator(dtype) != dtype) {
    return refuse('e', "{}: input {} is a sum in {}", where, i, dtype_name(dtype));
  }
  return Status();
}

}  // namespace

Result<Tag> join(const std::vector<Tag>& tags, RedOp redop, DType dtype, DType out_dtype,
                 const Where& where) {
  Tag out{.space = tags[0].space, .ranks = 0, .count = 0, .dtype = out_dtype};
  for (size_t i = 0; i < tags.size(); ++i) {
    const Tag& tag = tags[i];
    SK_RETURN_IF_ERROR(check_tag(tag, i, tags.size(), redop, dtype, where));
    if (tag.space != out.space) return refuse('e', "{} joins different things", where);
    out.ranks += tag.ranks * (is_float(dtype) ? position_factor(out.count) : 1);
    if (__builtin_add_overflow(out.count, tag.count, &out.count)) {
      return refuse('e', "{} joins too many contributions", where);
    }
    out.rounded = out.rounded || tag.rounded;
  }
  if (tags.size() == 1) {
    out.redop = tags[0].redop;
    out.rounded = out.rounded || out_dtype != dtype;
  } else {
    out.redop = uint8_t(redop);
    out.rounded = accumulator(dtype) != out_dtype;
  }
  return out;
}

}  // namespace sk::check
