// pack_b: columns of B, each a run of k elements, as products read them.
#include "lib/plan/packed.h"
#include "lib/tile/all.h"
#include "lib/tile/element.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

// The reference's packed B: column after column (packed.h); a task has some of them.
void run(const TileArgs& args) {
  const uint64_t element = dtype_bytes(DType(args.params[kPackDtype]));
  const uint64_t k = uint64_t(args.params[kPackK]), from_pitch = args.regions[0].pitch;
  const uint64_t first = uint64_t(args.params[kPackCol0]);
  const uint64_t columns = uint64_t(args.params[kPackCol1]) - first;
  const uint64_t pitch = packed_pitch(k, columns, element, args.regions[1].row_bytes);
  for (uint64_t column = 0; column < columns; ++column) {
    for (uint64_t i = 0; i < k; ++i) {
      const uint64_t at = args.params[kPackTransposeB]
                              ? (first + column) * from_pitch + i * element
                              : i * from_pitch + (first + column) * element;
      std::memcpy(args.pointers[1][0] + column * pitch + i * element, args.pointers[0][0] + at,
                  element);
    }
  }
}

constexpr Parameter kParameters[] = {dtype_parameter("dtype"), flag_parameter("transpose_b"),
                                     extent_parameter("k"),    extent_parameter("n", 1),
                                     place_parameter("col0"),  place_parameter("col1", 1)};
static_assert(std::size(kParameters) == kPackParamCount);

constexpr RegionRole kRegions[] = {
    {.name = "b", .access = kRead, .type = "dtype", .turned_by = "transpose_b", .whole = true},
    {.name = "packed", .access = kWrite, .type = "dtype", .layout = &effect::layouts::kPackedB}};
constexpr effect::RangeRecord kRanges[] = {{"l", "0", "k", "k"}, {"j", "col0", "col1 - col0", "n"}};
constexpr Form kForms[] = {{kRegions, "packed[l, j] = b[l, j]", kRanges}};

}  // namespace

constexpr TileOp kPackB = {
    .id = TaskOp::kPackB,
    .version = 1,
    .signature = {.name = "pack_b", .parameters = kParameters, .forms = kForms},
    .reference = run};
SK_SOUND(flaw_in(kPackB));

}  // namespace sk::tiles
