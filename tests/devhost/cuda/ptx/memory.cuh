// cuda/ptx/memory.cuh on the CPU: the same orders, as C++ atomics.
#ifndef SK_CUDA_PTX_MEMORY_CUH_
#define SK_CUDA_PTX_MEMORY_CUH_

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>

#include "cuda/ptx/thread.cuh"
#include "tests/devhost/planted.h"

namespace sk::cuda::ptx {

template <typename T>
std::atomic_ref<T> atomic(const T* at) {
  return std::atomic_ref<T>(*const_cast<T*>(at));
}

inline uint64_t load_acquire_gpu(const uint64_t* at) {
  return atomic(at).load(std::memory_order_acquire);
}
inline uint32_t load_relaxed_sys(const uint32_t* at) {
  return atomic(at).load(std::memory_order_relaxed);
}
// With planted.late_look warp 3 of the first block, which looks whether the launch may begin and
// asks for the run's number then, comes later than all that do not wait for its word.
inline void look_late() {
  constexpr uint32_t kLookWarp = 3;
  const devhost::Warp& warp = devhost::this_warp();
  if (!devhost::planted.late_look || warp.index != kLookWarp || warp.block->index != 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}
inline uint64_t load_relaxed_sys(const uint64_t* at) {
  look_late();
  return atomic(at).load(std::memory_order_relaxed);
}
inline void store_relaxed_sys(uint64_t* at, uint64_t value) {
  atomic(at).store(value, std::memory_order_relaxed);
}
inline void store_release_gpu(uint64_t* at, uint64_t value) {
  atomic(at).store(value, std::memory_order_release);
}
inline void store_release_sys(uint32_t* at, uint32_t value) {
  atomic(at).store(value, std::memory_order_release);
}
inline void add_release_gpu(uint64_t* at, uint64_t value) {
  if (devhost::planted.no_post) return;
  atomic(at).fetch_add(
      value, devhost::planted.relaxed_post ? std::memory_order_relaxed : std::memory_order_release);
}
inline uint32_t add_relaxed_gpu(uint32_t* at, uint32_t value) {
  return atomic(at).fetch_add(value, std::memory_order_relaxed);
}
inline void store_relaxed_gpu(uint32_t* at, uint32_t value) {
  atomic(at).store(value, std::memory_order_relaxed);
}
inline bool replace_relaxed_sys(uint32_t* at, uint32_t from, uint32_t to) {
  return atomic(at).compare_exchange_strong(from, to, std::memory_order_relaxed);
}

template <typename T>
T load_constant(const T* at) {
  return *at;
}

struct alignas(16) Bytes16 {
  uint32_t word[4];
};
inline Bytes16 load16(const std::byte* at) {
  Bytes16 v;
  std::memcpy(&v, std::assume_aligned<16>(at), sizeof v);
  return v;
}

// With planted.own_share_only the second block of a pair stores its first when the first block has
// posted, and then some others' turns later: whether the bug shows is not for the scheduler to say.
inline void let_posts_go_ahead() {
  constexpr int kTurns = 200;
  const devhost::Block& block = *devhost::this_warp().block;
  if (!devhost::planted.own_share_only || block.place == 0) return;
  const auto& posts = block.cluster->early_posts;
  if (posts.load(std::memory_order_relaxed) > 1) return;
  while (posts.load(std::memory_order_relaxed) == 0) sched_yield();
  for (int turn = 0; turn < kTurns; ++turn) sched_yield();
}
inline void store16(std::byte* at, const Bytes16& v) {
  let_posts_go_ahead();
  std::memcpy(std::assume_aligned<16>(at), &v, sizeof v);
}
inline Bytes16 load16_once(bool there, const std::byte* at) {
  return there ? load16(at) : Bytes16{};
}
inline void store16_where(bool there, std::byte* at, const Bytes16& v) {
  if (there) store16(at, v);
}
inline void store16_past(bool there, std::byte* at, const Bytes16& v) {
  store16_where(there, at, v);
}

struct alignas(8) Bytes8 {
  uint32_t word[2];
};
inline void store8(std::byte* at, const Bytes8& v) {
  let_posts_go_ahead();
  std::memcpy(std::assume_aligned<8>(at), &v, sizeof v);
}

inline uint64_t timer_ns() {
  return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
}
inline void pause() {
  devhost::leave_if_trapped();
  sched_yield();
}

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_MEMORY_CUH_
