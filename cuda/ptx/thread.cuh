// Where this thread is: block, warp, lanes, shared memory, and the barriers among its warps.
//
// cuda/ptx is all that device code knows of the hardware; tests/devhost has a second set of these
// headers, in which a warp is one host thread. So nothing above this folder may ask for "my lane":
// it walks kLanesHere lanes, which is one on a GPU and all 32 of a warp on a host.
#ifndef SK_CUDA_PTX_THREAD_CUH_
#define SK_CUDA_PTX_THREAD_CUH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#define SK_DEVICE __device__ __forceinline__
#define SK_DEVICE_GLOBAL static __device__
// The kernel `name`, whose blocks have `threads` threads, one of them on each multiprocessor.
#define SK_KERNEL(name, threads, Args) \
  extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ Args args)
namespace sk::cuda::ptx {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kLanesHere =
    1;  // Of a warp, those that one call of this code stands for.

SK_DEVICE uint32_t blocks() { return gridDim.x; }
SK_DEVICE uint32_t block() { return blockIdx.x; }
// All lanes must come: one that does not hangs the warp.
SK_DEVICE uint32_t warp() {
  return __shfl_sync(0xffffffffu, threadIdx.x / kLanes, 0);  // Uniform to the compiler too.
}
// The same where only some lanes are: those that come here wait for no other.
SK_DEVICE uint32_t warp_here() { return threadIdx.x / kLanes; }
// The l-th lane that this call stands for; l < kLanesHere.
SK_DEVICE uint32_t lane(uint32_t l) { return threadIdx.x % kLanes + l; }
// True once per warp.
SK_DEVICE bool one_lane() { return threadIdx.x % kLanes == 0; }

// True on all lanes if it was on any.
SK_DEVICE bool any(bool mine) { return __any_sync(0xffffffffu, mine); }

SK_DEVICE void sync_warp() { __syncwarp(); }
SK_DEVICE void sync_block() { __syncthreads(); }

// Barrier `id` (1 to 15) among `threads` threads, whole warps: their earlier accesses to memory
// come before the later ones of all of them.
SK_DEVICE void sync_warps(uint32_t id, uint32_t threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// The block's dynamic shared memory.
SK_DEVICE std::byte* shared_memory() {
  extern __shared__ __align__(1024) std::byte sk_shared_memory[];
  return sk_shared_memory;
}

// The block's one object of this type, beside its dynamic shared memory; nothing is in it at first.
template <typename T>
SK_DEVICE T& of_block() {
  __shared__ T value;
  return value;
}

// Of this multiprocessor.
SK_DEVICE uint64_t cycles() { return uint64_t(clock64()); }
// Ends the launch, and all that the process has on the GPU.
SK_DEVICE void trap() { asm volatile("trap;"); }
// Between two looks of a warp that has nothing else to do: it takes no turns from others.
SK_DEVICE void rest() { __nanosleep(20'000); }

// Words of the block's shared memory that one warp writes and another looks at, in no order.
template <typename T>
SK_DEVICE void store_here(T* at, std::type_identity_t<T> value) {
  *const_cast<volatile T*>(at) = value;
}
template <typename T>
SK_DEVICE T load_here(const T* at) {
  return *const_cast<const volatile T*>(at);
}

SK_DEVICE uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_THREAD_CUH_
