// cuda/ptx/cluster.cuh on the CPU: what goes to another block is done late, by the engine.
#ifndef SK_CUDA_PTX_CLUSTER_CUH_
#define SK_CUDA_PTX_CLUSTER_CUH_

#include "cuda/ptx/bulk.cuh"

namespace sk::cuda::ptx {

inline uint32_t place_in_cluster() { return devhost::this_warp().block->place; }

// What this warp has told others is there before it arrives.
inline void arrive_at_cluster() {
  if (devhost::planted.no_last_meeting) return;
  devhost::wait_groups(devhost::this_warp().told, 0);
}
inline void wait_for_cluster() {
  devhost::Warp& warp = devhost::this_warp();
  if (warp.meetings++ > 0 && devhost::planted.no_last_meeting) return;
  devhost::Cluster& cluster = *warp.block->cluster;
  cluster.barrier.meet(warp.block->warps * uint32_t(cluster.blocks.size()));
}

struct There {
  devhost::Block* block;
  std::byte* at;
};
inline There there(const void* mine, uint32_t place) {
  const devhost::Block& own = *devhost::this_warp().block;
  devhost::Block* block = own.cluster->blocks[place];
  return {block, block->shared + (static_cast<const std::byte*>(mine) - own.shared)};
}

// `ordered`: after what this warp did before.
inline void arrive_late(There barrier, bool ordered) {
  devhost::Warp& warp = devhost::this_warp();
  devhost::Engine& engine = devhost::Engine::get();
  if (loses_arrival()) return;
  const bool dropped = devhost::planted.own_arrivals_only && barrier.block != warp.block;
  const auto work = [barrier, dropped] {
    barrier.block->must_be_there("an arrival");
    MBarrier& there = *reinterpret_cast<MBarrier*>(barrier.at);
    if (!dropped || there.count == 1) change(there, -1);
  };
  warp.told.push_back(ordered ? engine.begin(work) : engine.begin_in_async_proxy(work));
}
inline void arrive_there(There barrier) { arrive_late(barrier, false); }
inline void release_there(There barrier) { arrive_late(barrier, true); }
inline void store_there(There to, uint32_t value) {
  to.block->must_be_there("a store");
  std::memcpy(to.at, &value, sizeof value);
}

inline bool try_in_cluster(const MBarrier& barrier, uint32_t parity) {
  return try_wait(barrier, parity);
}
inline void wait_in_cluster(const MBarrier& barrier, uint32_t parity) {
  // The first block waits for one arrival only where the other's share is done. It posts before
  // that then, and waits behind the posts: a block that never waited would be told so far ahead
  // that the other took two phases for none, and hung.
  const bool share = place_in_cluster() == 0 && barrier.count == 1;
  if (share && devhost::planted.own_share_only) {
    put_off = {&barrier, parity};
  } else {
    wait(barrier, parity);
  }
}

// To each block by itself, in any order.
inline void load_box_there(std::byte* to, const TensorMap& map, uint32_t x, uint32_t y,
                           MBarrier& barrier, uint16_t places) {
  HostMap host;
  std::memcpy(&host, &map, sizeof host);
  const auto blocks = uint32_t(devhost::this_warp().block->cluster->blocks.size());
  for (uint32_t place = 0; place < blocks; ++place) {
    if ((places >> place & 1) == 0) continue;
    const There box = there(to, place), bytes = there(&barrier, place);
    devhost::Engine::get().begin_in_async_proxy([=] {
      box.block->must_be_there("a box");
      copy_box(box.at, host, x, y);
      complete_bytes(*reinterpret_cast<MBarrier*>(bytes.at),
                     uint32_t(host.box_rows * host.box_columns * 2));
    });
  }
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_CLUSTER_CUH_
