// gemm: a tile of C = A * B, and by its epilogue what becomes of it (task.h, GemmParam); gemm_raw:
// the same of a B that nobody has packed.
#include <fmt/format.h>

#include "lib/plan/packed.h"
#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

// The tile's columns of B, in bytes.
struct Columns {
  const std::byte* first;
  uint64_t next, below;  // From column to column, and from element to element of one.
};
Columns packed_columns(const TileArgs& args) {
  const int64_t* p = args.params;
  const uint64_t element = dtype_bytes(DType(p[kGemmDtype]));
  const uint64_t pitch =
      packed_pitch(uint64_t(p[kGemmK]), uint64_t(p[kGemmN]), element, args.regions[1].row_bytes);
  return {args.pointers[1][0] + uint64_t(p[kGemmCol0]) * pitch, pitch, element};
}
Columns raw_columns(const TileArgs& args) {
  const int64_t* p = args.params;
  const uint64_t element = dtype_bytes(DType(p[kGemmDtype])), pitch = args.regions[1].pitch;
  const uint64_t next = p[kGemmRawTransposeB] ? pitch : element;
  return {args.pointers[1][0] + uint64_t(p[kGemmCol0]) * next, next,
          p[kGemmRawTransposeB] ? element : pitch};
}

// A partial tile of the reference: rows * cols accumulators, row after row.
template <typename Sum>
void gemm(const TileArgs& args, const Columns& b) {
  const int64_t* p = args.params;
  const DType dtype = DType(p[kGemmDtype]), out_dtype = DType(p[kGemmOutDtype]);
  const uint64_t element = dtype_bytes(dtype), k = uint64_t(p[kGemmK]);
  const uint64_t rows = uint64_t(p[kGemmRows]), cols = uint64_t(p[kGemmCols]);
  const Region& a = args.regions[0];
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < cols; ++column) {
      Sum product = Sum();
      for (uint64_t i = 0; i < k; ++i) {
        const uint64_t at =
            p[kGemmTransposeA] ? i * a.pitch + row * element : row * a.pitch + i * element;
        product += load<Sum>(dtype, args.pointers[0][0] + at) *
                   load<Sum>(dtype, b.first + column * b.next + i * b.below);
      }
      const uint64_t place = (row * cols + column) * sizeof(Sum);
      if (p[kGemmEpilogue] == kGemmPartial) {
        store_as(args.pointers[2][0] + place, product);
        continue;
      }
      Sum sum = product;
      if (p[kGemmEpilogue] == kGemmReduce) {
        for (uint32_t j = 0; j < args.regions[2].buffer_count; ++j) {
          const Sum value =
              int64_t(j) == p[kGemmSelf] ? product : load_as<Sum>(args.pointers[2][j] + place);
          sum = j == 0 ? value : sum + value;
        }
      }
      const uint32_t last = args.region_count - 1;
      const Region& c = args.regions[last];
      for (uint32_t j = 0; j < c.buffer_count; ++j) {
        store(out_dtype, args.pointers[last][j] + row * c.pitch + column * dtype_bytes(out_dtype),
              sum);
      }
    }
  }
}

template <Columns (*columns)(const TileArgs&)>
void run(const TileArgs& args) {
  if (DType(args.params[kGemmDtype]) == DType::kF64) return gemm<double>(args, columns(args));
  gemm<float>(args, columns(args));
}

constexpr const char* kEpilogueWords[] = {"store", "partial", "reduce"};
constexpr Parameter kParameters[] = {
    dtype_parameter("dtype"),
    dtype_parameter("out_dtype"),
    flag_parameter("transpose_a"),
    extent_parameter("m", 1),
    extent_parameter("n", 1),
    extent_parameter("k"),
    place_parameter("row0"),
    place_parameter("rows", 1),
    place_parameter("col0"),
    place_parameter("cols", 1),
    Parameter{"epilogue", ParamKind::kWord, ParamUse::kMeaning, kGemmStore, kGemmReduce,
              kEpilogueWords},
    Parameter{"self", ParamKind::kInteger, ParamUse::kPlace, 0, UINT16_MAX},
    kHintParameter,
    flag_parameter("transpose_b")};  // Of gemm_raw.
