// The two-call pattern of everything in libsk that writes text.
#ifndef LIBSK_PYTHON_TEXT_H_
#define LIBSK_PYTHON_TEXT_H_

#include <string>

#include "errors.h"

namespace sk::python {

// `dump(buffer, capacity, &size)` twice: for the size, and for the text.
template <typename Dump>
std::string text_of(Dump&& dump) {
  size_t size = 0;
  const sk_status status = dump(nullptr, 0, &size);
  if (status != SK_OK && status != SK_ERR_OUT_OF_RANGE) check(status);
  std::string text(size, '\0');
  check(dump(text.data(), size + 1, &size));
  return text;
}

}  // namespace sk::python

#endif  // LIBSK_PYTHON_TEXT_H_
