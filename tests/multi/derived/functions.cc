#include "tests/multi/derived/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

#include "tests/multi/derived/tolerance.h"

namespace sk::derived {
namespace {

// What flushing to zero may take of factors up to 2^20 (docs of the products).
constexpr double kLost = 0x1p-100;

Value computed(double value, double size, double roundings = 8) {
  return {value, size, false, roundings, kLost};
}

// Of an argument that the call came without: 1.
Value element(const Argument& argument, size_t j) {
  if (argument.empty()) return {1, 1, true};
  return argument[argument.size() == 1 ? 0 : j];
}

// The product of all.
Argument mul(std::span<const Argument> in, const Bound&) {
  double value = 1, size = 1;
  for (const Argument& each : in) {
    value *= element(each, 0).value;
    size *= element(each, 0).size;
  }
  return {computed(value, size, double(in.size()))};
}

// The sum of all.
Argument add(std::span<const Argument> in, const Bound&) {
  double value = -0.0, size = 0;  // -0, which no term's sign is lost to.
  for (const Argument& each : in) {
    value += element(each, 0).value;
    size += std::fabs(element(each, 0).value);
  }
  return {{value, size, false, double(in.size()), 0}};
}

// One that no call comes without, of `count` elements where that is said.
const Argument& needed(std::span<const Argument> in, size_t i, size_t count = 0) {
  if (i >= in.size() || in[i].empty() || (count != 0 && in[i].size() != count))
    throw std::runtime_error(fmt::format("a formula's argument {} is not as it must be", i));
  return in[i];
}
// One that calls may come without.
const Argument& optional(std::span<const Argument> in, size_t i, size_t count) {
  if (i < in.size() && in[i].empty()) return in[i];
  return needed(in, i, count);
}

// 1 / sqrt(mean of x^2 + eps).
double rstd_of(const Argument& x, double eps) {
  double squares = 0;
  for (const Value& each : x) squares += each.value * each.value;
  return 1 / std::sqrt(squares / double(x.size()) + eps);
}

Argument rms(std::span<const Argument> in, const Bound& bound) {
  const Argument& x = needed(in, 0);
  const double rstd = rstd_of(x, bound.in_type_of_sums("eps"));
  return {computed(rstd, rstd, double(x.size()) + 8)};
}

// x * rstd * weight.
Argument rmsnorm(std::span<const Argument> in, const Bound& bound) {
  const Argument &x = needed(in, 0), &weight = optional(in, 1, x.size());
  const double rstd = rstd_of(x, bound.in_type_of_sums("eps"));
  Argument out;
  for (size_t j = 0; j < x.size(); ++j) {
    const double value = x[j].value * rstd * element(weight, j).value;
    out.push_back(computed(value, std::fabs(value), double(x.size()) + 10));
  }
  return out;
}

// rstd * (dy * weight - x * rstd^2 * mean of dy * weight * x); of dy, x, rstd, weight.
Argument rmsnorm_dx(std::span<const Argument> in, const Bound&) {
  const Argument &dy = needed(in, 0), &x = needed(in, 1, dy.size());
  const Argument& weight = optional(in, 3, dy.size());
  const double rstd = needed(in, 2, 1)[0].value, n = double(x.size());
  double dot = 0, all = 0, sizes = 0;
  for (size_t j = 0; j < x.size(); ++j) {
    const double term = dy[j].value * element(weight, j).value * x[j].value;
    dot += term;
    all += std::fabs(term);
    sizes += 1 + std::fabs(x[j].value);
  }
  Argument out;
  for (size_t j = 0; j < x.size(); ++j) {
    const double one = dy[j].value * element(weight, j).value;
    const double off = x[j].value * rstd * rstd / n;
    Value value = computed(rstd * (one - off * dot),
                           std::fabs(rstd) * (std::fabs(one) + std::fabs(off) * all), n + 10);
    // What is subnormal on the way has lost so much, and is multiplied by the rest.
    value.lost +=
        0x1p-148 * std::fabs(rstd) *
        (1 + std::fabs(off) * sizes + all * (1 + std::fabs(rstd) + std::fabs(x[j].value)));
    out.push_back(value);
  }
  return out;
}

// Of an argument of one element.
double number(std::span<const Argument> in, size_t i) { return needed(in, i, 1)[0].value; }

// A step of AdamW, by its definition: of p, g, m, v the new m, v and p. In long doubles, so that of
// f64, too, the library's roundings are all that there are. Roundings are counted as units of half
// a step of the type of sums: one for each operation, and of f32 one for each number that was
// computed in doubles.
using Wide = long double;

// What is below the smallest normal number is rounded to a multiple of the smallest one: by half of
// that, once for each product and quotient. Sums lose nothing there.
double lost_of(DType sums, double products) {
  return products * (sums == DType::kF64 ? 0x1p-1074 : 0x1p-150);
}

// m * beta1 + g * (1 - beta1): of each term a number and a product, and the sum.
Argument adamw_m(std::span<const Argument> in, const Bound& bound) {
  const Wide m = number(in, 0), g = number(in, 1), beta1 = bound("beta1");
  const Wide kept = m * beta1, more = g * (1 - beta1);
  Value value = computed(double(kept + more), double(std::fabs(kept) + std::fabs(more)), 3);
  value.lost = lost_of(bound.sums, 2);
  return {value};
}

// v * beta2 + g^2 * (1 - beta2): of the second term two products.
Argument adamw_v(std::span<const Argument> in, const Bound& bound) {
  const Wide v = number(in, 0), g = number(in, 1), beta2 = bound("beta2");
  const Wide kept = v * beta2, more = g * g * (1 - beta2);
  Value value = computed(double(kept + more), double(std::fabs(kept) + more), 4);
  value.lost = lost_of(bound.sums, 3);
  return {value};
}

// 1 - beta^step, as (1 - beta) * (1 + beta + ... + beta^(step - 1)): nothing cancels.
Wide gone(Wide beta, double step) {
  Wide sum = 0;
  for (int64_t i = 0; i < int64_t(step); ++i) sum = sum * beta + 1;
  return (1 - beta) * sum;
}

// How far what the library has may be off from it; what is no number or infinite is as it is.
Wide unsure(const Value& value, DType type) {
  return std::isfinite(value.value) ? tolerance(value, type) : 0;
}

// p * (1 - lr * weight_decay) - lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps).
//
// m and v are results themselves, and the library goes on with its own: with m' and v', which are
// off by em and ev at most. With `rate` and `scale` for what is made of lr, step and the betas, and
// below(v) = sqrt(v) * scale + eps:
//   |m' / below(v') - m / below(v)| <= em / below(v') + |m| * |1 / below(v') - 1 / below(v)|
// which is largest for the least v'. That, times rate, is what m and v make of it. Then there are
// the step's own roundings: of the quotient `rate` and its product, the root, `scale`, their
// product, the sum and the division, which is 7 (eps as a number goes with the sum, of which it is
// a part, as the product is the other); of p a number and a product; then the difference. Of f64,
// numbers are not rounded, but were computed with roundings of their own: 1 - beta^step by a
// logarithm (2), a product (1) and an exponential (2), `rate` by one division more, `scale`, of
// which the root is half of that, by two operations: 6 and 5 for 1 and 1, 16 in all.
Argument adamw_step(std::span<const Argument> in, const Bound& bound) {
  const bool is_f64 = bound.sums == DType::kF64;
  const Value &m = needed(in, 1, 1)[0], &v = needed(in, 2, 1)[0];
  const double p = number(in, 0), step = bound("step");
  const Wide lr = bound("lr"), decay = lr * bound("weight_decay");
  const Wide rate = lr / gone(bound("beta1"), step);
  const auto below = [&, scale = 1 / std::sqrt(gone(bound("beta2"), step))](Wide square) {
    return std::sqrt(std::max(square, Wide(0))) * scale + Wide(bound("eps"));
  };
  const Wide kept = p * (1 - decay), less = m.value * rate / below(v.value);
  Value value = computed(double(kept - less), double(std::fabs(p) * (1 + decay) + std::fabs(less)),
                         is_f64 ? 17 : 8);
  const Wide least = below(v.value - unsure(v, bound.sums));
  // Of two products, p's and what the division gives; m * rate is divided after that.
  value.lost = lost_of(bound.sums, 2) + double(lost_of(bound.sums, 1) / least);
  if (std::isfinite(less) && std::isfinite(v.value)) {
    value.lost += double(rate * (unsure(m, bound.sums) / least +
                                 std::fabs(m.value) * (1 / least - 1 / below(v.value))));
  }
  return {value};
}

}  // namespace

const Function& function_of(std::string_view name) {
  static const std::map<std::string, Function, std::less<>> all = {{"add", add},
                                                                   {"mul", mul},
                                                                   {"rms", rms},
                                                                   {"rmsnorm", rmsnorm},
                                                                   {"rmsnorm_dx", rmsnorm_dx},
                                                                   {"adamw_m", adamw_m},
                                                                   {"adamw_v", adamw_v},
                                                                   {"adamw_step", adamw_step}};
  const auto found = all.find(name);
  if (found == all.end())
    throw std::runtime_error(std::string(name) + " has no formula in functions.cc");
  return found->second;
}

}  // namespace sk::derived
