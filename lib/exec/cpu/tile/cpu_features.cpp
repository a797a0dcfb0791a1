#include "lib/exec/cpu/tile/cpu_features.h"

#include <array>
#include <cstdlib>

#include "lib/exec/cpu/tile/store_hint.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace sk::cpu {
namespace {

constexpr std::array<const char*, 5> kNames = {"portable", "avx2", "avx512", "avx512_bf16", "amx"};

#if defined(__x86_64__)

constexpr uint64_t kStateAvx = 0x6;      // XCR0: SSE and AVX registers.
constexpr uint64_t kStateAvx512 = 0xe6;  // and mask registers, upper halves, ZMM16-31.
constexpr uint64_t kStateAmx = 0x600e6;  // and tile configuration and data.
// Leaf 7, EDX: AMX_BF16 and AMX_TILE, which compilers' <cpuid.h> name differently.
constexpr uint32_t kAmxBits = 1u << 22 | 1u << 24;
constexpr long kArchReqXcompPerm = 0x1023;  // arch_prctl: ask for a state component.
constexpr long kXfeatureTileData = 18;

struct Cpuid {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Cpuid cpuid(uint32_t leaf, uint32_t subleaf) {
  Cpuid r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

uint64_t enabled_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t(high) << 32) | low;
}

bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

CpuIsa detect() {
  const Cpuid basic = cpuid(1, 0);
  if (!has(basic.ecx, bit_FMA | bit_AVX | bit_OSXSAVE | bit_F16C)) return CpuIsa::kPortable;
  const uint64_t state = enabled_state();
  const Cpuid extended = cpuid(7, 0);
  if ((state & kStateAvx) != kStateAvx || !has(extended.ebx, bit_AVX2)) return CpuIsa::kPortable;
  if ((state & kStateAvx512) != kStateAvx512 ||
      !has(extended.ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL)) {
    return CpuIsa::kAvx2;
  }
  if (!has(cpuid(7, 1).eax, bit_AVX512BF16)) return CpuIsa::kAvx512;
  if ((state & kStateAmx) != kStateAmx || !has(extended.edx, kAmxBits)) {
    return CpuIsa::kAvx512Bf16;
  }
  if (syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) != 0) {
    return CpuIsa::kAvx512Bf16;
  }
  return CpuIsa::kAmx;
}

#else

CpuIsa detect() { return CpuIsa::kPortable; }

#endif

struct Choice {
  CpuIsa isa;
  Status status;
};

Choice choose() {
  const char* name = std::getenv("SK_CPU_ISA");
  if (name == nullptr || *name == '\0') return {machine_isa(), Status()};
  Result<CpuIsa> parsed = parse_cpu_isa(name);
  if (!parsed.ok()) return {machine_isa(), std::move(parsed.status()).with_context("SK_CPU_ISA")};
  return {*parsed < machine_isa() ? *parsed : machine_isa(), Status()};
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

const char* cpu_isa_name(CpuIsa isa) { return kNames[size_t(isa)]; }

Result<CpuIsa> parse_cpu_isa(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return CpuIsa(i);
  }
  return error(SK_ERR_INVALID_ARGUMENT,
               "\"{}\" is no instruction set; portable, avx2, avx512, avx512_bf16 and amx are",
               name);
}

CpuIsa machine_isa() {
  static const CpuIsa detected = detect();
  return detected;
}

CpuIsa cpu_isa() { return choice().isa; }
const Status& cpu_isa_status() { return choice().status; }

}  // namespace sk::cpu
