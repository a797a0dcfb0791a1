#include "alone.h"

#include "blocking.h"
#include "sk/call.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

bool read_float(PyObject* value, double* out) {
  if (PyFloat_CheckExact(value) == 0 && PyLong_CheckExact(value) == 0) return false;
  *out = PyFloat_AsDouble(value);
  if (PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();
  return false;
}

bool read_integer(PyObject* value, uint32_t bytes, int64_t* out) {
  if (PyLong_CheckExact(value) == 0) return false;
  *out = PyLong_AsLongLong(value);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return bytes != sizeof(int32_t) || *out == int32_t(*out);
}

}  // namespace

bool read_numbers(const std::vector<NumberRow>& rows, const nb::tuple& values, CallStruct* args) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [offset, kind, bytes] = rows[i];
    PyObject* const value = PyTuple_GetItem(values.ptr(), Py_ssize_t(i));
    double number = 0;
    int64_t integer = value == Py_True ? 1 : 0;
    switch (Number(kind)) {
      case Number::kFloat:
        if (!read_float(value, &number)) return false;
        args->put(offset, number);
        continue;
      case Number::kBool:
        if (value != Py_True && value != Py_False) return false;
        break;
      case Number::kInteger:
        if (!read_integer(value, bytes, &integer)) return false;
        break;
      default:
        return false;
    }
    args->put_integer(offset, bytes, integer);
  }
  return true;
}

bool take_alone(const Context& context, int32_t op, const CallStruct& args) {
  bool is_refused = false;
  wait(nullptr, [&] {
    sk_comm* self = nullptr;
    sk_status status = sk_comm_self(context.get(), &self);
    if (status == SK_OK) status = sk_call(self, op, args.get(), nullptr);
    is_refused = status == SK_ERR_INVALID_ARGUMENT;
    return is_refused ? SK_OK : status;
  });
  return !is_refused;
}

}  // namespace sk::python
