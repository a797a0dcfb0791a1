// cuda/ptx/bulk.cuh on the CPU: the copy engine is the machine's, and another proxy.
#ifndef SK_CUDA_PTX_BULK_CUH_
#define SK_CUDA_PTX_BULK_CUH_

#include <cstring>

#include "cuda/kernel/image.h"
#include "cuda/ptx/mbarrier.cuh"
#include "tests/devhost/planted.h"

namespace sk::cuda::ptx {

// What a TensorMap holds on this machine.
struct HostMap {
  const std::byte* data;
  uint64_t rows, columns;  // Elements of 2 bytes along a row.
  uint64_t pitch;          // Bytes.
  uint64_t box_rows, box_columns;
};
static_assert(sizeof(HostMap) <= sizeof(TensorMap));

inline void fence_async_proxy() {
  if (!devhost::planted.no_proxy_fence) devhost::Engine::get().fence_async_proxy();
}
inline void fence_barrier_init() {}

inline void arrive_expecting(MBarrier& barrier, uint32_t bytes) {
  if (devhost::planted.own_bytes_only) bytes -= bytes / 3;  // 16 KB of A, and twice 16 KB of B.
  expect_bytes(barrier, bytes);
  arrive(barrier);
}

inline void copy_box(std::byte* to, const HostMap& map, uint32_t x, uint32_t y) {
  for (uint32_t row = 0; row < map.box_rows; ++row) {
    for (uint32_t column = 0; column < map.box_columns; ++column) {
      const uint32_t unit = column / 8 ^ row % 8;
      std::byte* element = to + row * 128 + unit * 16 + column % 8 * 2;
      if (y + row < map.rows && x + column < map.columns)
        std::memcpy(element, map.data + (y + row) * map.pitch + uint64_t(x + column) * 2, 2);
      else
        std::memset(element, 0, 2);
    }
  }
}

inline void load_box(std::byte* to, const TensorMap& map, uint32_t x, uint32_t y,
                     MBarrier& barrier) {
  HostMap host;
  std::memcpy(&host, &map, sizeof host);
  devhost::Engine::get().begin_in_async_proxy([=, &barrier] {
    copy_box(to, host, x, y);
    complete_bytes(barrier, uint32_t(host.box_rows * host.box_columns * 2));
  });
}
inline void prefetch_map(const TensorMap&) {}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_BULK_CUH_
