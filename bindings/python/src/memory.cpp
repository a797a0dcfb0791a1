#include "memory.h"

#include <cstdlib>
#include <string>

#include "errors.h"

namespace sk::python {

void refuse(const char* what, const Span& span, int64_t count, int64_t blocks, int32_t dtype) {
  check(SK_ERR_INTERNAL, "the call would touch " + std::to_string(blocks) + " x " +
                             std::to_string(count) + " elements of " +
                             std::to_string(bytes_of(dtype)) + " bytes of " + what +
                             ", which has " + std::to_string(span.bytes) +
                             " bytes: a bug of libsk; nothing was touched");
  std::abort();  // check() throws.
}

}  // namespace sk::python
