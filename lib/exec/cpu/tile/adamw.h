// A step of AdamW on vectors:
//
//   m = m * m_keeps + g * m_takes
//   v = v * v_keeps + (g * v_takes) * g
//   p = p * p_keeps - (m * rate) / (sqrt(v) * v_scale + eps)
//
// Computed in f32, of f64 in f64, each operation rounded by itself: an element has the same bits on
// every processor and wherever it lies. p is rounded once more to its type.
// Source: I. Loshchilov, F. Hutter, Decoupled Weight Decay Regularization, 2019.
#ifndef SK_LIB_EXEC_CPU_TILE_ADAMW_H_
#define SK_LIB_EXEC_CPU_TILE_ADAMW_H_

#include <cstddef>
#include <cstdint>

#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/op/dtype.h"

namespace sk::cpu {

// Vectors are aligned to their elements and overlap nothing, but that each result may be the vector
// that it comes of.
struct AdamwArgs {
  const void *p = nullptr, *g = nullptr, *m = nullptr, *v = nullptr;
  void *new_p = nullptr, *new_m = nullptr, *new_v = nullptr;
  size_t count = 0;
  double m_keeps = 0, m_takes = 0, v_keeps = 0, v_takes = 0;
  double p_keeps = 0, rate = 0, v_scale = 0, eps = 0;
};
using AdamwFn = void (*)(const AdamwArgs& args);

// Null for types of p that are no floating ones, and where g is neither of that type nor f32.
AdamwFn select_adamw(DType p, DType g, CpuIsa isa);

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_ADAMW_H_