static_assert(std::size(kParameters) == kGemmRawParamCount);

constexpr RegionRole kA = {.name = "a",
                           .access = kRead,
                           .type = "dtype",
                           .turned_by = "transpose_a",
                           .from_first_row = true};
constexpr RegionRole kB = {.name = "b",
                           .access = kRead,
                           .type = "dtype",
                           .layout = &effect::layouts::kPackedB,
                           .whole = true};
constexpr RegionRole kRawB = {
    .name = "b", .access = kRead, .type = "dtype", .turned_by = "transpose_b", .whole = true};
constexpr RegionRole kC = {
    .name = "c", .access = kWrite, .many_buffers = true, .type = "out_dtype"};
constexpr RegionRole kPartial = {.name = "partial",
                                 .access = kWrite,
                                 .type = "accumulator(dtype)",
                                 .layout = &effect::layouts::kPartialTile};
constexpr RegionRole kPartials = {.name = "partials",
                                  .access = kRead,
                                  .many_buffers = true,
                                  .but_parameter = kGemmSelf,
                                  .type = "accumulator(dtype)",
                                  .layout = &effect::layouts::kPartialTile};
constexpr RegionRole kStored[] = {kA, kB, kC}, kKept[] = {kA, kB, kPartial},
                     kSummed[] = {kA, kB, kPartials, kC}, kRawStored[] = {kA, kRawB, kC},
                     kRawKept[] = {kA, kRawB, kPartial}, kRawSummed[] = {kA, kRawB, kPartials, kC};
constexpr effect::RangeRecord kRanges[] = {
    {"i", "row0", "rows", "m"}, {"j", "col0", "cols", "n"}, {"l", "0", "k", "k"}};
constexpr const char* kStores = "c[i, j] = sum(l uncut) mul(a[i, l], b[l, j])";
constexpr const char* kKeeps = "partial[i, j] = sum(l uncut) mul(a[i, l], b[l, j])";
constexpr const char* kSums =
    "partials@self[i, j] = sum(l uncut) mul(a[i, l], b[l, j]); c[i, j] = sum(e) partials@e[i, j]";
constexpr Form kForms[] = {  // By GemmEpilogue.
    {kStored, kStores, kRanges},
    {kKept, kKeeps, kRanges},
    {kSummed, kSums, kRanges}};
constexpr Form kRawForms[] = {
    {kRawStored, kStores, kRanges}, {kRawKept, kKeeps, kRanges}, {kRawSummed, kSums, kRanges}};

std::string refuses(std::span<const int64_t> p) {
  const DType dtype = DType(p[kGemmDtype]), out_dtype = DType(p[kGemmOutDtype]);
  const DType sum = dtype == DType::kF64 ? dtype : DType::kF32;
  if (is_float(dtype) && (out_dtype == dtype || out_dtype == DType::kF32 || out_dtype == sum)) {
    return "";
  }
  return fmt::format("no product of {} into {}", dtype_name(dtype), dtype_name(out_dtype));
}

}  // namespace

constexpr TileOp kGemm = {.id = TaskOp::kGemm,
                          .version = 1,
                          .signature = {.name = "gemm",
                                        .parameters = std::span(kParameters).first(kGemmParamCount),
                                        .forms = kForms,
                                        .form_parameter = kGemmEpilogue,
                                        .touches_peers = true,
                                        .refuses = refuses},
                          .reference = run<packed_columns>};
SK_SOUND(flaw_in(kGemm));

constexpr TileOp kGemmRaw = {.id = TaskOp::kGemmRaw,
                             .version = 1,
                             .signature = {.name = "gemm_raw",
                                           .parameters = kParameters,
                                           .forms = kRawForms,
                                           .form_parameter = kGemmEpilogue,
                                           .touches_peers = true,
                                           .refuses = refuses},
                             .reference = run<raw_columns>};
SK_SOUND(flaw_in(kGemmRaw));

}  // namespace sk::tiles
