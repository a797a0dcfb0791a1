// The struct of arguments of an operation that is called by its number, written field by field at
// the places that the library's own description of the operation says.
#ifndef LIBSK_PYTHON_CALL_STRUCT_H_
#define LIBSK_PYTHON_CALL_STRUCT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

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

// The arguments of one call as Python hands them over: of each where in the struct it stands, and
// what. A tensor has its name in sentences; an integer has four bytes, or eight.
using TensorField = std::tuple<uint32_t, std::string, Matrix>;
using NumberField = std::tuple<uint32_t, double>;
using IntegerField = std::tuple<uint32_t, uint32_t, int64_t>;
// Each tensor of a list has its name.
using ListField = std::tuple<uint32_t, std::vector<std::tuple<std::string, Matrix>>>;

// The struct of one, with its tensors.
class CallArgs {
 public:
  CallArgs(uint32_t bytes, const std::vector<TensorField>& tensors,
           const std::vector<NumberField>& numbers, const std::vector<IntegerField>& integers,
           const std::vector<ListField>& lists = {})
      : args_(bytes), tensors_(tensors.size() + tensors_in(lists)), listed_(lists.size()) {
    sk_tensor* next = tensors_.data();
    for (const auto& [offset, what, matrix] : tensors) {
      set_tensor(what.c_str(), matrix, next);
      args_.put(offset, static_cast<const void*>(next++));
    }
    size_t number = 0;
    for (const auto& [offset, list] : lists) {
      std::vector<const sk_tensor*>& pointers = listed_[number++];
      for (const auto& [what, matrix] : list) {
        set_tensor(what.c_str(), matrix, next);
        pointers.push_back(next++);
      }
      args_.put(offset, static_cast<const void*>(pointers.data()));
    }
    for (const auto& [offset, value] : numbers) args_.put(offset, value);
    for (const auto& [offset, size, value] : integers) args_.put_integer(offset, size, value);
  }
  CallArgs(const CallArgs&) = delete;
  CallArgs& operator=(const CallArgs&) = delete;

  const void* get() const { return args_.get(); }

 private:
  static size_t tensors_in(const std::vector<ListField>& lists) {
    size_t count = 0;
    for (const auto& list : lists) count += std::get<1>(list).size();
    return count;
  }

  CallStruct args_;
  std::vector<sk_tensor> tensors_;
  std::vector<std::vector<const sk_tensor*>> listed_;
};

}  // namespace sk::python

#endif  // LIBSK_PYTHON_CALL_STRUCT_H_
