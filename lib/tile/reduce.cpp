// reduce: all buffers of all inputs, joined element by element in their order, to every output.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

// Integers wrap around, so their sums and products are made without signs.
template <typename Sum>
Sum join(RedOp op, Sum a, Sum b) {
  if constexpr (std::is_integral_v<Sum>) {
    if (op == RedOp::kSum) return Sum(uint64_t(a) + uint64_t(b));
    if (op == RedOp::kProd) return Sum(uint64_t(a) * uint64_t(b));
  } else {
    if (op == RedOp::kSum || op == RedOp::kAvg) return a + b;
    if (op == RedOp::kProd) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Sum>::quiet_NaN();
  }
  return op == RedOp::kMin ? (b < a ? b : a) : (a < b ? b : a);
}

template <typename Sum>
void reduce(const TileArgs& args) {
  const DType dtype = DType(args.params[kReduceDtype]);
  const DType out_dtype = DType(args.params[kReduceOutDtype]);
  const RedOp op = RedOp(args.params[kReduceOp]);
  const uint32_t inputs = args.region_count - 1;
  const Region& out = args.regions[inputs];
  const uint64_t columns = out.row_bytes / dtype_bytes(out_dtype);
  for (uint64_t row = 0; row < out.rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      Sum sum = Sum();
      uint32_t count = 0;
      for (uint32_t i = 0; i < inputs; ++i) {
        for (uint32_t j = 0; j < args.regions[i].buffer_count; ++j) {
          const Sum value = load<Sum>(dtype, args.pointers[i][j] + row * args.regions[i].pitch +
                                                 column * dtype_bytes(dtype));
          sum = count++ == 0 ? value : join(op, sum, value);
        }
      }
      if (op == RedOp::kAvg) sum /= Sum(count);
      for (uint32_t j = 0; j < out.buffer_count; ++j) {
        store(out_dtype,
              args.pointers[inputs][j] + row * out.pitch + column * dtype_bytes(out_dtype), sum);
      }
    }
  }
}

void run(const TileArgs& args) {
  const DType dtype = DType(args.params[kReduceDtype]);
  if (!is_float(dtype)) return reduce<int64_t>(args);
  if (dtype == DType::kF64) return reduce<double>(args);
  reduce<float>(args);
}

constexpr Parameter kParameters[] = {
    dtype_parameter("dtype"), dtype_parameter("out_dtype"),
    Parameter{"redop", ParamKind::kRedop, ParamUse::kMeaning, SK_SUM, SK_AVG}, kHintParameter};
static_assert(std::size(kParameters) == kReduceParamCount);

constexpr RegionRole kRegions[] = {
    {.name = "in", .access = kRead, .many_buffers = true, .repeats = true, .type = "dtype"},
    {.name = "out", .access = kWrite, .many_buffers = true, .type = "out_dtype"}};
constexpr Form kForms[] = {{kRegions, "out[y, x] = redop(e) in@e[y, x]"}};

// Into itself, or sums into what they end as, or elements into what they are summed in.
constexpr bool stores(DType in, DType out) {
  const auto is_half = [](DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; };
  return in == out || (in == DType::kF32 && is_half(out)) || (is_half(in) && out == DType::kF32) ||
         (in == DType::kF64 && out == DType::kF32);
}

std::string refuses(std::span<const int64_t> p) {
  const DType dtype = DType(p[kReduceDtype]), out_dtype = DType(p[kReduceOutDtype]);
  const RedOp redop = RedOp(p[kReduceOp]);
  if (stores(dtype, out_dtype) && (redop != RedOp::kAvg || is_float(dtype))) return "";
  return fmt::format("no {} of {} into {}", redop_name(redop), dtype_name(dtype),
                     dtype_name(out_dtype));
}

}  // namespace

constexpr TileOp kReduce = {.id = TaskOp::kReduce,
                            .version = 1,
                            .signature = {.name = "reduce",
                                          .parameters = kParameters,
                                          .forms = kForms,
                                          .touches_peers = true,
                                          .refuses = refuses},
                            .in_place = true,
                            .reference = run};
SK_SOUND(flaw_in(kReduce));

}  // namespace sk::tiles
