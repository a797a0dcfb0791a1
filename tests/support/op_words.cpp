#include "tests/support/op_words.h"

#include <vector>

#include "lib/op/ops/all.h"

namespace sk {
namespace {

OpDesc product(const Schema& schema, const TextOp& text) {
  return describe(schema, GemmCall{.dtype = text.dtype,
                                   .out_dtype = text.out_dtype,
                                   .symmetric_in = text.symmetric_in,
                                   .symmetric_out = text.symmetric_out,
                                   .transpose_a = text.transpose_a,
                                   .pack_b = text.pack_b,
                                   .transpose_b = text.transpose_b,
                                   .m = text.m,
                                   .n = text.n,
                                   .k = text.k,
                                   .lda = text.lda,
                                   .ldb = text.ldb,
                                   .ldc = text.ldc});
}

OpDesc vectors(const Schema& schema, const TextOp& text) {
  return describe(schema, VectorCall{.dtype = text.dtype,
                                     .redop = text.redop,
                                     .symmetric_in = text.symmetric_in,
                                     .symmetric_out = text.symmetric_out,
                                     .in_place = text.in_place,
                                     .root = text.root,
                                     .peer = text.peer,
                                     .count = text.count});
}

template <typename Op, typename Visitor>
void visit_op(Op& op, Visitor&& field) {
  field("kind", op.kind);
  field("dtype", op.dtype);
  field("out_dtype", op.out_dtype);
  field("redop", op.redop);
  field("symmetric_in", op.symmetric_in);
  field("symmetric_out", op.symmetric_out);
  field("in_place", op.in_place);
  field("transpose_a", op.transpose_a);
  field("pack_b", op.pack_b);
  field("transpose_b", op.transpose_b);
  field("root", op.root);
  field("peer", op.peer);
  field("count", op.count);
  field("m", op.m);
  field("n", op.n);
  field("k", op.k);
  field("lda", op.lda);
  field("ldb", op.ldb);
  field("ldc", op.ldc);
}

// The name of the first word that differs, or null.
const char* first_difference(const TextOp& a, const TextOp& b) {
  std::vector<int64_t> values;
  visit_op(a, [&](const char*, const auto& value) { values.push_back(int64_t(value)); });
  const char* found = nullptr;
  size_t next = 0;
  visit_op(b, [&](const char* name, const auto& value) {
    if (values[next++] != int64_t(value) && found == nullptr) found = name;
  });
  return found;
}

}  // namespace

TextOp text_op(const OpDesc& op) {
  TextOp text;
  text.kind = op.kind();
  if (is_product(op.schema())) {
    const GemmCall call = gemm_call(op);
    text.dtype = call.dtype;
    text.out_dtype = call.out_dtype;
    text.symmetric_in = call.symmetric_in;
    text.symmetric_out = call.symmetric_out;
    text.transpose_a = call.transpose_a;
    text.pack_b = call.pack_b;
    text.transpose_b = call.transpose_b;
    text.m = call.m;
    text.n = call.n;
    text.k = call.k;
    text.lda = call.lda;
    text.ldb = call.ldb;
    text.ldc = call.ldc;
    return text;
  }
  const VectorCall call = vector_call(op);
  text.dtype = text.out_dtype = call.dtype;
  text.redop = call.redop;
  text.symmetric_in = call.symmetric_in;
  text.symmetric_out = call.symmetric_out;
  text.in_place = call.in_place;
  text.root = call.root;
  text.peer = call.peer;
  text.count = op.schema().field("bytes") ? op[ops::kBytes] : call.count;
  return text;
}

Result<OpDesc> op_of(const TextOp& text) {
  const Schema* schema = schema_of(text.kind);
  if (schema == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT, "unknown operation {}", int(text.kind));
  }
  OpDesc op = is_product(*schema) ? product(*schema, text) : vectors(*schema, text);
  if (schema->field("bytes")) op.set(ops::kBytes, text.count);
  const char* foreign = first_difference(text_op(op), text);
  if (foreign == nullptr) return op;
  return error(SK_ERR_INVALID_ARGUMENT, "{} has no such {}", schema->name, foreign);
}

}  // namespace sk
