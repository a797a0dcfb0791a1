// Arguments of plans.
#include <algorithm>
#include <array>
#include <cstring>

#include "lib/comm/arguments.h"
#include "lib/comm/checks.h"
#include "lib/comm/schema_arguments.h"
#include "lib/op/ops/all.h"
#include "lib/op/stored.h"

namespace sk {
namespace {

// What is set and not used was meant for something, so it is refused rather than left out.
Status check_used(const Schema& schema, const sk_plan_desc& desc) {
  constexpr uint32_t kKnown = SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT | SK_PLAN_IN_PLACE;
  if ((desc.flags & ~kKnown) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.flags is {:#x}, known bits are {:#x}", desc.flags,
                 kKnown);
  }
  const auto any = [&](auto&& is) {
    return std::any_of(schema.operands.begin(), schema.operands.end(), is);
  };
  const bool has_operands = !schema.operands.empty();
  // Where its memory will be; whether it works in place, if it can and that is part of a plan.
  uint32_t flags = has_operands ? SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT : 0;
  if (any([](const OperandSchema& each) { return each.alias[0] != '\0'; })) {
    flags |= SK_PLAN_IN_PLACE;
  }
  if ((desc.flags & ~flags) != 0) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.flags is {:#x}, bits of a plan of {} are {:#x}",
                 desc.flags, schema.name, flags);
  }
  const bool has_out_dtype = any([&](const OperandSchema& each) {
    return &each != schema.operands.data() && schema.operand(each.types) == nullptr;
  });
  const struct {
    const char* name;
    int64_t value;
    bool used;
    int64_t usual;  // Saying what the kind does anyway is no other wish.
  } fields[] = {
      {"dtype", desc.dtype, has_operands, 0},
      {"out_dtype", desc.out_dtype, has_out_dtype, has_operands ? desc.dtype : 0},
      {"op", desc.op, bool(schema.field("op")), &schema == &ops::kAllreduceGemm ? SK_SUM : 0},
      {"root", desc.root, bool(schema.field("root")), 0},
      {"peer", desc.peer, bool(schema.field("peer")), 0},
      {"count", desc.count, bool(schema.field("count")), 0},
      {"m", desc.m, bool(schema.field("m")), 0},
      {"n", desc.n, bool(schema.field("n")), 0},
      {"k", desc.k, bool(schema.field("k")), 0},
  };
  for (const auto& field : fields) {
    if (field.used || field.value == 0 || field.value == field.usual) continue;
    return error(SK_ERR_INVALID_ARGUMENT,
                 "desc.{} is {}, a plan of {} does not use it: it must be 0", field.name,
                 field.value, schema.name);
  }
  return {};
}

Result<OpDesc> product_op(const Schema& schema, const sk_plan_desc& read, DType dtype) {
  GemmCall op;
  op.dtype = op.out_dtype = dtype;
  op.symmetric_in = (read.flags & SK_PLAN_SYMMETRIC_IN) != 0;
  op.symmetric_out = (read.flags & SK_PLAN_SYMMETRIC_OUT) != 0;
  if (!is_float(dtype)) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.dtype is {}, a GEMM needs a floating type",
                 dtype_name(dtype));
  }
  if (read.out_dtype != 0) {
    SK_ASSIGN_OR_RETURN(op.out_dtype, check::dtype("desc.out_dtype", read.out_dtype));
  }
  if (op.out_dtype != dtype && op.out_dtype != DType::kF32) {
    return error(SK_ERR_INVALID_ARGUMENT, "desc.out_dtype is {}, it must be {}, as desc.dtype{}",
                 dtype_name(op.out_dtype), dtype_name(dtype),
                 dtype == DType::kF32 ? "" : ", or f32");
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
  return describe(schema, op);
}

// In place a call has one of its two operands: that which the other lies in. All-reduce's are the
// same memory, so that one flag says it of both.
void settle_in_place(const Schema& schema, VectorCall& op) {
  if (!op.in_place) return;
  if (&schema == &ops::kAllreduce) op.symmetric_out |= op.symmetric_in;
  (&schema == &ops::kReduceScatter ? op.symmetric_out : op.symmetric_in) = false;
}

