#include "lib/plan/effects.h"

#include <fmt/format.h>

#include <iterator>

namespace sk {
namespace {

using effect::FormRecord;
using effect::RangeRecord;
using effect::RegionRecord;
using effect::Tile;
using effect::TileRecord;

// Bytes: of copies and of puts.
constexpr RegionRecord kMoveRegions[] = {{.name = "src"}, {.name = "dst", .written = true}};
constexpr FormRecord kMove[] = {{"dst[y, x] = src[y, x]", kMoveRegions}};
constexpr const char* kCopyNames[] = {"hint"};
static_assert(std::size(kCopyNames) == kCopyParamCount);

constexpr const char* kReduceNames[] = {"dtype", "out_dtype", "redop", "hint"};
static_assert(std::size(kReduceNames) == kReduceParamCount);
constexpr RegionRecord kReduceRegions[] = {{.name = "in", .type = "dtype", .repeats = true},
                                           {.name = "out", .type = "out_dtype", .written = true}};
constexpr FormRecord kReduce[] = {{"out[y, x] = redop(e) in@e[y, x]", kReduceRegions}};

// Into itself, or sums into what they end as.
constexpr bool stores(DType sum, DType out) {
  return sum == out || (sum == DType::kF32 && (out == DType::kBF16 || out == DType::kF16)) ||
         (sum == DType::kF64 && out == DType::kF32);
}

std::string reduce_refuses(std::span<const int64_t> p) {
  const DType dtype = DType(p[kReduceDtype]), out_dtype = DType(p[kReduceOutDtype]);
  const RedOp redop = RedOp(p[kReduceOp]);
  if (stores(dtype, out_dtype) && (redop != RedOp::kAvg || is_float(dtype))) return "";
  return fmt::format("no {} of {} into {}", redop_name(redop), dtype_name(dtype),
                     dtype_name(out_dtype));
}

constexpr const char* kPackNames[] = {"dtype", "transpose_b", "k", "n", "col0", "col1"};
static_assert(std::size(kPackNames) == kPackParamCount);
constexpr RegionRecord kPackRegions[] = {
    {.name = "b", .type = "dtype", .turned_by = "transpose_b", .whole = true},
    {.name = "packed", .type = "dtype", .layout = &effect::layouts::kPackedB, .written = true}};
constexpr RangeRecord kPackRanges[] = {{"l", "0", "k", "k"}, {"j", "col0", "col1 - col0", "n"}};
constexpr FormRecord kPack[] = {{"packed[l, j] = b[l, j]", kPackRegions, kPackRanges}};

constexpr const char* kGemmNames[] = {"dtype",    "out_dtype", "transpose_a", "m",    "n",
                                      "k",        "row0",      "rows",        "col0", "cols",
                                      "epilogue", "self",      "hint"};
static_assert(std::size(kGemmNames) == kGemmParamCount);
constexpr RangeRecord kGemmRanges[] = {
    {"i", "row0", "rows", "m"}, {"j", "col0", "cols", "n"}, {"l", "0", "k", "k"}};
constexpr RegionRecord kA = {
    .name = "a", .type = "dtype", .turned_by = "transpose_a", .from_first_row = true};
constexpr RegionRecord kB = {
    .name = "b", .type = "dtype", .layout = &effect::layouts::kPackedB, .whole = true};
constexpr RegionRecord kC = {.name = "c", .type = "out_dtype", .written = true};
constexpr RegionRecord kStoreRegions[] = {kA, kB, kC};
constexpr RegionRecord kPartialRegions[] = {kA,
                                            kB,
                                            {.name = "partial",
                                             .type = "accumulator(dtype)",
                                             .layout = &effect::layouts::kPartialTile,
                                             .written = true}};
constexpr RegionRecord kJoinRegions[] = {kA,
                                         kB,
                                         {.name = "partials",
                                          .type = "accumulator(dtype)",
                                          .layout = &effect::layouts::kPartialTile,
                                          .repeats = true},
                                         kC};
constexpr FormRecord kGemm[] = {
    {"c[i, j] = sum(l uncut) mul(a[i, l], b[l, j])", kStoreRegions, kGemmRanges},
    {"partial[i, j] = sum(l uncut) mul(a[i, l], b[l, j])", kPartialRegions, kGemmRanges},
    {"partials@self[i, j] = sum(l uncut) mul(a[i, l], b[l, j]); "
     "c[i, j] = sum(e) partials@e[i, j]",
     kJoinRegions, kGemmRanges}};
static_assert(kGemmStore == 0 && kGemmPartial == 1 && kGemmReduce == 2);

std::string gemm_refuses(std::span<const int64_t> p) {
  const DType dtype = DType(p[kGemmDtype]), out_dtype = DType(p[kGemmOutDtype]);
  const DType sum = dtype == DType::kF64 ? dtype : DType::kF32;
  if (is_float(dtype) && (out_dtype == dtype || out_dtype == DType::kF32 || out_dtype == sum)) {
    return "";
  }
  return fmt::format("no product of {} into {}", dtype_name(dtype), dtype_name(out_dtype));
}

constexpr TileRecord kPutRecord = {.parameters = {}, .forms = kMove};
constexpr TileRecord kCopyRecord = {.parameters = kCopyNames, .forms = kMove};
constexpr TileRecord kReduceRecord = {
    .parameters = kReduceNames, .forms = kReduce, .refuses = reduce_refuses};
constexpr TileRecord kPackRecord = {.parameters = kPackNames, .forms = kPack};
constexpr TileRecord kGemmRecord = {
    .parameters = kGemmNames, .forms = kGemm, .form_by = "epilogue", .refuses = gemm_refuses};

}  // namespace

const effect::Tile* effect_of(TaskOp op) {
  static const Tile kPut(kPutRecord), kCopy(kCopyRecord), kReduceTile(kReduceRecord),
      kPackTile(kPackRecord), kGemmTile(kGemmRecord);
  static const Tile* const kTiles[kTaskOpCount] = {nullptr, nullptr,      nullptr,    &kPut,
                                                   &kCopy,  &kReduceTile, &kPackTile, &kGemmTile};
  return uint32_t(op) < kTaskOpCount ? kTiles[uint32_t(op)] : nullptr;
}

}  // namespace sk
