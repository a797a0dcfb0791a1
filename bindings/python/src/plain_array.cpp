#include "plain_array.h"

#include <algorithm>

#include "sk/op.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

// NumPy's, once it is loaded: nothing here loads it. Never given back.
PyObject* g_array_class = nullptr;
PyObject* g_empty = nullptr;

int32_t dtype_of(const Py_buffer& view) {
  if (view.format == nullptr || view.format[0] == '\0' || view.format[1] != '\0') return 0;
  switch (view.format[0]) {
    case 'f':
      return SK_F32;
    case 'd':
      return SK_F64;
    case 'e':
      return SK_F16;
    case 'i':
      return SK_I32;
    case 'l':
    case 'q':
      return view.itemsize == 8 ? SK_I64 : SK_I32;
    default:
      return 0;
  }
}

// Span, shape, element type and read-only flag; None for what is no plain array.
nb::object describe(nb::handle array) {
  PlainArray plain;
  if (!plain.look(array.ptr())) return nb::none();
  // By Python's own means: calls come here for each of their arrays.
  const nb::object shape = nb::steal(PyTuple_New(Py_ssize_t(plain.shape().size())));
  for (size_t i = 0; i < plain.shape().size(); ++i) {
    PyTuple_SetItem(shape.ptr(), Py_ssize_t(i), PyLong_FromSsize_t(plain.shape()[i]));
  }
  const Span span = plain.span();
  return nb::steal(Py_BuildValue("(KK)OiO", static_cast<unsigned long long>(span.address),
                                 static_cast<unsigned long long>(span.bytes), shape.ptr(),
                                 plain.dtype(), plain.read_only() ? Py_True : Py_False));
}

}  // namespace

bool PlainArray::look(PyObject* array) {
  if (PyObject_GetBuffer(array, &view_, PyBUF_ND | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // Not row-major, or a type that the buffer protocol has no letter for.
    return false;
  }
  held_ = true;
  dtype_ = dtype_of(view_);
  return dtype_ != 0 && reinterpret_cast<uintptr_t>(view_.buf) % size_t(view_.itemsize) == 0;
}

bool look(nb::handle array, PlainArray* out) {
  PyObject* const object = array.ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == g_array_class && out->look(object);
}

bool look(const CommHandle& comm, nb::handle array, PlainArray* out) {
  return comm.device_type == SK_DEVICE_CPU && look(array, out);
}

nb::object new_array(std::span<const Py_ssize_t> shape, nb::handle dtype) {
  const nb::object sizes = nb::steal(PyTuple_New(Py_ssize_t(shape.size())));
  for (size_t i = 0; i < shape.size(); ++i) {
    PyTuple_SetItem(sizes.ptr(), Py_ssize_t(i), PyLong_FromSsize_t(shape[i]));
  }
  PyObject* const made = PyObject_CallFunctionObjArgs(g_empty, sizes.ptr(), dtype.ptr(), nullptr);
  if (made == nullptr) PyErr_Clear();
  return nb::steal(made);
}

bool PlainResult::make(const CommHandle& comm, nb::handle given, nb::handle like,
                       const PlainArray& source, std::span<const Py_ssize_t> shape) {
  object_ = given.is_none() ? new_array(shape, like.attr("dtype")) : nb::borrow(given);
  return object_.is_valid() && look(comm, object_, &array_) && !array_.read_only() &&
         array_.dtype() == source.dtype() && std::ranges::equal(array_.shape(), shape);
}

void bind_plain_array(nb::module_& module) {
  module.def("describe", &describe);
  module.def("know_numpy", [](nb::object array_class, nb::object empty) {
    if (g_array_class != nullptr) return;
    g_empty = empty.release().ptr();
    g_array_class = array_class.release().ptr();
  });
}

}  // namespace sk::python
