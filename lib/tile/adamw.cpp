// adamw: the moments of gradients, and what they make of parameters, element by element. Formulas:
// lib/op/ops/adamw.h.
#include "lib/tile/adamw.h"

#include <fmt/format.h>

#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

template <typename Sum>
void step(const TileArgs& args) {
  const AdamwNumbers numbers(args.params);
  const DType dtype = DType(args.params[kAdamwDtype]), grad = DType(args.params[kAdamwGradDtype]);
  const auto at = [&](size_t region, uint64_t i, size_t bytes) {
    return args.pointers[region][0] + i * bytes;
  };
  for (uint64_t i = 0; i < uint64_t(args.params[kAdamwCount]); ++i) {
    const auto p = load<Sum>(dtype, at(0, i, dtype_bytes(dtype)));
    const auto g = load<Sum>(grad, at(1, i, dtype_bytes(grad)));
    auto m = load_as<Sum>(at(2, i, sizeof(Sum))), v = load_as<Sum>(at(3, i, sizeof(Sum)));
    const Sum kept_m = m * Sum(numbers.m_keeps), more_m = g * Sum(numbers.m_takes);
    m = kept_m + more_m;
    const Sum kept_v = v * Sum(numbers.v_keeps), more_v = g * Sum(numbers.v_takes) * g;
    v = kept_v + more_v;
    const Sum root = std::sqrt(v) * Sum(numbers.v_scale);
    const Sum less = m * Sum(numbers.rate) / (root + Sum(numbers.eps));
    const Sum kept_p = p * Sum(numbers.p_keeps);
    store(dtype, at(4, i, dtype_bytes(dtype)), kept_p - less);
    store_as(at(5, i, sizeof(Sum)), m);
    store_as(at(6, i, sizeof(Sum)), v);
  }
}

void run(const TileArgs& args) {
  if (DType(args.params[kAdamwDtype]) == DType::kF64) return step<double>(args);
  step<float>(args);
}

std::string refuses(std::span<const int64_t> p) {
  const DType dtype = DType(p[kAdamwDtype]), grad = DType(p[kAdamwGradDtype]);
  if (is_float(dtype) && (grad == dtype || grad == DType::kF32)) return "";
  return fmt::format("no step of {} with gradients of {}", dtype_name(dtype), dtype_name(grad));
}

constexpr Parameter kParameters[] = {
    dtype_parameter("dtype"), dtype_parameter("grad_dtype"), extent_parameter("n", 1),
    place_parameter("first"), place_parameter("count", 1),   float_parameter("beta1"),
    float_parameter("beta2"), float_parameter("eps"),        float_parameter("weight_decay"),
    run_parameter("lr"),      run_parameter("step")};
static_assert(std::size(kParameters) == kAdamwParamCount);

constexpr RegionRole kRegions[] = {
    {.name = "params", .access = kRead, .type = "dtype"},
    {.name = "grads", .access = kRead, .type = "grad_dtype"},
    {.name = "ms", .access = kRead, .type = "accumulator(dtype)"},
    {.name = "vs", .access = kRead, .type = "accumulator(dtype)"},
    {.name = "new_params", .access = kWrite, .type = "dtype"},
    {.name = "new_ms", .access = kWrite, .type = "accumulator(dtype)"},
    {.name = "new_vs", .access = kWrite, .type = "accumulator(dtype)"}};
constexpr effect::RangeRecord kRanges[] = {{"i", "first", "count", "n"}};
constexpr Form kForms[] = {
    {kRegions,
     "new_ms[i] = adamw_m(ms[i], grads[i], beta1 = beta1); "
     "new_vs[i] = adamw_v(vs[i], grads[i], beta2 = beta2); "
     "new_params[i] = adamw_step(params[i], new_ms[i], new_vs[i], lr = lr, step = step, "
     "beta1 = beta1, beta2 = beta2, eps = eps, weight_decay = weight_decay)",
     kRanges}};

}  // namespace

constexpr TileOp kAdamw = {
    .id = TaskOp::kAdamw,
    .version = 1,
    .signature = {.name = "adamw", .parameters = kParameters, .forms = kForms, .refuses = refuses},
    .in_place = true,
    .reference = run};
SK_SOUND(flaw_in(kAdamw));

}  // namespace sk::tiles
