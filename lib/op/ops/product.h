// What operations that multiply have in common: operands, dimensions and attributes in one order,
// so that one call's terms are another's.
#ifndef SK_LIB_OP_OPS_PRODUCT_H_
#define SK_LIB_OP_OPS_PRODUCT_H_

#include "lib/op/schema.h"

namespace sk {
namespace ops::product {

inline constexpr Dimension kDimensions[] = {
    {"m", "rows of a"}, {"n", "columns of b and c"}, {"k", "columns of a, rows of b"}};

inline constexpr const char* kAlike = "laid out, turned and packed alike on every rank";

constexpr OperandSchema a(bool reached) {
  return {.name = "a",
          .role = Role::kIn,
          .types = "float",
          .shape = "m, k",
          .storage = Storage::kRows,
          .turned_by = "transpose_a",
          .reached = reached,
          .doc = kAlike};
}
constexpr OperandSchema c(const char* shape, bool reached) {
  return {.name = "c",
          .role = Role::kOut,
          .types = "a|f32",
          .shape = shape,
          .storage = Storage::kRows,
          .reached = reached};
}
inline constexpr OperandSchema kB = {.name = "b",
                                     .role = Role::kIn,
                                     .types = "a",
                                     .shape = "k, n",
                                     .storage = Storage::kPackedB,
                                     .or_storage = Storage::kRows,
                                     .turned_by = "transpose_b",
                                     .doc = kAlike};

inline constexpr Attribute kAttributes[] = {
    {.name = "transpose_a", .kind = AttributeKind::kBool, .doc = "a holds [k, m]"},
    {.name = "transpose_b", .kind = AttributeKind::kBool, .doc = "b holds [n, k]"}};

inline constexpr const char* kBrief = "{a.dtype} to {c.dtype}, {m} x {n} x {k}";

}  // namespace ops::product

// Such a call in its own terms. A is [m, k] with leading stride `lda`, C has n columns with leading
// stride `ldc`, all in elements; B is packed, or a matrix [k, n] with leading stride `ldb`.
struct GemmCall {
  static constexpr uint32_t kA = 0, kC = 1, kB = 2;  // Numbers of operands.

  DType dtype = DType::kF32, out_dtype = DType::kF32;
  bool symmetric_in = false, symmetric_out = false;  // A and C, where peers reach them.
  bool transpose_a = false;                          // A holds [k, m].
  bool pack_b = false;       // B comes as a matrix, to be packed in the run; else packed already.
  bool transpose_b = false;  // With pack_b: B holds [n, k].
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
};

// Whether calls of it are GemmCalls.
bool is_product(const Schema& schema);
// Whether a rank's tiles multiply the rank's own A alone.
bool multiplies_own_a(const OpDesc& op);
GemmCall gemm_call(const OpDesc& op);
OpDesc describe(const Schema& schema, const GemmCall& call);

}  // namespace sk

#endif  // SK_LIB_OP_OPS_PRODUCT_H_
