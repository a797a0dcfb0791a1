// Arguments of the GEMM calls and of plans.
#include <algorithm>

#include "lib/comm/arguments.h"
#include "lib/comm/checks.h"

namespace sk {
namespace {

constexpr int64_t kExtentMax = int64_t(1) << 31;  // Of one dimension.

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
    if (extent < 0 || extent > kExtentMax) {
      return error(SK_ERR_INVALID_ARGUMENT, "{} has shape [{}, {}], each must be 0 to {}", name,
                   out.rows, out.cols, kExtentMax);
    }
  }
  if (out.cols > 1 && read.strides[1] != 1) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} has innermost stride {}, it must be 1 (rows contiguous)", name,
                 read.strides[1]);
  }
  out.stride = out.rows > 1 ? read.strides[0] : std::max<int64_t>(out.cols, 1);
  if (out.stride < out.cols || out.stride > kExtentMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} has leading stride {}, it must be {} to {}", name,
                 out.stride, out.cols, kExtentMax);
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

Result<Call> allreduce_gemm_call(World world, const sk_tensor* a, const sk_tensor* b,
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
  OpDesc& op = call.op;
  op.kind = OpKind::kAllreduceGemm;
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
    call.weights = {packed->data.get(), 0};
  } else {
    SK_ASSIGN_OR_RETURN(const Matrix mb, matrix(world, "b", b));
    op.pack_b = true;
    op.transpose_b = (flags & SK_GEMM_TRANSPOSE_B) != 0;
    b_k = op.transpose_b ? mb.cols : mb.rows;
    op.n = op.transpose_b ? mb.rows : mb.cols;
    op.ldb = mb.stride;
    b_dtype = mb.dtype;
    call.weights = {mb.data, mb.bytes};
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
  if (mc.rows != op.m || mc.cols != op.n) {
    return error(SK_ERR_INVALID_ARGUMENT, "c has shape [{}, {}], it must be [{}, {}]", mc.rows,
                 mc.cols, op.m, op.n);
  }
  if (op.out_dtype != op.dtype && op.out_dtype != DType::kF32) {
    return error(SK_ERR_INVALID_ARGUMENT, "c is {}, it must be {} as a and b are, or f32",
                 dtype_name(op.out_dtype), dtype_name(op.dtype));
  }
  SK_RETURN_IF_ERROR(check::apart("a", ma.data, ma.bytes, "c", mc.data, mc.bytes));
  call.in = {ma.data, ma.bytes};
  call.out = {mc.data, mc.bytes};
  SK_ASSIGN_OR_RETURN(const check::RunOptions read, check::run_options(world.device, options));
  call.timeout_ns = read.timeout_ns;
  call.stream = read.stream;
  return call;
}

