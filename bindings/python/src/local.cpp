// Operations that this process does alone, by their numbers: the struct of arguments is written
// field by field, at the places that the library's own description of the operation says.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "blocking.h"
#include "context.h"
#include "sk/call.h"
#include "sk/tile.h"
#include "text.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

constexpr size_t kArgsMax = 256;

// Where in the struct, its name in sentences, and the memory; a row step of 0 is a vector's.
using TensorField = std::tuple<uint32_t, std::string, Matrix>;
using NumberField = std::tuple<uint32_t, double>;
using IntegerField = std::tuple<uint32_t, uint32_t, int64_t>;  // In four bytes, or eight.

sk_tensor tensor_of(const std::string& what, const Matrix& matrix) {
  const auto& [span, dtype, rows, columns, row_step] = matrix;
  sk_tensor tensor = {};
  tensor.struct_size = sizeof tensor;
  tensor.data = held(what.c_str(), matrix);
  tensor.dtype = dtype;
  tensor.ndim = row_step == 0 ? 1 : 2;
  tensor.shape[0] = row_step == 0 ? columns : rows;
  tensor.shape[1] = columns;
  tensor.strides[0] = row_step == 0 ? 1 : row_step;
  tensor.strides[1] = 1;
  return tensor;
}

class Args {
 public:
  explicit Args(uint32_t bytes) {
    if (bytes > kArgsMax) check(SK_ERR_INTERNAL, "an operation has more arguments than expected");
    put(0, bytes);
  }
  template <typename T>
  void put(uint32_t offset, T value) {
    if (offset + sizeof(T) > kArgsMax) check(SK_ERR_INTERNAL, "an argument has no place");
    std::memcpy(bytes_.data() + offset, static_cast<const void*>(&value), sizeof(T));
  }
  const void* get() const { return bytes_.data(); }

 private:
  alignas(8) std::array<unsigned char, kArgsMax> bytes_{};
};

struct Call {
  Call(uint32_t bytes, const std::vector<TensorField>& tensors,
       const std::vector<NumberField>& numbers, const std::vector<IntegerField>& integers)
      : args(bytes) {
    made.reserve(tensors.size());
    for (const auto& [offset, what, matrix] : tensors) {
      made.push_back(tensor_of(what, matrix));
      args.put(offset, static_cast<const void*>(&made.back()));
    }
    for (const auto& [offset, value] : numbers) args.put(offset, value);
    for (const auto& [offset, bytes, value] : integers) {
      if (bytes == sizeof(int32_t)) {
        args.put(offset, int32_t(value));
      } else {
        args.put(offset, value);
      }
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Args args;
  std::vector<sk_tensor> made;
};

// From any thread: libsk lets one after another in. Nobody else is waited for, so that there is
// nothing that a signal would have to end.
void call_alone(const Context& context, int32_t op, uint32_t bytes,
                const std::vector<TensorField>& tensors, const std::vector<NumberField>& numbers,
                const std::vector<IntegerField>& integers) {
  const Call call(bytes, tensors, numbers, integers);
  wait(nullptr, [&] {
    sk_comm* self = nullptr;
    const sk_status status = sk_comm_self(context.get(), &self);
    return status == SK_OK ? sk_call(self, op, call.args.get(), nullptr) : status;
  });
}

// With the interpreter's lock, which the forked child has then: its functions may be Python's.
void check_tile(const Context& context, int32_t op, uint32_t bytes,
                const std::vector<TensorField>& tensors, const std::vector<NumberField>& numbers,
                const std::vector<IntegerField>& integers, int64_t timeout_ms) {
  const Call call(bytes, tensors, numbers, integers);
  const sk_run_options options = options_of(0, timeout_ms);
  check(sk_tile_check(context.get(), op, call.args.get(), &options));
}

std::string describe_operations() {
  return text_of([](char* buffer, size_t capacity, size_t* size) {
    return sk_op_describe(nullptr, buffer, capacity, size);
  });
}

}  // namespace

void bind_local(nb::module_& module) {
  module.def("call_alone", &call_alone);
  module.def("check_tile", &check_tile);
  module.def("describe_operations", &describe_operations);
}

}  // namespace sk::python
