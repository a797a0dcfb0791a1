// sum_rows: columns, each summed over all rows, from the first on.
#include <fmt/format.h>

#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

template <typename Sum>
void sum(const TileArgs& args) {
  const DType dtype = DType(args.params[kSumRowsDtype]);
  const DType out_dtype = DType(args.params[kSumRowsOutDtype]);
  for (uint64_t j = 0; j < uint64_t(args.params[kSumRowsCols]); ++j) {
    Sum all = 0;
    for (uint64_t i = 0; i < uint64_t(args.params[kSumRowsM]); ++i) {
      all += load<Sum>(dtype,
                       args.pointers[0][0] + i * args.regions[0].pitch + j * dtype_bytes(dtype));
    }
    store(out_dtype, args.pointers[1][0] + j * dtype_bytes(out_dtype), all);
  }
}

void run(const TileArgs& args) {
  if (DType(args.params[kSumRowsDtype]) == DType::kF64) return sum<double>(args);
  sum<float>(args);
}

constexpr Parameter kParameters[] = {
    dtype_parameter("dtype"), dtype_parameter("out_dtype"), extent_parameter("m"),
    extent_parameter("n", 1), place_parameter("col0"),      place_parameter("cols", 1),
};
static_assert(std::size(kParameters) == kSumRowsParamCount);

constexpr RegionRole kRegions[] = {{.name = "in", .access = kRead, .type = "dtype"},
                                   {.name = "out", .access = kWrite, .type = "out_dtype"}};
constexpr effect::RangeRecord kRanges[] = {{"i", "0", "m", "m"}, {"j", "col0", "cols", "n"}};
constexpr Form kForms[] = {{kRegions, "out[j] = sum(i uncut) in[i, j]", kRanges}};

// Of what is summed in its own type.
std::string refuses(std::span<const int64_t> p) {
  const DType dtype = DType(p[kSumRowsDtype]), out = DType(p[kSumRowsOutDtype]);
  if (dtype == DType::kF32 && is_float(out) && out != DType::kF64) return "";
  if (dtype == DType::kF64 && (out == dtype || out == DType::kF32)) return "";
  return fmt::format("no rows of {} summed to {}", dtype_name(dtype), dtype_name(out));
}

}  // namespace

constexpr TileOp kSumRows = {.id = TaskOp::kSumRows,
                             .version = 1,
                             .signature = {.name = "sum_rows",
                                           .parameters = kParameters,
                                           .forms = kForms,
                                           .refuses = refuses},
                             .reference = run};
static_assert(well_formed(kSumRows));

}  // namespace sk::tiles
