// Arguments of the GEMM calls.
#include <algorithm>

#include "lib/comm/arguments.h"
#include "lib/comm/checks.h"
#include "lib/op/ops/all.h"
#include "lib/op/stored.h"

namespace sk {
namespace {

struct Matrix {
  DType dtype = DType::kF32;
  void* data = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;  // As stored, the stride in elements.
  uint64_t bytes = 0;                      // From the first to the last element.
};

Result<Matrix> matrix(World world, const char* name, const sk_tensor* tensor) {
  if (tensor == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "{} is null", name);
  SK_ASSIGN_OR_RETURN(const sk_tensor read, read_struct("sk_tensor", tensor));
  const DeviceId on = {read.device_type, read.device_id};
  if (on != world.device) {
    return error(world.device.type == SK_DEVICE_CPU ? SK_ERR_UNSUPPORTED : SK_ERR_INVALID_ARGUMENT,
                 "{} is on device {}:{}; the communicator is on {}", name, on.type, on.id,
                 check::device_text(world.device));
  }
  if (read.ndim != 2) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has {} dimensions, it must have 2", name, read.ndim);
  }
  Matrix out;
  SK_ASSIGN_OR_RETURN(out.dtype, check::dtype(name, read.dtype));
  if (!is_float(out.dtype)) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} is {}, it must be f32, f64, bf16 or f16", name,
                 dtype_name(out.dtype));
  }
  out.data = read.data;
  out.rows = read.shape[0];
  out.cols = read.shape[1];
  for (const int64_t extent : {out.rows, out.cols}) {
    if (extent < 0 || extent > check::kExtentMax) {
      return error(SK_ERR_INVALID_ARGUMENT, "{} has shape [{}, {}], each must be 0 to {}", name,
                   out.rows, out.cols, check::kExtentMax);
    }
  }
  if (out.cols > 1 && read.strides[1] != 1) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} has innermost stride {}, it must be 1 (rows contiguous)", name,
                 read.strides[1]);
  }
  out.stride = out.rows > 1 ? read.strides[0] : std::max<int64_t>(out.cols, 1);
  if (out.stride < out.cols || out.stride > check::kExtentMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has leading stride {}, it must be {} to {}", name,
                 out.stride, out.cols, check::kExtentMax);
  }
  if (out.rows > 0 && out.cols > 0) {
    out.bytes = (uint64_t(out.rows - 1) * uint64_t(out.stride) + uint64_t(out.cols)) *
                dtype_bytes(out.dtype);
  }
  SK_RETURN_IF_ERROR(check::pointer(name, out.data, out.bytes, out.dtype));
  return out;
}

constexpr uint32_t kGemmFlags = SK_GEMM_TRANSPOSE_A | SK_GEMM_TRANSPOSE_B;

Status gemm_flags(uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return {};
  return error(SK_ERR_INVALID_ARGUMENT, "flags is {:#x}, known bits are {:#x}", flags, known);
}

}  // namespace

Result<PackArgs> pack_args(World world, const sk_tensor* b, uint32_t flags) {
  SK_RETURN_IF_ERROR(gemm_flags(flags, SK_GEMM_TRANSPOSE_B));
  SK_ASSIGN_OR_RETURN(const Matrix matrix_b, matrix(world, "b", b));
  const bool transpose = (flags & SK_GEMM_TRANSPOSE_B) != 0;
  return PackArgs{matrix_b.dtype,
                  matrix_b.data,
                  matrix_b.stride,
                  transpose ? matrix_b.cols : matrix_b.rows,
                  transpose ? matrix_b.rows : matrix_b.cols,
                  transpose};
}

