// A caller's sk_tensor, checked: as rows of elements, or as one vector.
#ifndef SK_LIB_COMM_TENSOR_ARGUMENTS_H_
#define SK_LIB_COMM_TENSOR_ARGUMENTS_H_

#include "lib/comm/arguments.h"

namespace sk {

struct StoredTensor {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t rows = 1, cols = 0, stride = 0;  // As stored, the stride in elements.
  uint64_t bytes = 0;                      // From the first to the last element.
};

// With one axis elements lie one after another, whatever the tensor's shape; with two they are rows
// of contiguous elements.
Result<StoredTensor> stored_tensor(World world, const char* name, size_t axes,
                                   const sk_tensor* tensor);

}  // namespace sk

#endif  // SK_LIB_COMM_TENSOR_ARGUMENTS_H_