// Of those that ranks do together.
Result<const Schema*> planned_kind(int32_t kind) {
  const auto is_planned = [](const Schema& schema) {
    return schema.scope != Scope::kLocal && !is_of_memory(schema);
  };
  std::string known;
  for (const Schema* each : all_schemas()) {
    if (!is_planned(*each)) continue;
    if (int32_t(each->id) == kind) return each;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", int(each->id), each->name);
  }
  return error(SK_ERR_INVALID_ARGUMENT, "desc.kind is {}, it must be one of {}", kind, known);
}

}  // namespace

Result<OpDesc> plan_op(World world, const sk_plan_desc* desc) {
  if (desc == nullptr) return error(SK_ERR_INVALID_ARGUMENT, "desc is null");
  SK_ASSIGN_OR_RETURN(const sk_plan_desc read, read_struct("sk_plan_desc", desc));
  SK_ASSIGN_OR_RETURN(const Schema* const found, planned_kind(read.kind));
  const Schema& schema = *found;
  SK_RETURN_IF_ERROR(check_used(schema, read));
  if (schema.operands.empty()) return OpDesc(schema);
  VectorCall op;
  SK_ASSIGN_OR_RETURN(op.dtype, check::dtype("desc.dtype", read.dtype));
  if (is_product(schema)) return product_op(schema, read, op.dtype);
  op.in_place = (read.flags & SK_PLAN_IN_PLACE) != 0;
  op.symmetric_in = (read.flags & SK_PLAN_SYMMETRIC_IN) != 0;
  op.symmetric_out = (read.flags & SK_PLAN_SYMMETRIC_OUT) != 0;
  settle_in_place(schema, op);
  SK_RETURN_IF_ERROR(check::count(read.count, op.dtype, uint64_t(world.size)));
  op.count = read.count;
  if (schema.field("op")) {
    SK_ASSIGN_OR_RETURN(op.redop, check::redop(read.op, op.dtype));
  }
  if (schema.field("root")) {
    SK_RETURN_IF_ERROR(check::rank("desc.root", read.root, world.size));
    op.root = read.root;
  }
  if (schema.field("peer")) {
    SK_RETURN_IF_ERROR(check::rank("desc.peer", read.peer, world.size));
    if (read.peer == read.root) {
      return error(SK_ERR_INVALID_ARGUMENT, "desc.peer and desc.root are both {}", read.root);
    }
    op.peer = read.peer;
  }
  return describe(schema, op);
}

