// Accesses to global memory, by name of order and scope. PTX memory consistency model: an acquire
// that reads what a release stored (or added) sees all that came before the release; what the other
// threads of the releasing thread's block did comes before it when a barrier among them did.
//
// Scope .gpu: all who look are on this GPU. Scope .sys: the other side may be the host.
#ifndef SK_CUDA_PTX_MEMORY_CUH_
#define SK_CUDA_PTX_MEMORY_CUH_

#include "cuda/ptx/thread.cuh"

namespace sk::cuda::ptx {

SK_DEVICE uint64_t load_acquire_gpu(const uint64_t* at) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}

// Meets no order; never served from a stale line.
SK_DEVICE uint32_t load_relaxed_sys(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
SK_DEVICE uint64_t load_relaxed_sys(const uint64_t* at) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}

SK_DEVICE void store_relaxed_sys(uint64_t* at, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
SK_DEVICE void store_release_gpu(uint64_t* at, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
SK_DEVICE void add_release_gpu(uint64_t* at, uint64_t value) {
  asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

// The old value; orders nothing.
SK_DEVICE uint32_t add_relaxed_gpu(uint32_t* at, uint32_t value) {
  uint32_t old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(at), "r"(value)
               : "memory");
  return old;
}
SK_DEVICE void store_relaxed_gpu(uint32_t* at, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
// Whether it was `from` and is now `to`.
SK_DEVICE bool replace_relaxed_sys(uint32_t* at, uint32_t from, uint32_t to) {
  uint32_t old;
  asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(at), "r"(from), "r"(to)
               : "memory");
  return old == from;
}
SK_DEVICE void store_release_sys(uint32_t* at, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// What only other kernels write: plans and tables.
template <typename T>
SK_DEVICE T load_constant(const T* at) {
  return __ldg(at);
}

struct alignas(16) Bytes16 {
  uint32_t word[4];
};

SK_DEVICE Bytes16 load16(const std::byte* at) {
  Bytes16 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(at)
               : "memory");
  return v;
}
SK_DEVICE void store16(std::byte* at, const Bytes16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}
// For runs of bytes that are walked once: none are kept in the multiprocessor's own cache. Nothing
// is touched, and zeros are loaded, where `there` is false: a predicate in place of a branch, so
// that loads stay together.
SK_DEVICE Bytes16 load16_once(bool there, const std::byte* at) {
  Bytes16 v{};
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
      "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3])
      : "l"(at), "r"(uint32_t(there))
      : "memory");
  return v;
}
SK_DEVICE void store16_where(bool there, std::byte* at, const Bytes16& v) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
      "@p st.global.v4.u32 [%0], {%1, %2, %3, %4};\n\t}" ::"l"(at),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "r"(uint32_t(there))
      : "memory");
}
// The same of what nobody looks at again soon: these lines are the first to leave the caches.
SK_DEVICE void store16_past(bool there, std::byte* at, const Bytes16& v) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %5, 0;\n\t"
      "@p st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};\n\t}" ::"l"(at),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "r"(uint32_t(there))
      : "memory");
}

struct alignas(8) Bytes8 {
  uint32_t word[2];
};
SK_DEVICE void store8(std::byte* at, const Bytes8& v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(v.word[0]), "r"(v.word[1])
               : "memory");
}

// Nanoseconds of a clock that all multiprocessors share; steps of up to a microsecond.
SK_DEVICE uint64_t timer_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Between two looks at a word that others write.
SK_DEVICE void pause() { __nanosleep(20); }

}  // namespace sk::cuda::ptx

#endif  // SK_CUDA_PTX_MEMORY_CUH_