Result<Call> product_call(World world, const Schema& schema, const sk_tensor* a, const sk_tensor* b,
                          const Packed* packed, const sk_tensor* c, uint32_t flags,
                          const sk_run_options* options) {
  SK_RETURN_IF_ERROR(gemm_flags(flags, kGemmFlags));
  if ((b == nullptr) == (packed == nullptr)) {
    return error(SK_ERR_INVALID_ARGUMENT, "give B either as b or as packed; {} given",
                 b == nullptr ? "none was" : "both were");
  }
  SK_ASSIGN_OR_RETURN(const Matrix ma, matrix(world, "a", a));
  SK_ASSIGN_OR_RETURN(const Matrix mc, matrix(world, "c", c));
  Call call;
  GemmCall op;
  op.dtype = ma.dtype;
  op.out_dtype = mc.dtype;
  op.transpose_a = (flags & SK_GEMM_TRANSPOSE_A) != 0;
  op.m = op.transpose_a ? ma.cols : ma.rows;
  op.k = op.transpose_a ? ma.rows : ma.cols;
  op.lda = ma.stride;
  op.ldc = mc.stride;
  int64_t b_k = 0;
  DType b_dtype = op.dtype;
  if (packed != nullptr && packed->device != world.device) {
    return error(SK_ERR_INVALID_ARGUMENT, "packed holds weights for {}; the communicator is on {}",
                 check::device_text(packed->device), check::device_text(world.device));
  }
  if (packed != nullptr) {
    b_k = packed->k;
    op.n = packed->n;
    b_dtype = packed->dtype;
    call.operands[GemmCall::kB] = {packed->data.get(), 0};
  } else {
    SK_ASSIGN_OR_RETURN(const Matrix mb, matrix(world, "b", b));
    op.pack_b = true;
    op.transpose_b = (flags & SK_GEMM_TRANSPOSE_B) != 0;
    b_k = op.transpose_b ? mb.cols : mb.rows;
    op.n = op.transpose_b ? mb.rows : mb.cols;
    op.ldb = mb.stride;
    b_dtype = mb.dtype;
    call.operands[GemmCall::kB] = {mb.data, mb.bytes};
    SK_RETURN_IF_ERROR(check::apart("b", mb.data, mb.bytes, "c", mc.data, mc.bytes));
  }
  if (b_k != op.k) {
    return error(SK_ERR_INVALID_ARGUMENT, "a has K = {} but b has K = {}, they must be equal", op.k,
                 b_k);
  }
  if (b_dtype != op.dtype) {
    return error(SK_ERR_INVALID_ARGUMENT, "a is {} but b is {}, they must be of one type",
                 dtype_name(op.dtype), dtype_name(b_dtype));
  }
  call.op = describe(schema, op);
  const Stored c_shape = stored(call.op, GemmCall::kC, uint32_t(world.size));
  if (mc.rows != c_shape.rows || mc.cols != c_shape.columns) {
    return error(SK_ERR_INVALID_ARGUMENT, "c has shape [{}, {}], it must be [{}, {}]", mc.rows,
                 mc.cols, c_shape.rows, c_shape.columns);
  }
  if (op.out_dtype != op.dtype && op.out_dtype != DType::kF32) {
    return error(SK_ERR_INVALID_ARGUMENT, "c is {}, it must be {}, as a and b are{}",
                 dtype_name(op.out_dtype), dtype_name(op.dtype),
                 op.dtype == DType::kF32 ? "" : ", or f32");
  }
  SK_RETURN_IF_ERROR(check::apart("a", ma.data, ma.bytes, "c", mc.data, mc.bytes));
  call.operands[GemmCall::kA] = {ma.data, ma.bytes};
  call.operands[GemmCall::kC] = {mc.data, mc.bytes};
  SK_RETURN_IF_ERROR(take_options(world, options, call));
  return call;
}

Result<Call> allreduce_gemm_call(World world, const sk_tensor* a, const sk_tensor* b,
                                 const Packed* packed, const sk_tensor* c, uint32_t flags,
                                 const sk_run_options* options) {
  return product_call(world, ops::kAllreduceGemm, a, b, packed, c, flags, options);
}

Result<Call> allgather_gemm_call(World world, const sk_tensor* a, const sk_tensor* b,
                                 const Packed* packed, const sk_tensor* c, uint32_t flags,
                                 const sk_run_options* options) {
  return product_call(world, ops::kAllgatherGemm, a, b, packed, c, flags, options);
}

}  // namespace sk