namespace {

// An operand of a plan, which is contiguous.
sk_tensor dense(World world, const OpDesc& op, uint32_t operand, void* data) {
  const Stored how = stored(op, operand, uint32_t(world.size));
  sk_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.dtype = int32_t(op.type(operand));
  tensor.data = data;
  tensor.ndim = 2;
  tensor.device_type = world.device.type;
  tensor.device_id = world.device.id;
  tensor.shape[0] = how.rows;
  tensor.shape[1] = tensor.strides[0] = how.columns;
  tensor.strides[1] = 1;
  return tensor;
}

// As sk_call() reads it, of an operation on vectors.
Result<Call> call_by_schema(World world, const OpDesc& op, const void* in, void* out,
                            const sk_run_options* options) {
  const Schema& schema = op.schema();
  const ArgLayout& layout = arg_layout(schema);
  std::array<sk_tensor, 2> tensors;
  std::array<std::byte, ArgLayout::kFirstOffset + 8 * ArgLayout::kFieldsMax> args{};
  const auto put = [&](uint32_t offset, auto value) {
    std::memcpy(args.data() + offset, &value, sizeof value);
  };
  put(0, layout.size());
  for (const ArgField& field : layout.fields()) {
    if (field.is_number()) {
      put(field.offset, int32_t(op[schema.attribute_field(field.index)]));
      continue;
    }
    sk_tensor& tensor = tensors[field.index];
    const bool is_read = schema.operands[field.index].role == Role::kIn;
    tensor = dense(world, op, field.index, is_read ? const_cast<void*>(in) : out);
    tensor.ndim = 1;
    tensor.shape[0] = tensor.shape[1];
    tensor.strides[0] = 1;
    const void* const where = &tensor;
    std::memcpy(args.data() + field.offset, static_cast<const void*>(&where), sizeof(void*));
  }
  return schema_call(world, schema, args.data(), {}, options);
}

Result<Call> derived_call(World world, const OpDesc& op, const void* in, const Packed* weights,
                          void* out, const sk_run_options* options) {
  const VectorCall say = vector_call(op);
  if (weights != nullptr && !is_product(op.schema())) {
    return error(SK_ERR_INVALID_ARGUMENT, "weights is given, but a plan of {} has none",
                 op.schema().name);
  }
  switch (op.kind()) {
    case OpKind::kAllreduce:
      return allreduce_call(world, in, out, say.count, int32_t(say.dtype), int32_t(say.redop),
                            options);
    case OpKind::kAllgather:
      return allgather_call(world, in, out, say.count, int32_t(say.dtype), options);
    case OpKind::kReduceScatter:
      return reduce_scatter_call(world, in, out, say.count, int32_t(say.dtype), int32_t(say.redop),
                                 options);
    case OpKind::kBroadcast:
      return broadcast_call(world, in, out, say.count, int32_t(say.dtype), say.root, options);
    case OpKind::kSendRecv:
      return say.root == world.rank
                 ? send_call(world, in, say.count, int32_t(say.dtype), say.peer, options)
                 : recv_call(world, out, say.count, int32_t(say.dtype), say.root, options);
    case OpKind::kAllreduceGemm:
    case OpKind::kAllgatherGemm: {
      const sk_tensor a = dense(world, op, GemmCall::kA, const_cast<void*>(in));
      const sk_tensor c = dense(world, op, GemmCall::kC, out);
      return product_call(world, op.schema(), &a, nullptr, weights, &c, 0, options);
    }
    case OpKind::kBarrier:
      return barrier_call(world, options);
    case OpKind::kAlltoall:
    case OpKind::kReduceToRoot:
    case OpKind::kGather:
    case OpKind::kScatter:
      return call_by_schema(world, op, in, out, options);
    default:
      break;
  }
  return error(SK_ERR_UNSUPPORTED, "a plan of {} is not to be run by itself", describe(op));
}

bool same_but_symmetry(OpDesc call, const OpDesc& plan) {
  for (uint32_t i = 0; i < plan.schema().operands.size(); ++i) {
    if (plan.schema().operands[i].reached) call.set(OpDesc::symmetric_field(i), plan.symmetric(i));
  }
  return call == plan;
}

}  // namespace

Result<Call> plan_call(World world, const OpDesc& op, const void* in, const Packed* weights,
                       void* out, const sk_run_options* options) {
  SK_ASSIGN_OR_RETURN(Call call, derived_call(world, op, in, weights, out, options));
  for (uint32_t i = 0; i < op.schema().operands.size(); ++i) {
    if (op.aliased(i) == call.op.aliased(i) || call.operands[0].bytes + call.operands[1].bytes == 0)
      continue;
    return error(SK_ERR_INVALID_ARGUMENT,
                 "in and out are {}, and the plan was made {} SK_PLAN_IN_PLACE",
                 op.aliased(i) ? "apart" : "the same memory", op.aliased(i) ? "with" : "without");
  }
  // A plan from text may be of a call that these arguments are not: of rows that lie apart, of B as
  // it is.
  if (!same_but_symmetry(call.op, op)) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "in, weights and out make {}, the plan is of {}, which only sk_call() makes",
                 describe(call.op), describe(op));
  }
  call.op = op;
  call.planned = true;
  return call;
}

bool takes_part(World world, const OpDesc& op) {
  if (!is_pair(op)) return true;
  const VectorCall say = vector_call(op);
  return say.root == world.rank || say.peer == world.rank;
}

}  // namespace sk
