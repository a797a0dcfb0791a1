// Arguments of plans.
#include <algorithm>

#include "lib/comm/arguments.h"
#include "lib/comm/checks.h"

namespace sk {
namespace {

// Which fields of a description a kind plans by. What else is set was meant for something, so it is
// refused rather than left out.
struct Used {
  bool dtype = true;
  bool op = false, root = false, peer = false, count = false, extents = false;
  uint32_t flags = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT;  // Where its memory will be.
};

// No default: a kind that is added says here what it uses.
Used used_by(OpKind kind) {
  constexpr uint32_t kAll = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT | SK_PLAN_IN_PLACE;
  switch (kind) {
    case OpKind::kAllreduce:
    case OpKind::kReduceScatter:
      return {.op = true, .count = true, .flags = kAll};
    case OpKind::kAllgather:
      return {.count = true, .flags = kAll};
    case OpKind::kBroadcast:  // Whether the root works in place is no part of a plan.
      return {.root = true, .count = true};
    case OpKind::kSendRecv:
      return {.root = true, .peer = true, .count = true};
    case OpKind::kAllreduceGemm:
      return {.extents = true};
    case OpKind::kBarrier:
    case OpKind::kAlloc:
    case OpKind::kFree:
    case OpKind::kRegister:
    case OpKind::kDeregister:
      break;
  }
  return {.dtype = false, .flags = 0};
}

Status check_used(OpKind kind, const sk_plan_desc& desc) {
  constexpr uint32_t kKnown = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT | SK_PLAN_IN_PLACE;
  if ((desc.flags & ~kKnown) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.flags is {:#x}, known bits are {:#x}", desc.flags,
                 kKnown);
  }
  const Used used = used_by(kind);
  if ((desc.flags & ~used.flags) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.flags is {:#x}, bits of a plan of {} are {:#x}",
                 desc.flags, op_kind_name(kind), used.flags);
  }
  const bool gemm = kind == OpKind::kAllreduceGemm;
  const struct {
    const char* name;
    int64_t value;
    bool is_used;
  } fields[] = {
      {"dtype", desc.dtype, used.dtype},
      // Saying what the kind does anyway is no other wish.
      {"out_dtype", desc.out_dtype, gemm || (used.dtype && desc.out_dtype == desc.dtype)},
      {"op", desc.op, used.op || (gemm && desc.op == SK_SUM)},
      {"root", desc.root, used.root},
      {"peer", desc.peer, used.peer},
      {"count", desc.count, used.count},
      {"m", desc.m, used.extents},
      {"n", desc.n, used.extents},
      {"k", desc.k, used.extents},
  };
  for (const auto& field : fields) {
    if (field.is_used || field.value == 0) continue;
    return error(SK_ERR_INVALID_ARGUMENT,
                 "desc.{} is {}, a plan of {} does not use it: it must be 0", field.name,
                 field.value, op_kind_name(kind));
  }
  return {};
}

}  // namespace

Result<OpDesc> plan_op(World world, const sk_plan_desc* desc) {
  if (desc == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "desc is null");
  SK_ASSIGN_OR_RETURN(const sk_plan_desc read, read_struct("sk_plan_desc", desc));
  if (read.kind < SK_OP_BARRIER || read.kind > SK_OP_ALLREDUCE_GEMM) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.kind is {}, it must be {} to {}", read.kind,
                 int(SK_OP_BARRIER), int(SK_OP_ALLREDUCE_GEMM));
  }
  OpDesc op;
  op.kind = OpKind(read.kind);
  SK_RETURN_IF_ERROR(check_used(op.kind, read));
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
      return error(SK_ERR_INVALID_ARGUMENT, "desc.out_dtype is {}, it must be {}, as desc.dtype{}",
                   dtype_name(op.out_dtype), dtype_name(op.dtype),
                   op.dtype == DType::kF32 ? "" : ", or f32");
    }
    for (const int64_t extent : {read.m, read.n, read.k}) {
      if (extent < 0 || extent > check::kExtentMax) {
        return error(SK_ERR_INVALID_ARGUMENT, "desc has m, n, k = {}, {}, {}, each must be 0 to {}",
                     read.m, read.n, read.k, check::kExtentMax);
      }
    }
    op.m = read.m;
    op.n = read.n;
    op.k = read.k;
    op.lda = std::max<int64_t>(1, op.k);
    op.ldc = std::max<int64_t>(1, op.n);
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
  if (weights != nullptr && op.kind != OpKind::kAllreduceGemm) {
    return error(SK_ERR_INVALID_ARGUMENT, "weights is given, but a plan of {} has none",
                 op_kind_name(op.kind));
  }
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
