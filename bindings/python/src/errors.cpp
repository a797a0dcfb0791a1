#include "errors.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "gil.h"

namespace nb = nanobind;

namespace sk::python {

void check(sk_status status, const std::string& sentence) {
  if (status == SK_OK) return;
  const nb::object error = contained([&] {
    return nb::module_::import_("libsk._errors")
        .attr("from_status")(int(status), sk_status_name(status), sentence);
  });
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

void check(sk_status status) {
  if (status != SK_OK) check(status, sk_last_error());
}

void drop_error() {
  if (PyErr_Occurred() == nullptr) return;
  nb::python_error error;
  bool goes_on = !error.matches(PyExc_Exception);
  const nb::object trace = nb::steal(PyException_GetTraceback(error.value().ptr()));
  if (!goes_on && trace.is_valid()) {  // Else no code of Python's has raised it.
    goes_on = contained([&] {
      return nb::cast<bool>(nb::module_::import_("libsk._checks").attr("is_of_handler")(trace));
    });
  }
  if (!goes_on) return;
  error.restore();
  throw nb::python_error();
}

}  // namespace sk::python