Result<OpDesc> plan_op(World world, const sk_plan_desc* desc) {
  if (desc == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "desc is null");
  SK_ASSIGN_OR_RETURN(const sk_plan_desc read, read_struct("sk_plan_desc", desc));
  if (read.kind < SK_OP_BARRIER || read.kind > SK_OP_ALLREDUCE_GEMM) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.kind is {}, it must be {} to {}", read.kind,
                 int(SK_OP_BARRIER), int(SK_OP_ALLREDUCE_GEMM));
  }
  constexpr uint32_t kKnown = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT | SK_PLAN_IN_PLACE;
  if ((read.flags & ~kKnown) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.flags is {:#x}, known bits are {:#x}", read.flags,
                 kKnown);
  }
  OpDesc op;
  op.kind = OpKind(read.kind);
  if (op.kind == OpKind::kBarrier) return op;
  SK_ASSIGN_OR_RETURN(op.dtype, check::dtype("desc.dtype", read.dtype));
  op.out_dtype = op.dtype;
  op.in_place = (read.flags & SK_PLAN_IN_PLACE) != 0;
  op.symmetric_out = (read.flags & SK_PLAN_SYMMETRIC_OUT) != 0;
  if (op.kind == OpKind::kAllreduceGemm) {
    if (!is_float(op.dtype)) {
      return error(SK_ERR_INVALID_ARGUMENT, "desc.dtype is {}, a GEMM needs a floating type",
                   dtype_name(op.dtype));
    }
    if (read.out_dtype != 0) {
      SK_ASSIGN_OR_RETURN(op.out_dtype, check::dtype("desc.out_dtype", read.out_dtype));
    }
    if (op.out_dtype != op.dtype && op.out_dtype != DType::kF32) {
      return error(SK_ERR_INVALID_ARGUMENT, "desc.out_dtype is {}, it must be {} or f32",
                   dtype_name(op.out_dtype), dtype_name(op.dtype));
    }
    for (const int64_t extent : {read.m, read.n, read.k}) {
      if (extent < 0 || extent > kExtentMax) {
        return error(SK_ERR_INVALID_ARGUMENT, "desc has m, n, k = {}, {}, {}, each must be 0 to {}",
                     read.m, read.n, read.k, kExtentMax);
      }
    }
    op.m = read.m;
    op.n = read.n;
    op.k = read.k;
    op.lda = std::max<int64_t>(1, op.k);
    op.ldc = std::max<int64_t>(1, op.n);
    op.in_place = false;
    return op;
  }
  SK_RETURN_IF_ERROR(check::count(read.count, op.dtype, uint64_t(world.size)));
  op.count = read.count;
  if (op.kind == OpKind::kAllreduce || op.kind == OpKind::kReduceScatter) {
    SK_ASSIGN_OR_RETURN(op.redop, check::redop(read.op, op.dtype));
    op.symmetric_in = (read.flags & SK_PLAN_SYMMETRIC_IN) != 0;
  }
  if (op.kind == OpKind::kBroadcast || op.kind == OpKind::kSendRecv) {
    SK_RETURN_IF_ERROR(check::rank("desc.root", read.root, world.size));
    op.root = read.root;
    op.in_place = false;
  }
  if (op.kind == OpKind::kSendRecv) {
    SK_RETURN_IF_ERROR(check::rank("desc.peer", read.peer, world.size));
    if (read.peer == read.root) {
      return error(SK_ERR_INVALID_ARGUMENT, "desc.peer and desc.root are both {}", read.root);
    }
    op.peer = read.peer;
    op.symmetric_out = false;
  }
  return op;
}

Result<Call> plan_call(World world, const OpDesc& op, const void* in, const Packed* weights,
                       void* out, const sk_run_options* options) {
  switch (op.kind) {
    case OpKind::kAllreduce:
      return allreduce_call(world, in, out, op.count, int32_t(op.dtype), int32_t(op.redop),
                            options);
    case OpKind::kAllgather:
      return allgather_call(world, in, out, op.count, int32_t(op.dtype), options);
    case OpKind::kReduceScatter:
      return reduce_scatter_call(world, in, out, op.count, int32_t(op.dtype), int32_t(op.redop),
                                 options);
    case OpKind::kBroadcast:
      return broadcast_call(world, in, out, op.count, int32_t(op.dtype), op.root, options);
    case OpKind::kSendRecv:
      return op.root == world.rank
                 ? send_call(world, in, op.count, int32_t(op.dtype), op.peer, options)
                 : recv_call(world, out, op.count, int32_t(op.dtype), op.root, options);
    case OpKind::kAllreduceGemm: {
      sk_tensor a{}, c{};
      a.struct_size = c.struct_size = sizeof(sk_tensor);
      a.ndim = c.ndim = 2;
      a.device_type = c.device_type = world.device.type;
      a.device_id = c.device_id = world.device.id;
      a.dtype = int32_t(op.dtype);
      c.dtype = int32_t(op.out_dtype);
      a.data = const_cast<void*>(in);
      c.data = out;
      a.shape[0] = c.shape[0] = op.m;
      a.shape[1] = a.strides[0] = op.k;
      c.shape[1] = c.strides[0] = op.n;
      a.strides[1] = c.strides[1] = 1;
      return allreduce_gemm_call(world, &a, nullptr, weights, &c, 0, options);
    }
    case OpKind::kBarrier:
      return barrier_call(world, options);
    case OpKind::kAlloc:
    case OpKind::kFree:
    case OpKind::kRegister:
    case OpKind::kDeregister:
      break;
  }
  return error(SK_ERR_UNSUPPORTED, "a plan of {} is not to be run by itself", describe(op));
}

}  // namespace sk
