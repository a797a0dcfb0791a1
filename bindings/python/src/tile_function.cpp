#include "tile_function.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <utility>

#include "gil.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

thread_local const char* t_inside = nullptr;

// By Python's own means in all of this: nothing here may throw, for C is what called.
nb::object tuple_of(uint32_t count, const auto& item) {
  nb::object tuple = nb::steal(PyTuple_New(Py_ssize_t(count)));
  for (uint32_t i = 0; tuple.is_valid() && i < count; ++i) {
    PyObject* const each = item(i);
    if (each == nullptr) return {};
    PyTuple_SetItem(tuple.ptr(), Py_ssize_t(i), each);
  }
  return tuple;
}

nb::object fetch_raised() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return nb::steal(value);
}

}  // namespace

TileFunction::TileFunction(std::string name, nb::object call, uint32_t regions,
                           std::vector<bool> floats)
    : name_(std::move(name)),
      call_(std::move(call)),
      regions_(regions),
      floats_(std::move(floats)) {}

uintptr_t TileFunction::address() const { return std::bit_cast<uintptr_t>(&TileFunction::run); }

nb::object TileFunction::take_raised() {
  return raised_.is_valid() ? std::exchange(raised_, nb::object()) : nb::none();
}

const char* TileFunction::inside() { return t_inside; }

int32_t TileFunction::run(void* const* data, const sk_tile_view* views, const sk_tile_value* values,
                          void* user) {
  auto* const self = static_cast<TileFunction*>(user);
  const GilAcquired gil;
  const char* const outer = std::exchange(t_inside, self->name_.c_str());
  const bool done = contained([&] { return self->call(data, views, values); });
  t_inside = outer;
  return done ? 1 : 0;
}

bool TileFunction::call(void* const* data, const sk_tile_view* views, const sk_tile_value* values) {
  const nb::object addresses =
      tuple_of(regions_, [&](uint32_t i) { return PyLong_FromVoidPtr(data[i]); });
  const nb::object shapes = tuple_of(regions_, [&](uint32_t i) {
    const sk_tile_view& view = views[i];
    return Py_BuildValue("LLLL", static_cast<long long>(view.rows),
                         static_cast<long long>(view.cols), static_cast<long long>(view.stride),
                         static_cast<long long>(view.dtype));
  });
  const nb::object numbers = tuple_of(uint32_t(floats_.size()), [&](uint32_t i) {
    return floats_[i] ? PyFloat_FromDouble(values[i].f) : PyLong_FromLongLong(values[i].i);
  });
  if (addresses.is_valid() && shapes.is_valid() && numbers.is_valid()) {
    const nb::object result = nb::steal(PyObject_CallFunctionObjArgs(
        call_.ptr(), addresses.ptr(), shapes.ptr(), numbers.ptr(), nullptr));
    if (result.is_valid()) return true;
  }
  raised_ = fetch_raised();
  return false;
}

void bind_tile_function(nb::module_& module) {
  nb::class_<TileFunction>(module, "TileFunction")
      .def(nb::init<std::string, nb::object, uint32_t, std::vector<bool>>())
      .def_prop_ro("address", &TileFunction::address)
      .def_prop_ro("user", &TileFunction::user)
      .def("take_raised", &TileFunction::take_raised);
  module.def("inside_tile", &TileFunction::inside);
}

}  // namespace sk::python
