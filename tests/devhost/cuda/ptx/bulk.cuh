// cuda/ptx/bulk.cuh on the CPU: the copy engine is the machine's, and another proxy.
#ifndef SK_CUDA_PTX_BULK_CUH_
#define SK_CUDA_PTX_BULK_CUH_

#include <cstring>
#include <map>
#include <thread>

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
inline void fence_async_proxy_of_block() { fence_async_proxy(); }
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

inline void store_row(std::byte* to, const std::byte* from, uint32_t bytes) {
  devhost::this_warp().rows.push_back({to, from, bytes, bytes});
}
// Rows that the engine has read and not yet written; its alone.
inline std::map<uint64_t, std::vector<std::byte>> held_rows;

// With planted.own_share_only the second block of a pair stores when the first has posted, and then
// some others' turns later: whether the bug shows is not for the scheduler to say.
inline void let_posts_go_ahead(const devhost::Warp& warp) {
  constexpr int kTurns = 200;
  if (!devhost::planted.own_share_only || warp.block->place == 0) return;
  while (warp.block->cluster->early_posts.load(std::memory_order_relaxed) <= warp.told.size())
    std::this_thread::yield();
  for (int turn = 0; turn < kTurns; ++turn) std::this_thread::yield();
}

// Reads first and writes later, both late.
inline void commit_stores() {
  static std::atomic<uint64_t> count{0};
  devhost::Engine& engine = devhost::Engine::get();
  devhost::Warp& warp = devhost::this_warp();
  let_posts_go_ahead(warp);
  const uint64_t number = count.fetch_add(1, std::memory_order_relaxed);
  const uint64_t chain = number * 2 + 1;  // No warp's address.
  warp.store_reads.push_back(engine.begin_in_async_proxy(
      [number, rows = warp.rows] {
        std::vector<std::byte>& held = held_rows[number];
        for (const devhost::Copy& row : rows)
          held.insert(held.end(), row.from, row.from + row.bytes);
      },
      chain));
  warp.store_writes.push_back(engine.begin_in_async_proxy(
      [number, rows = warp.rows] {
        const std::byte* from = held_rows[number].data();
        for (const devhost::Copy& row : rows) {
          std::memcpy(row.to, from, row.bytes);
          from += row.bytes;
        }
        held_rows.erase(number);
      },
      chain));
  warp.rows.clear();
}
inline void wait_stores_read() { devhost::wait_groups(devhost::this_warp().store_reads, 0); }
inline void wait_stores() {
  if (!devhost::planted.early_post) devhost::wait_groups(devhost::this_warp().store_writes, 0);
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_BULK_CUH_
