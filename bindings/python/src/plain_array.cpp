#include "plain_array.h"

#include <algorithm>

#include "errors.h"
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
    drop_error();  // Not row-major, or a type that the buffer protocol has no letter for.
    return false;
  }
  held_ = true;
  dtype_ = dtype_of(view_);
  if (dtype_ == 0) return false;
  span_ = {reinterpret_cast<uintptr_t>(view_.buf), uint64_t(view_.len)};
  count_ = view_.len / view_.itemsize;
  shape_ = {view_.shape, size_t(view_.ndim)};
  return span_.address % size_t(view_.itemsize) == 0;
}

bool PlainArray::look_at_numpys(nb::handle array) {
  PyObject* const object = array.ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == g_array_class && look(object);
}

bool PlainArray::look(nb::handle tensor, Tensors& tensors) {
  TensorMemory memory;
  if (!tensors.is_plain(tensor, true) || !read_tensor(tensor, &memory)) return false;
  if (!memory.is_row_major() || memory.shape.size() > kDimensionsMax) return false;
  dtype_ = memory.dtype;
  span_ = memory.span();
  count_ = memory.count();
  std::ranges::copy(memory.shape, sizes_.begin());
  shape_ = std::span(sizes_).first(memory.shape.size());
  return true;
}

bool PlainArrays::look(nb::handle array, PlainArray* out, bool written) {
  if (!is_tensor(array)) return out->look_at_numpys(array);
  if (!has_tensors_ && !tensors_.begin(false)) return false;
  has_tensors_ = true;
  return out->look(array, tensors_) && (!written || tensors_.is_writable(array));
}

nb::object new_array(std::span<const Py_ssize_t> shape, nb::handle dtype) {
  const nb::object sizes = nb::steal(PyTuple_New(Py_ssize_t(shape.size())));
  for (size_t i = 0; i < shape.size(); ++i) {
    PyTuple_SetItem(sizes.ptr(), Py_ssize_t(i), PyLong_FromSsize_t(shape[i]));
  }
  PyObject* const made = PyObject_CallFunctionObjArgs(g_empty, sizes.ptr(), dtype.ptr(), nullptr);
  const nb::object held = nb::steal(made);
  if (made == nullptr) drop_error();
  return held;
}

bool PlainResult::make(PlainArrays& arrays, nb::handle given, nb::handle like,
                       const PlainArray& source, std::span<const Py_ssize_t> shape) {
  const bool is_given = !given.is_none();
  object_ = is_given          ? nb::borrow(given)
            : is_tensor(like) ? new_tensor(shape, source.dtype())
                              : new_array(shape, like.attr("dtype"));
  if (!object_.is_valid()) return false;
  const bool fits =
      is_given ? arrays.look_at_output(object_, &array_) : arrays.look(object_, &array_);
  return fits && array_.dtype() == source.dtype() && std::ranges::equal(array_.shape(), shape);
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
