#include "lib/exec/cpu/tile_shared.h"

#include "lib/base/article.h"
#include "lib/exec/cpu/tile/gemm.h"

namespace sk::cpu {

Status check_count(const TileOp& tile, const char* what, uint64_t count, int most) {
  if (count <= uint64_t(most)) return {};
  return error(SK_ERR_UNSUPPORTED, "{} has {} {}, on this machine at most {} at once",
               with_article(tile.signature.name), count, what, most);
}

Status check_packed(const TileOp& tile, const Region& packed, DType dtype, int64_t k, int64_t n) {
  const GemmKernel* kernel = select_gemm(dtype);
  if (kernel == nullptr) {
    return error(SK_ERR_UNSUPPORTED, "no {} of {}", tile.signature.name, dtype_name(dtype));
  }
  const uint64_t least = packed_bytes(kernel, k, n);
  if (packed.rows == 1 && packed.row_bytes >= least) return {};
  return error(SK_ERR_UNSUPPORTED,
               "{} has {} bytes for a packed B of {} x {}, which takes {} with the {} kernels",
               with_article(tile.signature.name), packed.row_bytes, k, n, least,
               gemm_kernel_name(kernel));
}

}  // namespace sk::cpu
