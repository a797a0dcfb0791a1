// add_rmsnorm: rows of x with a residual added, kept as they are stored, and those divided by their
// root mean square, times the weight where there is one. Formulas: lib/op/ops/add_rmsnorm.h.
#include <bit>
#include <cmath>

#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/rows.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

// One row of several arrays: x, residual and weight are read, y and sum written.
template <typename Sum>
class Row {
 public:
  Row(const TileArgs& args, uint64_t row)
      : params_(args.params), dtype_(DType(args.params[kRowsDtype])) {
    const bool weighted = (args.params[kRowsGiven] & kGivenWeight) != 0;
    const uint32_t y = weighted ? 3 : 2;
    const auto at = [&](uint32_t region) {
      return args.pointers[region][0] + row * args.regions[region].pitch;
    };
    x_ = at(0), residual_ = at(1), y_ = at(y), sum_ = at(y + 1);
    weight_ = weighted ? args.pointers[2][0] : nullptr;
  }

  void run(std::byte* rstd_out) const {
    double squares = 0;
    for (uint64_t j = 0; j < columns(); ++j) {
      const uint64_t at = j * dtype_bytes(dtype_);
      store(dtype_, sum_ + at, load<Sum>(dtype_, x_ + at) + load<Sum>(dtype_, residual_ + at));
      const double value = load<Sum>(dtype_, sum_ + at);
      squares += value * value;
    }
    const auto eps = Sum(std::bit_cast<double>(params_[kRowsEps]));
    const Sum rstd = 1 / std::sqrt(Sum(squares / double(columns())) + eps);
    for (uint64_t j = 0; j < columns(); ++j) {
      const uint64_t at = j * dtype_bytes(dtype_);
      store(dtype_, y_ + at, load<Sum>(dtype_, sum_ + at) * rstd * weight(j));
    }
    if (rstd_out != nullptr) store_as(rstd_out, rstd);
  }

 private:
  uint64_t columns() const { return uint64_t(params_[kRowsN]); }
  Sum weight(uint64_t j) const {
    const DType type = DType(params_[kRowsWeightDtype]);
    return weight_ == nullptr ? 1 : load<Sum>(type, weight_ + j * dtype_bytes(type));
  }

  const int64_t* params_;
  DType dtype_;
  const std::byte *x_, *residual_, *weight_;
  std::byte *y_, *sum_;
};

template <typename Sum>
void add(const TileArgs& args) {
  const bool weighted = (args.params[kRowsGiven] & kGivenWeight) != 0;
  const bool kept = (args.params[kRowsGiven] & kGivenSecond) != 0;
  for (uint64_t row = 0; row < args.regions[0].rows; ++row) {
    std::byte* rstd = kept ? args.pointers[weighted ? 5 : 4][0] + row * sizeof(Sum) : nullptr;
    Row<Sum>(args, row).run(rstd);
  }
}

void run(const TileArgs& args) {
  if (DType(args.params[kRowsDtype]) == DType::kF64) return add<double>(args);
  add<float>(args);
}

constexpr const char* kGivenWords[] = {"none", "weight", "rstd", "weight_and_rstd"};
constexpr auto kParameters = row_parameters(kGivenWords, float_parameter("eps"));

constexpr RegionRole kX = {.name = "x", .access = kRead, .type = "dtype"},
                     kResidual = {.name = "residual", .access = kRead, .type = "dtype"},
                     kWeight = {.name = "weight",
                                .access = kRead,
                                .type = "weight_dtype",
                                .read_again = true},
                     kY = {.name = "y", .access = kWrite, .type = "dtype"},
                     kTotal = {.name = "total", .access = kWrite, .type = "dtype"},
                     kRstd = {.name = "rstd", .access = kWrite, .type = "accumulator(dtype)"};
constexpr RegionRole kPlain[] = {kX, kResidual, kY, kTotal},
                     kWeighted[] = {kX, kResidual, kWeight, kY, kTotal},
                     kPlainKept[] = {kX, kResidual, kY, kTotal, kRstd},
                     kWeightedKept[] = {kX, kResidual, kWeight, kY, kTotal, kRstd};

#define SK_ADDED "total[i, j] = add(x[i, j], residual[i, j]); "
#define SK_NORMED "y[i, j] = rmsnorm[j](total[i, j], eps = eps)"
#define SK_WEIGHTED "y[i, j] = rmsnorm[j](total[i, j], weight[j], eps = eps)"
#define SK_KEPT "; rstd[i] = rms[j](total[i, j], eps = eps)"
constexpr Form kForms[] = {  // By RowsGiven.
    {kPlain, SK_ADDED SK_NORMED, kRowRanges},
    {kWeighted, SK_ADDED SK_WEIGHTED, kRowRanges},
    {kPlainKept, SK_ADDED SK_NORMED SK_KEPT, kRowRanges},
    {kWeightedKept, SK_ADDED SK_WEIGHTED SK_KEPT, kRowRanges}};

}  // namespace

constexpr TileOp kAddRmsnorm = {.id = TaskOp::kAddRmsnorm,
                                .version = 2,
                                .signature = {.name = "add_rmsnorm",
                                              .parameters = kParameters,
                                              .forms = kForms,
                                              .form_parameter = kRowsGiven,
                                              .refuses = refuses_rows},
                                .in_place = true,
                                .reference = run};
SK_SOUND(flaw_in(kAddRmsnorm));

}  // namespace sk::tiles
