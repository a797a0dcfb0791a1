// sum_rows: columns, each summed over all rows, from the first on. A sum that has grown loses
// digits of what is added, so that 128 rows make a sum, 128 of those another one, and so on.
#include <fmt/format.h>

#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

constexpr uint64_t kSummed = 128;
constexpr size_t kLevels = 5;

template <typename Sum>
class Sums {
 public:
  void add(Sum value, size_t level = 0) {
    if (count_[level] == kSummed && level + 1 < kLevels) {
      add(sum_[level], level + 1);
      count_[level] = 0;
    }
    sum_[level] = count_[level]++ == 0 ? value : sum_[level] + value;
  }
  Sum all() const {
    size_t level = kLevels;
    while (level > 0 && count_[level - 1] == 0) --level;
    if (level == 0) return 0;
    Sum sum = sum_[--level];
    while (level > 0) {
      if (count_[--level] > 0) sum += sum_[level];
    }
    return sum;
  }

 private:
  uint64_t count_[kLevels] = {};
  Sum sum_[kLevels] = {};
};

template <typename Sum>
void sum(const TileArgs& args) {
  const DType dtype = DType(args.params[kSumRowsDtype]);
  const DType out_dtype = DType(args.params[kSumRowsOutDtype]);
  for (uint64_t j = 0; j < uint64_t(args.params[kSumRowsCols]); ++j) {
    Sums<Sum> sums;
    for (uint64_t i = 0; i < uint64_t(args.params[kSumRowsM]); ++i) {
      sums.add(load<Sum>(dtype,
                         args.pointers[0][0] + i * args.regions[0].pitch + j * dtype_bytes(dtype)));
    }
    store(out_dtype, args.pointers[1][0] + j * dtype_bytes(out_dtype), sums.all());
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
                             .version = 2,
                             .signature = {.name = "sum_rows",
                                           .parameters = kParameters,
                                           .forms = kForms,
                                           .refuses = refuses},
                             .reference = run};
SK_SOUND(flaw_in(kSumRows));

}  // namespace sk::tiles
