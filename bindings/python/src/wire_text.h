// Text on its way out of a rank. Any str of Python's: lone surrogates (a file name that is no
// UTF-8) stay visible as escapes, and so do NULs where the C ABI ends a text at one.
#ifndef LIBSK_PYTHON_WIRE_TEXT_H_
#define LIBSK_PYTHON_WIRE_TEXT_H_

#include <nanobind/nanobind.h>

#include <string>

namespace sk::python {

template <bool kUpToNul>
struct WireText {
  std::string utf8;
  const char* c_str() const { return utf8.c_str(); }
};
using Text = WireText<true>;
using RawText = WireText<false>;  // With its length.

// Cannot fail, for what cannot be told about an error must not be another.
std::string to_wire(PyObject* text, bool up_to_nul);

}  // namespace sk::python

template <bool kUpToNul>
struct nanobind::detail::type_caster<sk::python::WireText<kUpToNul>> {
  NB_TYPE_CASTER(sk::python::WireText<kUpToNul>, const_name("str"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    value.utf8 = sk::python::to_wire(source.ptr(), kUpToNul);
    return true;
  }
};

#endif  // LIBSK_PYTHON_WIRE_TEXT_H_
