// rmsnorm_dx: rows of the gradient by x. rmsnorm_dw: columns of the gradient by the weight, each
// summed over all rows by one task. Formulas: lib/op/ops/rmsnorm.h.
#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/parameters.h"
#include "lib/tile/rows.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

// Regions: dy, x, rstd, then weight where it is given, then the output.
template <typename Sum>
struct Inputs {
  explicit Inputs(const TileArgs& of) : args(of), dtype(DType(of.params[kRowsDtype])) {}

  Sum at(uint32_t region, uint64_t row, uint64_t column) const {
    return load<Sum>(dtype, args.pointers[region][0] + row * args.regions[region].pitch +
                                column * dtype_bytes(dtype));
  }
  Sum rstd(uint64_t row) const { return load_as<Sum>(args.pointers[2][0] + row * sizeof(Sum)); }
  Sum weight(uint64_t column) const {
    if (args.params[kRowsGiven] == 0) return 1;
    const DType type = DType(args.params[kRowsWeightDtype]);
    return load<Sum>(type, args.pointers[3][0] + column * dtype_bytes(type));
  }

  const TileArgs& args;
  DType dtype;
};
constexpr uint32_t kDy = 0, kX = 1;

template <typename Sum>
void take_dx(const TileArgs& args) {
  const Inputs<Sum> in(args);
  const uint32_t last = args.region_count - 1;
  const auto columns = uint64_t(args.params[kRowsN]);
  for (uint64_t i = 0; i < args.regions[last].rows; ++i) {
    Sum dot = 0;
    for (uint64_t j = 0; j < columns; ++j) dot += in.at(kDy, i, j) * in.weight(j) * in.at(kX, i, j);
    const Sum rstd = in.rstd(i), off = rstd * rstd * (dot / Sum(columns));
    for (uint64_t j = 0; j < columns; ++j) {
      std::byte* to =
          args.pointers[last][0] + i * args.regions[last].pitch + j * dtype_bytes(in.dtype);
      store(in.dtype, to, (in.at(kDy, i, j) * in.weight(j) - in.at(kX, i, j) * off) * rstd);
    }
  }
}

template <typename Sum>
void take_dw(const TileArgs& args) {
  const Inputs<Sum> in(args);
  const DType type = DType(args.params[kColumnsWeightDtype]);
  for (int64_t j = 0; j < args.params[kColumnsCols]; ++j) {
    Sum sum = 0;
    for (int64_t i = 0; i < args.params[kColumnsM]; ++i) {
      sum += in.at(kDy, uint64_t(i), uint64_t(j)) * in.at(kX, uint64_t(i), uint64_t(j)) *
             in.rstd(uint64_t(i));
    }
    store(type, args.pointers[3][0] + uint64_t(j) * dtype_bytes(type), sum);
  }
}

void run_dx(const TileArgs& args) {
  if (DType(args.params[kRowsDtype]) == DType::kF64) return take_dx<double>(args);
  take_dx<float>(args);
}
void run_dw(const TileArgs& args) {
  if (DType(args.params[kColumnsDtype]) == DType::kF64) return take_dw<double>(args);
  take_dw<float>(args);
}

constexpr Parameter kColumnParameters[] = {
    dtype_parameter("dtype"), dtype_parameter("weight_dtype"), extent_parameter("m"),
    extent_parameter("n", 1), place_parameter("col0"),         place_parameter("cols", 1),
};
static_assert(std::size(kColumnParameters) == kColumnsParamCount);

constexpr RegionRole kDyRole = {.name = "dy", .access = kRead, .type = "dtype"},
                     kXRole = {.name = "x", .access = kRead, .type = "dtype"},
                     kRstd = {.name = "rstd", .access = kRead, .type = "accumulator(dtype)"},
                     kWeight = {.name = "weight", .access = kRead, .type = "weight_dtype"},
                     kDx = {.name = "dx", .access = kWrite, .type = "dtype"},
                     kDw = {.name = "dweight", .access = kWrite, .type = "weight_dtype"};
constexpr RegionRole kPlain[] = {kDyRole, kXRole, kRstd, kDx},
                     kWeighted[] = {kDyRole, kXRole, kRstd, kWeight, kDx},
                     kSummed[] = {kDyRole, kXRole, kRstd, kDw};
constexpr Form kRowForms[] = {
    {kPlain, "dx[i, j] = rmsnorm_dx[j](dy[i, j], x[i, j], rstd[i])", kRowRanges},
    {kWeighted, "dx[i, j] = rmsnorm_dx[j](dy[i, j], x[i, j], rstd[i], weight[j])", kRowRanges}};
constexpr effect::RangeRecord kColumnRanges[] = {{"i", "0", "m", "m"}, {"j", "col0", "cols", "n"}};
constexpr Form kColumnForms[] = {
    {kSummed, "dweight[j] = sum(i uncut) mul(dy[i, j], x[i, j], rstd[i])", kColumnRanges}};

std::string refuses_columns(std::span<const int64_t> p) {
  const DType dtype = DType(p[kColumnsDtype]), weight = DType(p[kColumnsWeightDtype]);
  if (is_float(dtype) && (weight == dtype || weight == DType::kF32)) return "";
  return fmt::format("no columns of {} summed as {}", dtype_name(dtype), dtype_name(weight));
}

}  // namespace

constexpr TileOp kRmsnormDx = {.id = TaskOp::kRmsnormDx,
                               .version = 1,
                               .signature = {.name = "rmsnorm_dx",
                                             .parameters = kRowParameters,
                                             .forms = kRowForms,
                                             .form_parameter = kRowsGiven,
                                             .refuses = refuses_rows},
                               .reference = run_dx};
constexpr TileOp kRmsnormDw = {.id = TaskOp::kRmsnormDw,
                               .version = 1,
                               .signature = {.name = "rmsnorm_dw",
                                             .parameters = kColumnParameters,
                                             .forms = kColumnForms,
                                             .refuses = refuses_columns},
                               .reference = run_dw};
static_assert(well_formed(kRmsnormDx) && well_formed(kRmsnormDw));

}  // namespace sk::tiles
