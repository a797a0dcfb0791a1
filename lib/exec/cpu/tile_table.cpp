#include "lib/exec/cpu/tile_table.h"

#include <algorithm>
#include <array>

#include "lib/exec/cpu/tile/copy.h"
#include "lib/exec/cpu/tile/gemm.h"
#include "lib/exec/cpu/tile/hand_over.h"
#include "lib/exec/cpu/tile/reduce.h"
#include "lib/op/dtype.h"
#include "lib/op/tile_layout.h"
#include "lib/plan/task_info.h"

namespace sk::cpu {
namespace {

constexpr int kPointersMax = 1024;  // Buffers of one region: the ranks of one host.

static_assert(kGemmPanelColumns == kPartialTileColumns);

StoreHint hint(int64_t param) {
  return param == kStoreNonTemporal ? StoreHint::kNonTemporal : StoreHint::kNormal;
}

// Asks for the lines as if to write them, a block ahead of the tile that reads them. A prefetch is
// a hint: lines that may not be written are left alone.
void take(const std::byte* data, uint64_t bytes) {
#if defined(__x86_64__)
  for (uint64_t i = 0; i < bytes; i += 64) asm volatile("prefetchw %0" ::"m"(data[i]));
#else
  for (uint64_t i = 0; i < bytes; i += 64) __builtin_prefetch(data + i, 1, 3);
#endif
}

void* const* writable(std::byte* const* pointers) {
  return reinterpret_cast<void* const*>(pointers);
}
const void* const* readable(std::byte* const* pointers) {
  return reinterpret_cast<const void* const*>(pointers);
}

[[gnu::noinline]] void copy_rows(const TileArgs& args, StoreHint store) {
  const Region &src = args.regions[0], &dst = args.regions[1];
  std::array<int64_t, kPointersMax> pitch;
  std::fill_n(pitch.begin(), dst.buffer_count, int64_t(dst.pitch));
  copy_2d(writable(args.pointers[1]), pitch.data(), int(dst.buffer_count), args.pointers[0][0],
          int64_t(src.pitch), src.rows, src.row_bytes, store);
}

void run_copy(const TileArgs& args) {
  const Region &src = args.regions[0], &dst = args.regions[1];
  const StoreHint store = hint(args.params[kCopyHint]);
  const int count = int(dst.buffer_count);
  if (args.params[kCopyHint] == kTakeInputs) take(args.pointers[0][0], src.row_bytes);
  if (src.rows == 1) {
    if (args.params[kCopyHint] == kHandOver && count == 1) {
      return copy_handed_over(args.pointers[1][0], args.pointers[0][0], src.row_bytes);
    }
    return copy(writable(args.pointers[1]), count, args.pointers[0][0], src.row_bytes, store);
  }
  copy_rows(args, store);
}

// Rows, or another type out. Apart from run_reduce(), whose frame must not hold these arrays.
[[gnu::noinline]] void reduce_rows(const TileArgs& args, uint32_t in_count) {
  const uint32_t inputs = args.region_count - 1;
  const Region& out = args.regions[inputs];
  std::array<int64_t, kPointersMax> in_pitch, out_pitch;
  uint32_t next = 0;
  for (uint32_t i = 0; i < inputs; ++i) {
    for (uint32_t j = 0; j < args.regions[i].buffer_count; ++j) {
      in_pitch[next++] = int64_t(args.regions[i].pitch);
    }
  }
  std::fill_n(out_pitch.begin(), out.buffer_count, int64_t(out.pitch));
  const DType out_dtype = DType(args.params[kReduceOutDtype]);
  reduce_strided({.in_dtype = DType(args.params[kReduceDtype]),
                  .out_dtype = out_dtype,
                  .op = RedOp(args.params[kReduceOp]),
                  .in = readable(args.pointers[0]),
                  .in_pitch = in_pitch.data(),
                  .in_count = int(in_count),
                  .out = writable(args.pointers[inputs]),
                  .out_pitch = out_pitch.data(),
                  .out_count = int(out.buffer_count),
                  .rows = out.rows,
                  .row_elements = out.row_bytes / dtype_bytes(out_dtype),
                  .hint = hint(args.params[kReduceHint])});
}

// The pointers of all input regions lie one after the other, in rank order; the last region is out.
void run_reduce(const TileArgs& args) {
  const uint32_t inputs = args.region_count - 1;
  const Region& out = args.regions[inputs];
  uint32_t in_count = 0;
  for (uint32_t i = 0; i < inputs; ++i) in_count += args.regions[i].buffer_count;
  if (args.params[kReduceHint] == kTakeInputs) {
    for (uint32_t i = 0; i < in_count; ++i) take(args.pointers[0][i], out.row_bytes);
  }
  const DType dtype = DType(args.params[kReduceDtype]);
  if (out.rows != 1 || DType(args.params[kReduceOutDtype]) != dtype) {
    return reduce_rows(args, in_count);
  }
  reduce(dtype, RedOp(args.params[kReduceOp]), readable(args.pointers[0]), int(in_count),
         writable(args.pointers[inputs]), int(out.buffer_count), out.row_bytes / dtype_bytes(dtype),
         hint(args.params[kReduceHint]));
}

void run_pack_b(const TileArgs& args) {
  const int64_t* p = args.params;
  const DType dtype = DType(p[kPackDtype]);
  pack_b(select_gemm(dtype), args.pointers[0][0],
         int64_t(args.regions[0].pitch / dtype_bytes(dtype)), p[kPackTransposeB] != 0, p[kPackK],
         p[kPackN], args.pointers[1][0], p[kPackCol0], p[kPackCol1]);
}

void run_gemm(const TileArgs& args) {
  const int64_t* p = args.params;
  const DType dtype = DType(p[kGemmDtype]);
  const int64_t element = int64_t(dtype_bytes(dtype));
  GemmTileArgs tile;
  tile.lda = int64_t(args.regions[0].pitch) / element;
  tile.transpose_a = p[kGemmTransposeA] != 0;
  // The region starts at the tile's rows (columns where transposed); the kernel counts from (0, 0).
  tile.a = args.pointers[0][0] - p[kGemmRow0] * element * (tile.transpose_a ? 1 : tile.lda);
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
  tile.hint = p[kGemmHint] == kHandOver ? StoreHint::kNonTemporal : hint(p[kGemmHint]);
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

Status check_count(const RankPlan& part, TaskOp op, const char* what, uint64_t count, int most) {
  if (count <= uint64_t(most)) return {};
  return error(SK_ERR_UNSUPPORTED, "rank {}: a {} has {} {}, on this machine at most {} at once",
               part.rank, task_op_name(op), count, what, most);
}

Status check_reduce(const RankPlan& part, const Task& task) {
  const std::span<const Region> regions = part.regions_of(task);
  const std::span<const int64_t> params = part.params_of(task);
  const Region& out = regions.back();
  if (out.rows <= 1 && params[kReduceDtype] == params[kReduceOutDtype]) return {};
  uint64_t inputs = 0;
  for (const Region& in : regions.first(regions.size() - 1)) inputs += in.buffer_count;
  const int most = out.rows > 1 ? kReduceStridedPointersMax : kPointersMax;
  SK_RETURN_IF_ERROR(check_count(part, task.op, "inputs in rows", inputs, most));
  return check_count(part, task.op, "outputs in rows", out.buffer_count, most);
}

// B's layout is one whole: its columns lie apart in chunks of k.
Status check_packed(const RankPlan& part, TaskOp op, const Region& packed, DType dtype, int64_t k,
                    int64_t n) {
  const GemmKernel* kernel = select_gemm(dtype);
  if (kernel == nullptr) {
    return error(SK_ERR_UNSUPPORTED, "rank {}: no {} of {}", part.rank, task_op_name(op),
                 dtype_name(dtype));
  }
  const uint64_t least = packed_bytes(kernel, k, n);
  if (packed.rows == 1 && packed.row_bytes >= least) return {};
  return error(SK_ERR_UNSUPPORTED,
               "rank {}: a {} has {} bytes for a packed B of {} x {}, which takes {} with the {} "
               "kernels",
               part.rank, task_op_name(op), packed.row_bytes, k, n, least,
               gemm_kernel_name(kernel));
}

Status check_pack(const RankPlan& part, const Task& task) {
  const std::span<const int64_t> p = part.params_of(task);
  if (p[kPackCol0] != 0 || p[kPackCol1] != p[kPackN]) {
    return error(SK_ERR_UNSUPPORTED,
                 "rank {}: columns {} to {} of {} are packed by themselves, on this machine B is "
                 "packed whole",
                 part.rank, p[kPackCol0], p[kPackCol1], p[kPackN]);
  }
  return check_packed(part, task.op, part.regions_of(task)[1], DType(p[kPackDtype]), p[kPackK],
                      p[kPackN]);
}

Status check_gemm(const RankPlan& part, const Task& task) {
  const std::span<const int64_t> p = part.params_of(task);
  const std::span<const Region> regions = part.regions_of(task);
  const DType dtype = DType(p[kGemmDtype]);
  SK_RETURN_IF_ERROR(check_packed(part, task.op, regions[1], dtype, p[kGemmK], p[kGemmN]));
  const int64_t unit = gemm_column_unit(select_gemm(dtype));
  if (p[kGemmCol0] % unit != 0) {
    return error(SK_ERR_UNSUPPORTED,
                 "rank {}: a tile begins at column {}, on this machine at multiples of {}",
                 part.rank, p[kGemmCol0], unit);
  }
  if (p[kGemmEpilogue] != kGemmReduce) return {};
  return check_count(part, task.op, "partial tiles", regions[2].buffer_count, kPointersMax);
}

}  // namespace

Status check_tile(const RankPlan& part, const Task& task) {
  switch (task.op) {
    case TaskOp::kNop:
    case TaskOp::kEnter:
    case TaskOp::kAwait:
    case TaskOp::kPut:
      return {};
    case TaskOp::kCopy: {
      const Region& dst = part.regions_of(task)[1];
      if (dst.rows == 1) return {};
      return check_count(part, task.op, "outputs in rows", dst.buffer_count, kPointersMax);
    }
    case TaskOp::kReduce:
      return check_reduce(part, task);
    case TaskOp::kPackB:
      return check_pack(part, task);
    case TaskOp::kGemm:
      return check_gemm(part, task);
  }
  return error(SK_ERR_UNSUPPORTED, "rank {}: no kernel for operation {}", part.rank, int(task.op));
}

TileFn tile_function(TaskOp op) {
  switch (op) {
    case TaskOp::kNop:
    case TaskOp::kEnter:
    case TaskOp::kAwait:
    case TaskOp::kPut:
      return nullptr;
    case TaskOp::kCopy:
      return run_copy;
    case TaskOp::kReduce:
      return run_reduce;
    case TaskOp::kPackB:
      return run_pack_b;
    case TaskOp::kGemm:
      return run_gemm;
  }
  return nullptr;
}

}  // namespace sk::cpu
