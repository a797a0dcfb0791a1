// How operations are cut for a GPU: vectors into shares, products into tiles, wide or narrow ones,
// by single blocks or by pairs.
#ifndef SK_CUDA_EXEC_CUT_H_
#define SK_CUDA_EXEC_CUT_H_

#include "cuda/exec/device.h"
#include "lib/algo/planner.h"
#include "lib/comm/gemm_tiles.h"
#include "lib/plan/plan.h"

namespace sk::cuda {

// Whether pairs of blocks may be used at all, as SK_GPU_PAIRS has it.
Result<bool> pairs_wanted();

// Shares of copies and reductions: what keeps a block's loads under way.
void cut_moves(Target& target);

// Tiles and workers of `target` for that product; `pairs`: as pairs_wanted() says.
void cut_product(const Device& device, const Product& product, bool pairs, Target& target);

// Rows of tiles in a band (TileOrder): what asks memory for least of A and B by so many workers of
// one rank, as a power of two; no more than 8, for a band's rows of A are to stay in the cache.
uint32_t band_rows_of(const Target& target);

// Whether the plan's target was cut for pairs of blocks.
bool is_cut_for_pairs(const Plan& plan);

// Bytes between rows of a packed B, as packed_pitch() has it where there is room.
uint64_t packed_pitch_of(DType dtype, int64_t k);

}  // namespace sk::cuda

#endif  // SK_CUDA_EXEC_CUT_H_
