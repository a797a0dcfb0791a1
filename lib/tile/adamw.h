// The numbers of a step of AdamW, which all its kernels compute with: from attributes, in doubles.
#ifndef SK_LIB_TILE_ADAMW_H_
#define SK_LIB_TILE_ADAMW_H_

#include <bit>
#include <cmath>

#include "lib/plan/task.h"

namespace sk {

// Of a task's parameters, those of the run included:
//   m = m + (g - m) * m_takes
//   v = v * v_keeps + (g * g) * v_takes
//   p = p * p_keeps - (m * rate) / (sqrt(v) * v_scale + eps)
struct AdamwNumbers {
  double m_takes, v_keeps, v_takes, p_keeps, rate, v_scale, eps;

  explicit AdamwNumbers(const int64_t* params) {
    const auto number = [&](AdamwParam at) { return std::bit_cast<double>(params[at]); };
    const double beta1 = number(kAdamwBeta1), beta2 = number(kAdamwBeta2), lr = number(kAdamwLr);
    const auto step = double(params[kAdamwStep]);
    m_takes = 1 - beta1;
    v_keeps = beta2;
    v_takes = 1 - beta2;
    p_keeps = 1 - lr * number(kAdamwWeightDecay);
    rate = lr / (1 - std::pow(beta1, step));
    v_scale = 1 / std::sqrt(1 - std::pow(beta2, step));
    eps = number(kAdamwEps);
  }
};

}  // namespace sk

#endif  // SK_LIB_TILE_ADAMW_H_
