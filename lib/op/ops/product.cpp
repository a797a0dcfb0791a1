#include "lib/op/ops/product.h"

#include <iterator>

#include "lib/op/ops/all.h"

namespace sk {
namespace {

constexpr uint32_t kA = GemmCall::kA, kC = GemmCall::kC, kB = GemmCall::kB;

struct Fields {
  Field m, n, k, transpose_a, transpose_b, lda, ldb, ldc;
  bool operator==(const Fields&) const = default;
};
constexpr Fields fields_of(const Schema& schema) {
  return {schema.field("m"),           schema.field("n"),           schema.field("k"),
          schema.field("transpose_a"), schema.field("transpose_b"), schema.stride_field(kA),
          schema.stride_field(kB),     schema.stride_field(kC)};
}
// The same of all products, since they have the same dimensions and attributes, and their operands
// are stored alike.
constexpr Fields kFields = fields_of(ops::kAllreduceGemm);
static_assert(kFields == fields_of(ops::kAllgatherGemm));

}  // namespace

bool is_product(const Schema& schema) {
  return schema.dimensions.data() == std::data(ops::product::kDimensions) &&
         schema.attributes.data() == std::data(ops::product::kAttributes);
}

bool multiplies_own_a(const OpDesc& op) {
  return is_product(op.schema()) && !op.schema().operands[kA].reached;
}

GemmCall gemm_call(const OpDesc& op) {
  GemmCall call;
  call.dtype = op.type(kA);
  call.out_dtype = op.type(kC);
  call.symmetric_in = op.symmetric(kA);
  call.symmetric_out = op.symmetric(kC);
  call.transpose_a = op[kFields.transpose_a] != 0;
  call.pack_b = op.storage(kB) != Storage::kPackedB;
  call.transpose_b = op[kFields.transpose_b] != 0;
  call.m = op[kFields.m];
  call.n = op[kFields.n];
  call.k = op[kFields.k];
  call.lda = op[kFields.lda];
  call.ldb = op[kFields.ldb];
  call.ldc = op[kFields.ldc];
  return call;
}

OpDesc describe(const Schema& schema, const GemmCall& call) {
  OpDesc op(schema);
  op.set(OpDesc::type_field(kA), int64_t(call.dtype));
  op.set(OpDesc::type_field(kB), int64_t(call.dtype));
  op.set(OpDesc::type_field(kC), int64_t(call.out_dtype));
  if (schema.operands[kA].reached) op.set(OpDesc::symmetric_field(kA), call.symmetric_in);
  if (schema.operands[kC].reached) op.set(OpDesc::symmetric_field(kC), call.symmetric_out);
  op.set(kFields.transpose_a, call.transpose_a);
  op.set(kFields.transpose_b, call.transpose_b);
  const Storage b = call.pack_b ? Storage::kRows : Storage::kPackedB;
  op.set(OpDesc::storage_field(kB), int64_t(b));
  op.set(kFields.m, call.m);
  op.set(kFields.n, call.n);
  op.set(kFields.k, call.k);
  op.set(kFields.lda, call.lda);
  op.set(kFields.ldb, call.ldb);
  op.set(kFields.ldc, call.ldc);
  return op;
}

}  // namespace sk
