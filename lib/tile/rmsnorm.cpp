// rmsnorm: rows of x divided by their root mean square, times the weight where there is one; and of
// each row, where it is asked for, one divided by that. Formulas: lib/op/ops/rmsnorm.h.
#include <bit>
#include <cmath>

#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/rows.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

template <typename Sum>
Sum rstd_of(DType dtype, const std::byte* row, uint64_t columns, Sum eps) {
  double squares = 0;
  for (uint64_t j = 0; j < columns; ++j) {
    const double value = load<Sum>(dtype, row + j * dtype_bytes(dtype));
    squares += value * value;
  }
  return 1 / std::sqrt(Sum(squares / double(columns)) + eps);
}

template <typename Sum>
void normalise(const TileArgs& args) {
  const int64_t* p = args.params;
  const DType dtype = DType(p[kRowsDtype]), weight = DType(p[kRowsWeightDtype]);
  const bool weighted = (p[kRowsGiven] & kGivenWeight) != 0;
  const uint32_t to_y = weighted ? 2 : 1, to_rstd = to_y + 1;
  const Region &x = args.regions[0], &y = args.regions[to_y];
  const auto eps = Sum(std::bit_cast<double>(p[kRowsEps]));
  for (uint64_t row = 0; row < x.rows; ++row) {
    const std::byte* from = args.pointers[0][0] + row * x.pitch;
    std::byte* to = args.pointers[to_y][0] + row * y.pitch;
    const Sum rstd = rstd_of<Sum>(dtype, from, uint64_t(p[kRowsN]), eps);
    for (int64_t j = 0; j < p[kRowsN]; ++j) {
      const uint64_t at = uint64_t(j) * dtype_bytes(dtype);
      Sum value = load<Sum>(dtype, from + at) * rstd;
      if (weighted) {
        value *= load<Sum>(weight, args.pointers[1][0] + uint64_t(j) * dtype_bytes(weight));
      }
      store(dtype, to + at, value);
    }
    if ((p[kRowsGiven] & kGivenSecond) != 0) {
      store_as(args.pointers[to_rstd][0] + row * sizeof(Sum), rstd);
    }
  }
}

void run(const TileArgs& args) {
  if (DType(args.params[kRowsDtype]) == DType::kF64) return normalise<double>(args);
  normalise<float>(args);
}

constexpr const char* kGivenWords[] = {"none", "weight", "rstd", "weight_and_rstd"};
constexpr auto kParameters = row_parameters(kGivenWords, float_parameter("eps"));

constexpr RegionRole kX = {.name = "x", .access = kRead, .type = "dtype"},
                     kWeight = {.name = "weight",
                                .access = kRead,
                                .type = "weight_dtype",
                                .read_again = true},
                     kY = {.name = "y", .access = kWrite, .type = "dtype"},
                     kRstd = {.name = "rstd", .access = kWrite, .type = "accumulator(dtype)"};
constexpr RegionRole kPlain[] = {kX, kY}, kWeighted[] = {kX, kWeight, kY},
                     kPlainKept[] = {kX, kY, kRstd}, kWeightedKept[] = {kX, kWeight, kY, kRstd};
constexpr Form kForms[] = {  // By RowsGiven.
    {kPlain, "y[i, j] = rmsnorm[j](x[i, j], eps = eps)", kRowRanges},
    {kWeighted, "y[i, j] = rmsnorm[j](x[i, j], weight[j], eps = eps)", kRowRanges},
    {kPlainKept, "y[i, j] = rmsnorm[j](x[i, j], eps = eps); rstd[i] = rms[j](x[i, j], eps = eps)",
     kRowRanges},
    {kWeightedKept,
     "y[i, j] = rmsnorm[j](x[i, j], weight[j], eps = eps); rstd[i] = rms[j](x[i, j], eps = eps)",
     kRowRanges}};

}  // namespace

constexpr TileOp kRmsnorm = {.id = TaskOp::kRmsnorm,
                             .version = 2,
                             .signature = {.name = "rmsnorm",
                                           .parameters = kParameters,
                                           .forms = kForms,
                                           .form_parameter = kRowsGiven,
                                           .refuses = refuses_rows},
                             .in_place = true,
                             .reference = run};
SK_SOUND(flaw_in(kRmsnorm));

}  // namespace sk::tiles
