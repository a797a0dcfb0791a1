// What a call may touch, held against what it will touch: the last look at memory before libsk gets
// its address.
//
// Python hands over each piece of memory as a Span, whose size is what its owner says it has. The
// size a call needs follows from the call alone: element type, count, shape, strides. No address
// goes on whose span is smaller, whatever the Python files made of the arguments before.
#ifndef LIBSK_PYTHON_MEMORY_H_
#define LIBSK_PYTHON_MEMORY_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "sk/op.h"

namespace sk::python {

// Address, and the bytes from there on that belong to the argument; a pair of numbers in Python.
struct Span {
  uintptr_t address = 0;
  uint64_t bytes = 0;
};

// Address, dtype, rows, columns, elements from row to row.
using Matrix = std::tuple<Span, int32_t, int64_t, int64_t, int64_t>;

// Memory, or a stream, whose address came through Python.
inline void* pointer(uintptr_t address) { return std::bit_cast<void*>(address); }

// 0 for what is no type: libsk refuses that before it looks at memory.
constexpr size_t bytes_of(int32_t dtype) {
  switch (dtype) {
    case SK_BF16:
    case SK_F16:
      return 2;
    case SK_F32:
    case SK_I32:
      return 4;
    case SK_F64:
    case SK_I64:
      return 8;
    default:
      return 0;
  }
}

// Raises SK_ERR_INTERNAL: the Python files let something through.
[[noreturn]] void refuse(const char* what, const Span& span, int64_t count, int64_t blocks,
                         int32_t dtype);

// The address of `blocks` times `count` elements; `what` is the argument's name. Numbers below 0
// are libsk's to refuse, with its sentence.
inline void* held(const char* what, const Span& span, int64_t count, int64_t blocks,
                  int32_t dtype) {
  int64_t elements = 0, bytes = 0;
  if (count > 0 && blocks > 0 &&
      (__builtin_mul_overflow(count, blocks, &elements) ||
       __builtin_mul_overflow(elements, int64_t(bytes_of(dtype)), &bytes) ||
       uint64_t(bytes) > span.bytes)) {
    refuse(what, span, count, blocks, dtype);
  }
  return pointer(span.address);
}

// The same for a matrix, from its first element to its last.
inline void* held(const char* what, const Matrix& matrix) {
  const auto& [span, dtype, rows, columns, row_step] = matrix;
  int64_t elements = columns;
  if (rows > 0 && columns > 0 &&
      (__builtin_mul_overflow(rows - 1, rows > 1 ? row_step : 0, &elements) ||
       __builtin_add_overflow(elements, columns, &elements))) {
    refuse(what, span, columns, rows, dtype);
  }
  return held(what, span, elements, rows > 0 ? 1 : 0, dtype);
}

}  // namespace sk::python

// By Python's own means, for two of them are in every call.
template <>
struct nanobind::detail::type_caster<sk::python::Span> {
  NB_TYPE_CASTER(sk::python::Span, const_name("tuple[int, int]"))

  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    PyObject* const pair = source.ptr();
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) return false;
    value.address = PyLong_AsUnsignedLongLong(PyTuple_GetItem(pair, 0));
    value.bytes = PyLong_AsUnsignedLongLong(PyTuple_GetItem(pair, 1));
    if (PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
  }
};

#endif  // LIBSK_PYTHON_MEMORY_H_
