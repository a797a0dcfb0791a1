// A step of AdamW for any number of tensors at once: of each rank alone.
#ifndef SK_LIB_OP_OPS_ADAMW_H_
#define SK_LIB_OP_OPS_ADAMW_H_

#include "lib/op/schema.h"

namespace sk::ops {
namespace adamw {

inline constexpr Dimension kElements[] = {{"n", "elements of all tensors of a list"}};

inline constexpr OperandSchema kOperands[] = {
    {.name = "params", .role = Role::kIn, .types = "float", .shape = "n", .list = true},
    {.name = "grads", .role = Role::kIn, .types = "params|f32", .shape = "n", .list = true},
    {.name = "ms",
     .role = Role::kIn,
     .types = "accumulator(params)",
     .shape = "n",
     .list = true,
     .doc = "the gradients' moving averages, 0 before the first step"},
    {.name = "vs",
     .role = Role::kIn,
     .types = "accumulator(params)",
     .shape = "n",
     .list = true,
     .not_negative = true,
     .doc = "those of their squares, 0 before the first step"},
    {.name = "new_params",
     .role = Role::kOut,
     .types = "params",
     .shape = "n",
     .alias = "params",
     .list = true,
     .only_in_place = true},
    {.name = "new_ms",
     .role = Role::kOut,
     .types = "ms",
     .shape = "n",
     .alias = "ms",
     .list = true,
     .only_in_place = true},
    {.name = "new_vs",
     .role = Role::kOut,
     .types = "vs",
     .shape = "n",
     .alias = "vs",
     .list = true,
     .only_in_place = true}};

inline constexpr double kBelowOne = 1 - 0x1p-53;

inline constexpr Attribute kNumbers[] = {{.name = "lr",
                                          .kind = AttributeKind::kFloat,
                                          .lowest = 0,
                                          .runtime = true,
                                          .doc = "the learning rate of this step"},
                                         {.name = "step",
                                          .kind = AttributeKind::kInt,
                                          .least = "1",
                                          .runtime = true,
                                          .doc = "the number of this step, from 1"},
                                         {.name = "beta1",
                                          .kind = AttributeKind::kFloat,
                                          .lowest = 0,
                                          .highest = kBelowOne,
                                          .suggested = "0.9",
                                          .doc = "what ms keeps of itself"},
                                         {.name = "beta2",
                                          .kind = AttributeKind::kFloat,
                                          .lowest = 0,
                                          .highest = kBelowOne,
                                          .suggested = "0.999",
                                          .doc = "what vs keeps of itself"},
                                         {.name = "eps",
                                          .kind = AttributeKind::kFloat,
                                          .lowest = 0,
                                          .suggested = "1e-8",
                                          .doc = "added to the root of vs"},
                                         {.name = "weight_decay",
                                          .kind = AttributeKind::kFloat,
                                          .lowest = 0,
                                          .suggested = "0.01",
                                          .doc = "how much of params goes, times lr"}};

inline constexpr Steps kStep = steps_of(
    "new_ms@r[i] = adamw_m(ms@r[i], grads@r[i], beta1 = beta1); "
    "new_vs@r[i] = adamw_v(vs@r[i], grads@r[i], beta2 = beta2); "
    "new_params@r[i] = adamw_step(params@r[i], new_ms@r[i], new_vs@r[i], lr = lr, step = step, "
    "beta1 = beta1, beta2 = beta2, eps = eps, weight_decay = weight_decay)");

}  // namespace adamw

inline constexpr Schema kAdamw = {
    .id = OpKind::kAdamw,
    .name = "adamw",
    .brief = "{params.dtype}, {n} elements",
    .scope = Scope::kLocal,
    .dimensions = adamw::kElements,
    .operands = adamw::kOperands,
    .attributes = adamw::kNumbers,
    .meaning = &adamw::kStep,
    .free = "n",
    .summary =
        "A step of AdamW for all tensors of the lists, in their place. m = m * beta1 + g * (1 - "
        "beta1), v = v * beta2 + g^2 * (1 - beta2), p = p * (1 - lr * weight_decay) - m * (lr / "
        "(1 - beta1^step)) / (sqrt(v) / sqrt(1 - beta2^step) + eps). Numbers are computed in "
        "doubles and rounded to f32, of f64 not at all; elements in that, each operation rounded, "
        "so that all processors give the same bits (but a NaN's sign and payload).",
    .source = "I. Loshchilov, F. Hutter: Decoupled Weight Decay Regularization, 2019."};

}  // namespace sk::ops

#endif  // SK_LIB_OP_OPS_ADAMW_H_
