#include "lib/op/ops/allreduce_gemm.h"

namespace sk {
namespace {

constexpr const Schema& kSchema = ops::kAllreduceGemm;
constexpr uint32_t kA = GemmCall::kA, kC = GemmCall::kC, kB = GemmCall::kB;

constexpr Field kM = field_of(kSchema, "m"), kN = field_of(kSchema, "n"),
                kK = field_of(kSchema, "k"), kTransposeA = field_of(kSchema, "transpose_a"),
                kTransposeB = field_of(kSchema, "transpose_b"), kLda = kSchema.stride_field(kA),
                kLdb = kSchema.stride_field(kB), kLdc = kSchema.stride_field(kC);

}  // namespace

GemmCall gemm_call(const OpDesc& op) {
  GemmCall call;
  call.dtype = op.type(kA);
  call.out_dtype = op.type(kC);
  call.symmetric_out = op.symmetric(kC);
  call.transpose_a = op[kTransposeA] != 0;
  call.pack_b = op.storage(kB) != Storage::kPackedB;
  call.transpose_b = op[kTransposeB] != 0;
  call.m = op[kM];
  call.n = op[kN];
  call.k = op[kK];
  call.lda = op[kLda];
  call.ldb = op[kLdb];
  call.ldc = op[kLdc];
  return call;
}

OpDesc describe(const GemmCall& call) {
  OpDesc op(kSchema);
  op.set(OpDesc::type_field(kA), int64_t(call.dtype));
  op.set(OpDesc::type_field(kB), int64_t(call.dtype));
  op.set(OpDesc::type_field(kC), int64_t(call.out_dtype));
  op.set(OpDesc::symmetric_field(kC), call.symmetric_out);
  op.set(kTransposeA, call.transpose_a);
  op.set(kTransposeB, call.transpose_b);
  const Storage b = call.pack_b ? Storage::kRows : Storage::kPackedB;
  op.set(OpDesc::storage_field(kB), int64_t(b));
  op.set(kM, call.m);
  op.set(kN, call.n);
  op.set(kK, call.k);
  op.set(kLda, call.lda);
  op.set(kLdb, call.ldb);
  op.set(kLdc, call.ldc);
  return op;
}

}  // namespace sk
