#include "tests/multi/derived/functions.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

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

// m + (g - m) * (1 - beta1).
Argument adamw_m(std::span<const Argument> in, const Bound& bound) {
  const double m = number(in, 0), g = number(in, 1);
  return {computed(m + (g - m) * (1 - bound("beta1")), std::fabs(m) + std::fabs(g))};
}

// v * beta2 + g^2 * (1 - beta2).
Argument adamw_v(std::span<const Argument> in, const Bound& bound) {
  const double v = number(in, 0), g = number(in, 1), beta2 = bound("beta2");
  const double value = v * beta2 + g * g * (1 - beta2);
  return {computed(value, std::fabs(v) + g * g)};
}

// p * (1 - lr * weight_decay) - lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps);
// of p, m, v.
Argument adamw_step(std::span<const Argument> in, const Bound& bound) {
  const double lr = bound("lr"), step = bound("step");
  const double m = number(in, 1) / (1 - std::pow(bound("beta1"), step));
  const double v = number(in, 2) / (1 - std::pow(bound("beta2"), step));
  const double kept = number(in, 0) * (1 - lr * bound("weight_decay"));
  const double less = lr * m / (std::sqrt(v) + bound("eps"));
  return {computed(kept - less, std::fabs(number(in, 0)) + std::fabs(less))};
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
