#include "lib/exec/cpu/tile/gemm_amx_core.h"
#include "lib/exec/cpu/tile/isa_avx512.h"

namespace sk::cpu {
namespace {

// Palette 1: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kTileConfig;

// Sums in tiles 0 to 3 (row half, column half: 00, 01, 10, 11), A in 4 and 5, B in 6 and 7. Written
// as assembly because the compiler's tile loads do not say that they read memory, so that stores
// before them might sink below them.
#define SK_TILE_LOAD(instruction, tile, from, stride) \
  __asm__ volatile(instruction " (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(stride) : "memory")
#define SK_TILE_STORE(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define SK_TILE_DOT(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::)

struct AmxTiles {
  // The configuration is the thread's and may be gone: another library's call releases it.
  static void begin() { __asm__ volatile("ldtilecfg %0" ::"m"(kTileConfig)); }
  // Idle tiles make every context switch dearer.
  static void end() { __asm__ volatile("tilerelease" ::); }

  static void zero() {
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::);
  }
  static void load_a0(const char* from) { SK_TILE_LOAD("tileloadd", 4, from, kTileRowBytes); }
  static void load_a1(const char* from) { SK_TILE_LOAD("tileloadd", 5, from, kTileRowBytes); }
  // "t1" hints that the data will not be used again soon: it must not evict A from the first level.
  static void load_a0_once(const char* from, int64_t pitch) {
    SK_TILE_LOAD("tileloaddt1", 4, from, pitch);
  }
  static void load_a1_once(const char* from, int64_t pitch) {
    SK_TILE_LOAD("tileloaddt1", 5, from, pitch);
  }
  static void load_b0(const char* from) { SK_TILE_LOAD("tileloaddt1", 6, from, kTileRowBytes); }
  static void load_b1(const char* from) { SK_TILE_LOAD("tileloaddt1", 7, from, kTileRowBytes); }
  static void store_a0(char* to) { SK_TILE_STORE(4, to, kTileRowBytes); }
  static void store_a1(char* to) { SK_TILE_STORE(5, to, kTileRowBytes); }
  static void dot_00() { SK_TILE_DOT(0, 4, 6); }
  static void dot_01() { SK_TILE_DOT(1, 4, 7); }
  static void dot_10() { SK_TILE_DOT(2, 5, 6); }
  static void dot_11() { SK_TILE_DOT(3, 5, 7); }
  static void store_sums(float* to, int64_t pitch) {
    SK_TILE_STORE(0, to, pitch);
    SK_TILE_STORE(2, to + 16 * (pitch / 4), pitch);
    SK_TILE_STORE(1, to + 16, pitch);
    SK_TILE_STORE(3, to + 16 * (pitch / 4) + 16, pitch);
  }

 private:
  static constexpr int64_t kTileRowBytes = 64;
};

}  // namespace

constinit const GemmKernel kGemmBf16Amx = make_amx_kernel<AmxTiles, Avx512>("bf16 amx");

}  // namespace sk::cpu
