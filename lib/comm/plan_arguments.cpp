// Arguments of plans.
#include <algorithm>

#include "lib/comm/arguments.h"
#include "lib/comm/checks.h"
#include "lib/op/schema.h"

namespace sk {
namespace {

// What is set and not used was meant for something, so it is refused rather than left out.
Status check_used(OpKind kind, const sk_plan_desc& desc) {
  constexpr uint32_t kKnown = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT | SK_PLAN_IN_PLACE;
  if ((desc.flags & ~kKnown) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.flags is {:#x}, known bits are {:#x}", desc.flags,
                 kKnown);
  }
  const Schema& schema = *schema_of(kind);
  // Where its memory will be; whether it works in place, if it can and that is part of a plan.
  uint32_t flags = schema.operands.empty() ? 0 : SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT;
  if (schema.has(Member::kInPlace)) flags |= SK_PLAN_IN_PLACE;
  if ((desc.flags & ~flags) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.flags is {:#x}, bits of a plan of {} are {:#x}",
                 desc.flags, schema.name, flags);
  }
  const struct {
    const char* name;
    int64_t value;
    Member member;
    int64_t usual;  // Saying what the kind does anyway is no other wish.
  } fields[] = {
      {"dtype", desc.dtype, Member::kDType, 0},
      {"out_dtype", desc.out_dtype, Member::kOutDType, schema.has(Member::kDType) ? desc.dtype : 0},
      {"op", desc.op, Member::kRedOp, schema.has(Member::kK) ? SK_SUM : 0},
      {"root", desc.root, Member::kRoot, 0},
      {"peer", desc.peer, Member::kPeer, 0},
      {"count", desc.count, Member::kCount, 0},
      {"m", desc.m, Member::kM, 0},
      {"n", desc.n, Member::kN, 0},
      {"k", desc.k, Member::kK, 0},
  };
  for (const auto& field : fields) {
    if (schema.has(field.member) || field.value == 0 || field.value == field.usual) continue;
    return error(SK_ERR_INVALID_ARGUMENT,
                 "desc.{} is {}, a plan of {} does not use it: it must be 0", field.name,
                 field.value, schema.name);
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
