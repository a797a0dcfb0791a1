// C = the sum over ranks of A * B: include/sk/op.h.
#ifndef SK_LIB_OP_OPS_ALLREDUCE_GEMM_H_
#define SK_LIB_OP_OPS_ALLREDUCE_GEMM_H_

#include "lib/op/schema.h"

namespace sk {
namespace ops {
namespace gemm {

inline constexpr Dimension kDimensions[] = {
    {"m", "rows of a and c"}, {"n", "columns of b and c"}, {"k", "columns of a, rows of b"}};

inline constexpr OperandSchema kOperands[] = {{.name = "a",
                                               .role = Role::kIn,
                                               .types = "float",
                                               .shape = "m, k",
                                               .storage = Storage::kRows,
                                               .turned_by = "transpose_a"},
                                              {.name = "c",
                                               .role = Role::kOut,
                                               .types = "a|f32",
                                               .shape = "m, n",
                                               .storage = Storage::kRows,
                                               .reached = true},
                                              {.name = "b",
                                               .role = Role::kIn,
                                               .types = "a",
                                               .shape = "k, n",
                                               .storage = Storage::kPackedB,
                                               .or_storage = Storage::kRows,
                                               .turned_by = "transpose_b"}};

inline constexpr Attribute kAttributes[] = {
    {.name = "transpose_a", .kind = AttributeKind::kBool, .doc = "a holds [k, m]"},
    {.name = "transpose_b", .kind = AttributeKind::kBool, .doc = "b holds [n, k]"}};

inline constexpr InnerArray kArrays[] = {{"part", "accumulator(a)", "m, n"}};

inline constexpr Steps kMeaning = steps_of(
    "part@r[i, j] = sum(l uncut) mul(a@r[i, l], b@r[l, j]); c@q[i, j] = sum(r) part@r[i, j]");

}  // namespace gemm

inline constexpr Schema kAllreduceGemm = {.id = OpKind::kAllreduceGemm,
                                          .name = "allreduce_gemm",
                                          .brief = "{a.dtype} to {c.dtype}, {m} x {n} x {k}",
                                          .dimensions = gemm::kDimensions,
                                          .operands = gemm::kOperands,
                                          .attributes = gemm::kAttributes,
                                          .arrays = gemm::kArrays,
                                          .meaning = &gemm::kMeaning,
                                          .summary =
                                              "c = the sum over ranks of a * b, on every rank: a "
                                              "product, then an all-reduce, overlapped."};

}  // namespace ops

// Such a call in its own terms. A is [m, k] with leading stride `lda`, C is [m, n] with leading
// stride `ldc`, all in elements; B is packed, or a matrix [k, n] with leading stride `ldb`.
struct GemmCall {
  static constexpr uint32_t kA = 0, kC = 1, kB = 2;  // Numbers of operands.

  DType dtype = DType::kF32, out_dtype = DType::kF32;
  bool symmetric_out = false;  // C.
  bool transpose_a = false;    // A holds [k, m].
  bool pack_b = false;         // B comes as a matrix, to be packed in the run; else packed already.
  bool transpose_b = false;    // With pack_b: B holds [n, k].
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
};
GemmCall gemm_call(const OpDesc& op);
OpDesc describe(const GemmCall& call);

}  // namespace sk

#endif  // SK_LIB_OP_OPS_ALLREDUCE_GEMM_H_
