// rmsnorm_backward: rows of the gradient by x; and where it is asked for the gradient by the weight
// of each block of rows, which sum_rows joins. Formulas: lib/op/ops/rmsnorm.h.
#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/rows.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

constexpr uint32_t kDy = 0, kX = 1, kRstd = 2;

// Regions: dy, x, rstd, then weight where it is given, then the outputs.
template <typename Sum>
class Backward {
 public:
  explicit Backward(const TileArgs& args)
      : args_(args),
        dtype_(DType(args.params[kRowsDtype])),
        weighted_((args.params[kRowsGiven] & kGivenWeight) != 0),
        to_dx_(weighted_ ? 4 : 3),
        columns_(uint64_t(args.params[kRowsN])) {}

  void run() const {
    const bool sums = (args_.params[kRowsGiven] & kGivenSecond) != 0;
    for (uint64_t i = 0; i < args_.regions[to_dx_].rows; ++i) {
      take_dx(i);
      if (sums) add_to_sums(i);
    }
  }

 private:
  Sum at(uint32_t region, uint64_t row, uint64_t column) const {
    return load<Sum>(dtype_, args_.pointers[region][0] + row * args_.regions[region].pitch +
                                 column * dtype_bytes(dtype_));
  }
  Sum rstd(uint64_t row) const {
    return load_as<Sum>(args_.pointers[kRstd][0] + row * sizeof(Sum));
  }
  Sum weight(uint64_t column) const {
    if (!weighted_) return 1;
    const DType type = DType(args_.params[kRowsWeightDtype]);
    return load<Sum>(type, args_.pointers[3][0] + column * dtype_bytes(type));
  }

  void take_dx(uint64_t i) const {
    double dot = 0;
    for (uint64_t j = 0; j < columns_; ++j)
      dot += double(at(kDy, i, j) * weight(j)) * double(at(kX, i, j));
    const Sum by = rstd(i), off = by * (by * Sum(dot / double(columns_)));
    for (uint64_t j = 0; j < columns_; ++j) {
      std::byte* to =
          args_.pointers[to_dx_][0] + i * args_.regions[to_dx_].pitch + j * dtype_bytes(dtype_);
      store(dtype_, to, (at(kDy, i, j) * weight(j) - at(kX, i, j) * off) * by);
    }
  }
  void add_to_sums(uint64_t i) const {
    const uint64_t block = uint64_t(args_.params[kRowsBlock]);
    std::byte* sums = args_.pointers[to_dx_ + 1][0] + i / block * args_.regions[to_dx_ + 1].pitch;
    for (uint64_t j = 0; j < columns_; ++j) {
      const Sum before = i % block == 0 ? 0 : load_as<Sum>(sums + j * sizeof(Sum));
      store_as(sums + j * sizeof(Sum), before + at(kDy, i, j) * at(kX, i, j) * rstd(i));
    }
  }

  const TileArgs& args_;
  DType dtype_;
  bool weighted_;
  uint32_t to_dx_;
  uint64_t columns_;
};

void run(const TileArgs& args) {
  if (DType(args.params[kRowsDtype]) == DType::kF64) return Backward<double>(args).run();
  Backward<float>(args).run();
}

constexpr const char* kGivenWords[] = {"none", "weight", "dweight", "weight_and_dweight"};
constexpr auto kParameters = row_parameters(kGivenWords, extent_parameter("block", 1));

constexpr RegionRole kDyRole = {.name = "dy", .access = kRead, .type = "dtype"},
                     kXRole = {.name = "x", .access = kRead, .type = "dtype"},
                     kRstdRole = {.name = "rstd", .access = kRead, .type = "accumulator(dtype)"},
                     kWeight = {.name = "weight", .access = kRead, .type = "weight_dtype"},
                     kDx = {.name = "dx", .access = kWrite, .type = "dtype"},
                     kSums = {.name = "sums", .access = kWrite, .type = "accumulator(dtype)"};
constexpr RegionRole kPlain[] = {kDyRole, kXRole, kRstdRole, kDx},
                     kWeighted[] = {kDyRole, kXRole, kRstdRole, kWeight, kDx},
                     kPlainSummed[] = {kDyRole, kXRole, kRstdRole, kDx, kSums},
                     kWeightedSummed[] = {kDyRole, kXRole, kRstdRole, kWeight, kDx, kSums};
constexpr Form kForms[] = {  // By RowsGiven.
    {kPlain, "dx[i, j] = rmsnorm_dx[j](dy[i, j], x[i, j], rstd[i])", kRowRanges},
    {kWeighted, "dx[i, j] = rmsnorm_dx[j](dy[i, j], x[i, j], rstd[i], weight[j])", kRowRanges},
    {kPlainSummed,
     "dx[i, j] = rmsnorm_dx[j](dy[i, j], x[i, j], rstd[i]); "
     "sums[i // block, j] = sum(i uncut) mul(dy[i, j], x[i, j], rstd[i])",
     kRowRanges},
    {kWeightedSummed,
     "dx[i, j] = rmsnorm_dx[j](dy[i, j], x[i, j], rstd[i], weight[j]); "
     "sums[i // block, j] = sum(i uncut) mul(dy[i, j], x[i, j], rstd[i])",
     kRowRanges}};

}  // namespace

constexpr TileOp kRmsnormBackward = {.id = TaskOp::kRmsnormBackward,
                                     .version = 2,
                                     .signature = {.name = "rmsnorm_backward",
                                                   .parameters = kParameters,
                                                   .forms = kForms,
                                                   .form_parameter = kRowsGiven,
                                                   .refuses = refuses_rows},
                                     .reference = run};
SK_SOUND(flaw_in(kRmsnormBackward));

}  // namespace sk::tiles
