// Blocks of one cluster: they lie on neighbouring multiprocessors and reach each other's shared
// memory (sm_90 and later).
//
// What a block writes for another is released by release_there() and acquired by try_in_cluster(),
// both of the cluster's scope; they wait for all earlier writes to memory, and drop the cached
// lines, so they are for once per task. arrive_there() and try_wait() cost as little as within a
// block.
#ifndef SK_CUDA_PTX_CLUSTER_CUH_
#define SK_CUDA_PTX_CLUSTER_CUH_

#include "cuda/ptx/bulk.cuh"

namespace sk::cuda::ptx {

// This block's place in its cluster, from 0.
SK_DEVICE uint32_t place_in_cluster() {
  uint32_t place;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(place));  // Always the same: read once.
  return place;
}

// All threads of all blocks of the cluster arrive, then wait for each other: what they did before
// comes before what they do after. A block whose shared memory others may still touch must not end.
SK_DEVICE void arrive_at_cluster() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
SK_DEVICE void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// What lies at `mine` in this block's shared memory, in that of the block at `place`.
struct There {
  uint32_t address;  // In the cluster's window.
};
SK_DEVICE There there(const void* mine, uint32_t place) {
  There found;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(found.address)
      : "r"(shared_address(mine)), "r"(place));
  return found;
}

// By one thread, at a barrier. Tells no writes to the other block, only that this thread has read
// what it wanted: products that were waited for read their operands no more.
SK_DEVICE void arrive_there(There barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier.address) : "memory");
}
// By one thread; releases to the cluster what it did before.
SK_DEVICE void release_there(There barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier.address)
               : "memory");
}
SK_DEVICE void store_there(There to, uint32_t value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to.address), "r"(value) : "memory");
}

// As try_wait(); acquires what threads of other blocks have released.
SK_DEVICE bool try_in_cluster(const MBarrier& barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
// Not bounded by a clock: who arrives is in this cluster, and bounded itself.
SK_DEVICE void wait_in_cluster(const MBarrier& barrier, uint32_t parity) {
  while (!try_in_cluster(barrier, parity)) {
  }
}

// As load_box(), into the same place of every block whose bit is in `places`; the bytes count for
// each one's own barrier, which lies where `barrier` does.
SK_DEVICE void load_box_there(std::byte* to, const TensorMap& map, uint32_t x, uint32_t y,
                              MBarrier& barrier, uint16_t places) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier)), "h"(places)
      : "memory");
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_CLUSTER_CUH_
