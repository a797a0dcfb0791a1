// C = the sum over ranks of A * B: include/sk/op.h.
#include "lib/op/ops/all.h"

namespace sk::ops {
namespace {

constexpr Dimension kDimensions[] = {{"m", Member::kM}, {"n", Member::kN}, {"k", Member::kK}};

constexpr OperandSchema kOperands[] = {{.name = "a",
                                        .role = Role::kIn,
                                        .types = "float",
                                        .type = Member::kDType,
                                        .shape = "m, k",
                                        .stride = Member::kLda,
                                        .turned_by = "transpose_a",
                                        .symmetric = Member::kSymmetricIn},
                                       {.name = "c",
                                        .role = Role::kOut,
                                        .types = "a|f32",
                                        .type = Member::kOutDType,
                                        .shape = "m, n",
                                        .stride = Member::kLdc,
                                        .symmetric = Member::kSymmetricOut},
                                       {.name = "b",
                                        .role = Role::kIn,
                                        .types = "a",
                                        .type = Member::kDType,
                                        .shape = "k, n",
                                        .stride = Member::kLdb,
                                        .turned_by = "transpose_b",
                                        .plain_if = "pack_b"}};

constexpr Attribute kAttributes[] = {
    {"transpose_a", AttributeKind::kBool, Member::kTransposeA},
    {"pack_b", AttributeKind::kBool, Member::kPackB, "b packed before", /*inverted=*/true},
    {"transpose_b", AttributeKind::kBool, Member::kTransposeB}};

}  // namespace

constexpr Schema kAllreduceGemm = {.id = OpKind::kAllreduceGemm,
                                   .name = "allreduce_gemm",
                                   .brief = "{a.dtype} to {c.dtype}, {m} x {n} x {k}",
                                   .dimensions = kDimensions,
                                   .operands = kOperands,
                                   .attributes = kAttributes};

}  // namespace sk::ops
