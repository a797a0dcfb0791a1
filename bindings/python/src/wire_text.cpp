#include "wire_text.h"

namespace nb = nanobind;

namespace sk::python {

std::string to_wire(PyObject* text, bool up_to_nul) {
  std::string out;
  Py_ssize_t size = 0;
  if (const char* const utf8 = PyUnicode_AsUTF8AndSize(text, &size); utf8 != nullptr) {
    out.assign(utf8, size_t(size));
  } else {
    PyErr_Clear();
    const auto bytes =
        nb::steal<nb::object>(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
    if (bytes.is_valid())
      out.assign(PyBytes_AsString(bytes.ptr()), size_t(PyBytes_Size(bytes.ptr())));
    else
      PyErr_Clear(), out = "(a text that cannot be encoded)";
  }
  if (!up_to_nul) return out;
  for (size_t at = 0; (at = out.find('\0', at)) != std::string::npos; at += 4)
    out.replace(at, 1, "\\x00");
  return out;
}

}  // namespace sk::python
