// cuda/ptx/thread.cuh on the CPU: a warp is one thread, which stands for all of its lanes.
#ifndef SK_CUDA_PTX_THREAD_CUH_
#define SK_CUDA_PTX_THREAD_CUH_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "tests/devhost/machine.h"

#define SK_DEVICE inline
#define SK_DEVICE_GLOBAL inline
#define SK_KERNEL(name, threads, Args) void name(const Args args)
namespace sk::cuda::ptx {

inline constexpr uint32_t kLanes = devhost::kLanes;
inline constexpr uint32_t kLanesHere = kLanes;

inline uint32_t blocks() { return devhost::this_warp().block->blocks; }
inline uint32_t block() { return devhost::this_warp().block->index; }
inline uint32_t warp() { return devhost::this_warp().index; }
inline uint32_t warp_here() { return warp(); }
inline uint32_t lane(uint32_t l) { return l; }
inline bool one_lane() { return true; }
inline bool any(bool mine) { return mine; }
inline void sync_warp() {}
inline void sync_warps(uint32_t id, uint32_t threads) {
  devhost::this_warp().block->barriers[id].meet(threads / kLanes);
}
inline void sync_block() { sync_warps(0, devhost::this_warp().block->warps * kLanes); }
inline std::byte* shared_memory() { return devhost::this_warp().block->shared; }

template <typename T>
T& of_block() {
  devhost::Block& block = *devhost::this_warp().block;
  static_assert(sizeof(T) <= sizeof block.beside);
  return *reinterpret_cast<T*>(block.beside);
}

inline uint64_t cycles() {
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
}
[[noreturn]] inline void trap() { devhost::trap(); }
inline void rest() {
  devhost::leave_if_trapped();
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

template <typename T>
void store_here(T* at, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*at).store(value, std::memory_order_relaxed);
}
template <typename T>
T load_here(const T* at) {
  return std::atomic_ref<T>(*const_cast<T*>(at)).load(std::memory_order_relaxed);
}

inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_THREAD_CUH_
