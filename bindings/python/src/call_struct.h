// The struct of arguments of an operation that is called by its number, written field by field at
// the places that the library's own description of the operation says.
#ifndef LIBSK_PYTHON_CALL_STRUCT_H_
#define LIBSK_PYTHON_CALL_STRUCT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "errors.h"
#include "memory.h"
#include "sk/op.h"

namespace sk::python {

// What sk_call() gets, but for the tensors, which the caller keeps beside it.
class CallStruct {
 public:
  explicit CallStruct(uint32_t bytes) {
    if (bytes > kBytesMax) check(SK_ERR_INTERNAL, "an operation has more arguments than expected");
    put(0, bytes);
  }
  template <typename T>
  void put(uint32_t offset, T value) {
    if (offset + sizeof(T) > kBytesMax) check(SK_ERR_INTERNAL, "an argument has no place");
    std::memcpy(bytes_.data() + offset, static_cast<const void*>(&value), sizeof(T));
  }
  // Of four bytes, or eight.
  void put_integer(uint32_t offset, uint32_t bytes, int64_t value) {
    if (bytes == sizeof(int32_t)) {
      put(offset, int32_t(value));
    } else {
      put(offset, value);
    }
  }
  const void* get() const { return bytes_.data(); }

 private:
  static constexpr size_t kBytesMax = 256;
  alignas(8) std::array<unsigned char, kBytesMax> bytes_{};
};

// `what` is its name in sentences; a row step of 0 is a vector's.
inline void set_tensor(const char* what, const Matrix& matrix, sk_tensor* tensor) {
  const auto& [span, dtype, rows, columns, row_step] = matrix;
  *tensor = {};
  tensor->struct_size = sizeof *tensor;
  tensor->data = held(what, matrix);
  tensor->dtype = dtype;
  tensor->ndim = row_step == 0 ? 1 : 2;
  tensor->shape[0] = row_step == 0 ? columns : rows;
  tensor->shape[1] = columns;
  tensor->strides[0] = row_step == 0 ? 1 : row_step;
  tensor->strides[1] = 1;
}

}  // namespace sk::python

#endif  // LIBSK_PYTHON_CALL_STRUCT_H_
