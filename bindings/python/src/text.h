// The two-call pattern of everything in libsk that writes text.
#ifndef LIBSK_PYTHON_TEXT_H_
#define LIBSK_PYTHON_TEXT_H_

#include <string>

#include "errors.h"

namespace sk::python {

// `dump(buffer, capacity, &size)` twice: for the size, and for the text. Touches nothing of
// Python's.
template <typename Dump>
sk_status read_text(Dump&& dump, std::string& text) {
  size_t size = 0;
  const sk_status status = dump(nullptr, 0, &size);
  if (status != SK_OK && status != SK_ERR_OUT_OF_RANGE) return status;
  text.assign(size, '\0');
  return dump(text.data(), size + 1, &size);
}

// The same for what waits for nobody; raises.
template <typename Dump>
std::string text_of(Dump&& dump) {
  std::string text;
  check(read_text(dump, text));
  return text;
}

}  // namespace sk::python

#endif  // LIBSK_PYTHON_TEXT_H_
