#include "lib/exec/cpu/tile/copy.h"

#include <algorithm>
#include <cstring>

#include "lib/exec/cpu/tile/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sk::cpu {
namespace {

constexpr size_t kLineBytes = 64;
// Of a source that several destinations read in turn: it stays in the nearest cache meanwhile.
constexpr size_t kBlockBytes = 4096;

// A destination that another core has read is in its cache: every first store to a line waits until
// that copy is given up, one line after the other. Asking for ownership some lines ahead overlaps
// those waits. (REP MOVSB, which memcpy() takes from 2 KB on, does not either.)
constexpr size_t kOwnAheadBytes = 2048;

void copy_small(char* to, const char* from, size_t bytes) { std::memcpy(to, from, bytes); }

#if defined(__x86_64__)
__attribute__((target("prfchw"))) inline void own_lines(char* to, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i += kLineBytes) __builtin_prefetch(to + i, 1, 3);
}

__attribute__((target("avx512f,prfchw"))) void copy_avx512(char* to, const char* from,
                                                           size_t bytes) {
  own_lines(to, 0, std::min(bytes, kOwnAheadBytes));
  size_t i = 0;
  for (; i + 256 <= bytes; i += 256) {
    own_lines(to, i + kOwnAheadBytes, std::min(i + kOwnAheadBytes + 256, bytes));
    const __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
    const __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
    _mm512_storeu_si512(to + i, a);
    _mm512_storeu_si512(to + i + 64, b);
    _mm512_storeu_si512(to + i + 128, c);
    _mm512_storeu_si512(to + i + 192, d);
  }
  copy_small(to + i, from + i, bytes - i);
}

__attribute__((target("avx,prfchw"))) void copy_avx(char* to, const char* from, size_t bytes) {
  own_lines(to, 0, std::min(bytes, kOwnAheadBytes));
  size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    own_lines(to, i + kOwnAheadBytes, std::min(i + kOwnAheadBytes + 128, bytes));
    const auto* in = reinterpret_cast<const __m256i*>(from + i);
    auto* out = reinterpret_cast<__m256i*>(to + i);
    const __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
    const __m256i c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);
    _mm256_storeu_si256(out, a);
    _mm256_storeu_si256(out + 1, b);
    _mm256_storeu_si256(out + 2, c);
    _mm256_storeu_si256(out + 3, d);
  }
  copy_small(to + i, from + i, bytes - i);
}
#endif

using CopyFn = void (*)(char* to, const char* from, size_t bytes);

CopyFn select_copy() {
#if defined(__x86_64__)
  if (cpu_isa() >= CpuIsa::kAvx512) return copy_avx512;
  if (cpu_isa() >= CpuIsa::kAvx2) return copy_avx;
#endif
  return copy_small;
}

CopyFn chosen_copy() {
  static const CopyFn chosen = select_copy();
  return chosen;
}

void copy_block(void* const* dst, int dst_count, size_t offset, const char* src, size_t bytes) {
  const CopyFn plain = chosen_copy();
  for (int j = 0; j < dst_count; ++j) {
    char* to = static_cast<char*>(dst[j]) + offset;
    if (to != src + offset) plain(to, src + offset, bytes);
  }
}

void copy_normal(void* const* dst, int dst_count, const char* src, size_t begin, size_t end) {
  const size_t step = dst_count > 1 ? kBlockBytes : end - begin;
  for (size_t i = begin; i < end; i += step) {
    copy_block(dst, dst_count, i, src, std::min(step, end - i));
  }
}

#if defined(__SSE2__)
// Whole lines of one destination, which is line-aligned. Partial stores of a line may leave the
// core apart, so the widest registers there are.
using StreamFn = void (*)(char* dst, const char* src, size_t lines);

void stream_sse2(char* dst, const char* src, size_t lines) {
  for (size_t i = 0; i < lines; ++i, dst += kLineBytes, src += kLineBytes) {
    const auto* from = reinterpret_cast<const __m128i*>(src);
    auto* to = reinterpret_cast<__m128i*>(dst);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void stream_avx512(char* dst, const char* src, size_t lines) {
  for (size_t i = 0; i < lines; ++i, dst += kLineBytes, src += kLineBytes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
  }
}

__attribute__((target("avx"))) void stream_avx(char* dst, const char* src, size_t lines) {
  for (size_t i = 0; i < lines; ++i, dst += kLineBytes, src += kLineBytes) {
    const auto* from = reinterpret_cast<const __m256i*>(src);
    auto* to = reinterpret_cast<__m256i*>(dst);
    const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
  }
}
#endif

StreamFn select_stream() {
#if defined(__x86_64__)
  if (cpu_isa() >= CpuIsa::kAvx512) return stream_avx512;
  if (cpu_isa() >= CpuIsa::kAvx2) return stream_avx;
#endif
  return stream_sse2;
}

StreamFn chosen_stream() {
  static const StreamFn chosen = select_stream();
  return chosen;
}

void copy_streaming(void* const* dst, int dst_count, const char* src, size_t bytes) {
  const StreamFn stream_lines = chosen_stream();
  for (size_t block = 0; block < bytes; block += kBlockBytes) {
    const size_t block_bytes = std::min(kBlockBytes, bytes - block);
    for (int j = 0; j < dst_count; ++j) {
      char* to = static_cast<char*>(dst[j]) + block;
      const char* from = src + block;
      if (to == from) continue;
      const size_t misaligned = reinterpret_cast<uintptr_t>(to) % kLineBytes;
      const size_t head = std::min(misaligned == 0 ? 0 : kLineBytes - misaligned, block_bytes);
      const size_t lines = (block_bytes - head) / kLineBytes;
      const size_t tail = head + lines * kLineBytes;
      std::memcpy(to, from, head);
      stream_lines(to + head, from + head, lines);
      std::memcpy(to + tail, from + tail, block_bytes - tail);
    }
  }
}
#endif

void copy_row(void* const* dst, int dst_count, const void* src, size_t bytes, StoreHint hint) {
  const char* from = static_cast<const char*>(src);
#if defined(__SSE2__)
  if (hint == StoreHint::kNonTemporal) return copy_streaming(dst, dst_count, from, bytes);
#else
  static_cast<void>(hint);  // Other processors: the same bytes, by ordinary stores.
#endif
  copy_normal(dst, dst_count, from, 0, bytes);
}

void finish(StoreHint hint) {
#if defined(__SSE2__)
  if (hint == StoreHint::kNonTemporal) _mm_sfence();
#else
  static_cast<void>(hint);
#endif
}

}  // namespace

void choose_copies() {
#if defined(__SSE2__)
  (void)chosen_stream();
#endif
  (void)chosen_copy();
}

void copy(void* const* dst, int dst_count, const void* src, size_t bytes, StoreHint hint) {
  if (bytes == 0) return;
  copy_row(dst, dst_count, src, bytes, hint);
  finish(hint);
}

void copy_2d(void* const* dst, const int64_t* dst_pitch, int dst_count, const void* src,
             int64_t src_pitch, size_t rows, size_t row_bytes, StoreHint hint) {
  if (rows == 0 || row_bytes == 0) return;
  const char* from = static_cast<const char*>(src);
  if (rows == 1) return copy(dst, dst_count, src, row_bytes, hint);
  for (size_t row = 0; row < rows; ++row) {
    for (int j = 0; j < dst_count; ++j) {
      void* to = static_cast<char*>(dst[j]) + int64_t(row) * dst_pitch[j];
      copy_row(&to, 1, from + int64_t(row) * src_pitch, row_bytes, hint);
    }
  }
  finish(hint);
}

}  // namespace sk::cpu
