#include "tests/unit/exec/cpu/tile/amx_emulation.h"

#include "lib/exec/cpu/tile/gemm_amx_core.h"
#include "lib/exec/cpu/tile/isa_avx512.h"

namespace sk::cpu {
namespace {

// One thread's tile registers. Without a configuration every instruction but the two that change it
// faults, as the processor does.
struct TileState {
  bool configured = false;
  uint8_t tile[8][16][64];
};
thread_local TileState state;

struct EmulatedTiles {
  static void begin() {
    state.configured = true;
    __builtin_memset(state.tile, 0, sizeof state.tile);
  }
  static void end() { state.configured = false; }

  static auto& tile(int index) {
    if (!state.configured) __builtin_trap();
    return state.tile[index];
  }
  static void load(int index, const void* from, int64_t pitch) {
    for (int64_t r = 0; r < 16; ++r) {
      __builtin_memcpy(tile(index)[r], static_cast<const char*>(from) + r * pitch, 64);
    }
  }
  static void store(int index, void* to, int64_t pitch) {
    for (int64_t r = 0; r < 16; ++r) {
      __builtin_memcpy(static_cast<char*>(to) + r * pitch, tile(index)[r], 64);
    }
  }
  static float widen(uint16_t bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, sizeof value);
    return value;
  }
  // TDPBF16PS: for each pair of k, both products are added to the sum.
  static void dot(int sum_index, int a_index, int b_index) {
    for (int m = 0; m < 16; ++m) {
      float sums[16];
      uint16_t a[32];
      __builtin_memcpy(sums, tile(sum_index)[m], sizeof sums);
      __builtin_memcpy(a, tile(a_index)[m], sizeof a);
      for (int p = 0; p < 16; ++p) {
        uint16_t b[32];
        __builtin_memcpy(b, tile(b_index)[p], sizeof b);
        for (int n = 0; n < 16; ++n) {
          sums[n] += widen(a[2 * p]) * widen(b[2 * n]);
          sums[n] += widen(a[2 * p + 1]) * widen(b[2 * n + 1]);
        }
      }
      __builtin_memcpy(tile(sum_index)[m], sums, sizeof sums);
    }
  }

  static void zero() { __builtin_memset(tile(0), 0, 4 * sizeof state.tile[0]); }
  static void load_a0(const char* from) { load(4, from, 64); }
  static void load_a1(const char* from) { load(5, from, 64); }
  static void load_a0_once(const char* from, int64_t pitch) { load(4, from, pitch); }
  static void load_a1_once(const char* from, int64_t pitch) { load(5, from, pitch); }
  static void load_b0(const char* from) { load(6, from, 64); }
  static void load_b1(const char* from) { load(7, from, 64); }
  static void store_a0(char* to) { store(4, to, 64); }
  static void store_a1(char* to) { store(5, to, 64); }
  static void dot_00() { dot(0, 4, 6); }
  static void dot_01() { dot(1, 4, 7); }
  static void dot_10() { dot(2, 5, 6); }
  static void dot_11() { dot(3, 5, 7); }
  static void store_sums(float* to, int64_t pitch) {
    store(0, to, pitch);
    store(1, to + 16, pitch);
    store(2, to + 16 * (pitch / 4), pitch);
    store(3, to + 16 * (pitch / 4) + 16, pitch);
  }
};

constexpr GemmKernel kEmulated = make_amx_kernel<EmulatedTiles, Avx512>("bf16 amx emulated");

}  // namespace

const GemmKernel* testing_support::emulated_amx_kernel() { return &kEmulated; }

}  // namespace sk::cpu
