// The numbers of a step of AdamW, which all its kernels compute with: from attributes, in doubles.
#ifndef SK_LIB_TILE_ADAMW_H_
#define SK_LIB_TILE_ADAMW_H_

#include <bit>
#include <cmath>

#include "lib/plan/task.h"

namespace sk {

// Of a task's parameters, those of the run included:
//   m = m * m_keeps + g * m_takes
//   v = v * v_keeps + (g * v_takes) * g
//   p = p * p_keeps - (m * rate) / (sqrt(v) * v_scale + eps)
// m keeps its part as a product of its own: what m + (g - m) * m_takes loses is of the size of m,
// and where beta1 is small and v, too, the quotient makes any size of that. g * g would be beyond
// the type where v is not yet.
struct AdamwNumbers {
  double m_keeps, m_takes, v_keeps, v_takes, p_keeps, rate, v_scale, eps;

  explicit AdamwNumbers(const int64_t* params) {
    const auto number = [&](AdamwParam at) { return std::bit_cast<double>(params[at]); };
    const double beta1 = number(kAdamwBeta1), beta2 = number(kAdamwBeta2), lr = number(kAdamwLr);
    // 1 - beta^step, of betas near 1 as exactly as of others: no step rounds them to 1.
    const auto gone = [step = double(params[kAdamwStep])](double beta) {
      return -std::expm1(step * std::log(beta));
    };
    m_keeps = beta1;
    m_takes = 1 - beta1;
    v_keeps = beta2;
    v_takes = 1 - beta2;
    p_keeps = 1 - lr * number(kAdamwWeightDecay);
    rate = lr / gone(beta1);
    v_scale = 1 / std::sqrt(gone(beta2));
    eps = number(kAdamwEps);
  }
};

}  // namespace sk

#endif  // SK_LIB_TILE_ADAMW_H_
