#include "lib/comm/tensor_arguments.h"

#include <algorithm>

#include "lib/comm/checks.h"
#include "lib/op/judge.h"

namespace sk {
namespace {

constexpr int32_t kAxesOfTensors = 8;

std::string shape_text(const sk_tensor& tensor) {
  std::string text;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    text += fmt::format("{}{}", axis == 0 ? "" : ", ", tensor.shape[axis]);
  }
  return fmt::format("[{}]", text);
}

Status check_place(World world, const char* name, const sk_tensor& tensor) {
  const DeviceId on = {tensor.device_type, tensor.device_id};
  if (on != world.device) {
    return error(world.device.type == SK_DEVICE_CPU ? SK_ERR_UNSUPPORTED : SK_ERR_INVALID_ARGUMENT,
                 "{} is on device {}:{}; the communicator is on {}", name, on.type, on.id,
                 check::device_text(world.device));
  }
  if (tensor.reserved == 0) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "{}.reserved is {}, it must be 0", name, tensor.reserved);
}

Status check_shape(const char* name, size_t axes, const sk_tensor& tensor) {
  if (axes == 2 && tensor.ndim != 2) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has {} dimensions, it must have 2", name,
                 tensor.ndim);
  }
  if (tensor.ndim < 1 || tensor.ndim > kAxesOfTensors) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has {} dimensions, it must have 1 to {}", name,
                 tensor.ndim, kAxesOfTensors);
  }
  const int64_t most = axes == 2 ? check::kExtentMax : kElementsMax;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    if (tensor.shape[axis] >= 0 && tensor.shape[axis] <= most) continue;
    return error(SK_ERR_INVALID_ARGUMENT, "{} has shape {}, each must be 0 to {}", name,
                 shape_text(tensor), most);
  }
  return {};
}

Result<int64_t> dense_count(const char* name, const sk_tensor& tensor) {
  int64_t count = 1, stride = 1;
  bool dense = true, fits = true;
  for (int32_t axis = tensor.ndim - 1; axis >= 0; --axis) {
    dense &= tensor.shape[axis] <= 1 || tensor.strides[axis] == stride;
    fits &= !__builtin_mul_overflow(count, tensor.shape[axis], &count) && count <= kElementsMax;
    stride *= fits ? tensor.shape[axis] : 0;
  }
  if (!fits) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has shape {}, which is more than 2^46 elements", name,
                 shape_text(tensor));
  }
  if (dense || count == 0) return count;
  return error(SK_ERR_INVALID_ARGUMENT,
               "{} has strides that leave gaps, its elements must lie one after another", name);
}

Status check_rows(const char* name, const sk_tensor& tensor, StoredTensor& out) {
  out.rows = tensor.shape[0];
  out.cols = tensor.shape[1];
  if (out.cols > 1 && tensor.strides[1] != 1) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} has innermost stride {}, it must be 1 (rows contiguous)", name,
                 tensor.strides[1]);
  }
  out.stride = out.rows > 1 ? tensor.strides[0] : std::max<int64_t>(out.cols, 1);
  if (out.stride < out.cols || out.stride > check::kExtentMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has leading stride {}, it must be {} to {}", name,
                 out.stride, out.cols, check::kExtentMax);
  }
  return {};
}

}  // namespace

Result<StoredTensor> stored_tensor(World world, const char* name, size_t axes,
                                   const sk_tensor* tensor) {
  if (tensor == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "{} is null", name);
  SK_ASSIGN_OR_RETURN(const sk_tensor read, read_struct("sk_tensor", tensor));
  SK_RETURN_IF_ERROR(check_place(world, name, read));
  SK_RETURN_IF_ERROR(check_shape(name, axes, read));
  StoredTensor out;
  SK_ASSIGN_OR_RETURN(out.dtype, check::dtype(name, read.dtype));
  out.data = read.data;
  if (axes == 1) {
    SK_ASSIGN_OR_RETURN(out.cols, dense_count(name, read));
    out.stride = out.cols;
  } else {
    SK_RETURN_IF_ERROR(check_rows(name, read, out));
  }
  if (out.rows > 0 && out.cols > 0) {
    out.bytes = (uint64_t(out.rows - 1) * uint64_t(out.stride) + uint64_t(out.cols)) *
                dtype_bytes(out.dtype);
  }
  SK_RETURN_IF_ERROR(check::pointer(name, out.data, out.bytes, out.dtype));
  return out;
}

}  // namespace sk
