#include <algorithm>
#include <array>

#include "lib/exec/cpu/tile/gemm.h"
#include "lib/exec/cpu/tile_shared.h"
#include "lib/exec/cpu/tile_table.h"
#include "lib/op/tile_layout.h"

namespace sk::cpu {
namespace {

static_assert(kGemmPanelColumns == kPartialTileColumns);

void run(const TileArgs& args) {
  const int64_t* p = args.params;
  const DType dtype = DType(p[kGemmDtype]);
  const int64_t element = int64_t(dtype_bytes(dtype));
  GemmTileArgs tile;
  tile.lda = int64_t(args.regions[0].pitch) / element;
  tile.transpose_a = p[kGemmTransposeA] != 0;
  // The region starts at the tile's rows (columns where transposed); the kernel counts from (0, 0).
  // Where K is 0 nothing of it is read, and its pitch is anything.
  const std::byte* a = args.pointers[0][0];
  if (p[kGemmK] > 0) a -= p[kGemmRow0] * element * (tile.transpose_a ? 1 : tile.lda);
  tile.a = a;
  tile.packed_b = args.pointers[1][0];
  tile.m = p[kGemmM];
  tile.n = p[kGemmN];
  tile.k = p[kGemmK];
  tile.row0 = p[kGemmRow0];
  tile.rows = p[kGemmRows];
  tile.col0 = p[kGemmCol0];
  tile.cols = p[kGemmCols];
  tile.c_dtype = DType(p[kGemmOutDtype]);
  // Lines that another rank reads next and the product does not need again: past the caches, which
  // a tile's stores are few enough to hide behind its products.
  tile.hint = p[kGemmHint] == kHandOver ? StoreHint::kNonTemporal : store_hint(p[kGemmHint]);
  std::array<const void*, kPointersMax> partials;
  if (p[kGemmEpilogue] == kGemmPartial) {
    tile.epilogue = GemmTileArgs::Epilogue::kPartial;
    tile.partial = args.pointers[2][0];
  } else {
    const uint32_t out = args.region_count - 1;
    tile.epilogue = p[kGemmEpilogue] == kGemmReduce ? GemmTileArgs::Epilogue::kReduce
                                                    : GemmTileArgs::Epilogue::kStore;
    tile.c = writable(args.pointers[out]);
    tile.c_count = int(args.regions[out].buffer_count);
    tile.ldc = int64_t(args.regions[out].pitch / dtype_bytes(tile.c_dtype));
    if (p[kGemmEpilogue] == kGemmReduce) {
      tile.partial_count = int(args.regions[2].buffer_count);
      tile.self = int(p[kGemmSelf]);
      std::copy_n(args.pointers[2], tile.partial_count, partials.begin());
      partials[size_t(tile.self)] = nullptr;
      tile.partials = partials.data();
    }
  }
  gemm_tile(select_gemm(dtype), tile);
}

Status check(const TileShape& shape) {
  const TileOp& record = tiles::kGemm;
  const std::span<const int64_t> p = shape.params;
  const DType dtype = DType(p[kGemmDtype]);
  SK_RETURN_IF_ERROR(check_packed(record, shape.regions[1], dtype, p[kGemmK], p[kGemmN]));
  const int64_t unit = gemm_column_unit(select_gemm(dtype));
  if (p[kGemmCol0] % unit != 0) {
    return error(SK_ERR_UNSUPPORTED,
                 "a tile begins at column {}, on this machine at multiples of {}", p[kGemmCol0],
                 unit);
  }
  if (p[kGemmEpilogue] != kGemmReduce) return {};
  return check_count(record, "partial tiles", shape.regions[2].buffer_count, kPointersMax);
}

TileFn choose(const TileShape& shape, CpuIsa isa) {
  return select_gemm(DType(shape.params[kGemmDtype]), isa) == nullptr ? nullptr : run;
}

uint64_t flops(const TileShape& shape) {
  const std::span<const int64_t> p = shape.params;
  return 2 * uint64_t(p[kGemmRows]) * uint64_t(p[kGemmCols]) * uint64_t(p[kGemmK]);
}

}  // namespace

constexpr CpuTile cpu_tiles::kGemm = {
    .check = check, .choose = choose, .reserve = gemm_reserve_scratch, .flops = flops};

// Kernels here want B in their own order, so plans for CPUs pack it.
constexpr CpuTile cpu_tiles::kGemmRaw = {
    .choose = [](const TileShape&, CpuIsa) -> TileFn { return nullptr; }};

}  // namespace sk::cpu
