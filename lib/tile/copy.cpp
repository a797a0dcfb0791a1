// copy: src (one buffer) to dst (one or several).
#include <cstring>

#include "lib/tile/all.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk::tiles {
namespace {

void run(const TileArgs& args) {
  const Region &src = args.regions[0], &dst = args.regions[1];
  for (uint32_t j = 0; j < dst.buffer_count; ++j) {
    for (uint64_t row = 0; row < src.rows; ++row) {
      std::memcpy(args.pointers[1][j] + row * dst.pitch, args.pointers[0][0] + row * src.pitch,
                  src.row_bytes);
    }
  }
}

constexpr Parameter kParameters[] = {kHintParameter};
static_assert(std::size(kParameters) == kCopyParamCount);

constexpr RegionRole kRegions[] = {{"src", kRead}, {"dst", kWrite, /*many_buffers=*/true}};
constexpr Form kForms[] = {{kRegions, "dst[y, x] = src[y, x]"}};

}  // namespace

constexpr TileOp kCopy = {.id = TaskOp::kCopy,
                          .version = 1,
                          .signature = {.name = "copy",
                                        .parameters = kParameters,
                                        .forms = kForms,
                                        .touches_peers = true},
                          .reference = run};
SK_SOUND(flaw_in(kCopy));

}  // namespace sk::tiles
