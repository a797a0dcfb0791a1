#include "lib/exec/cpu/tile/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace sk::cpu {
namespace {

TEST(CpuIsa, NamesRoundTrip) {
  for (CpuIsa isa :
       {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    Result<CpuIsa> parsed = parse_cpu_isa(cpu_isa_name(isa));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, isa);
  }
}

TEST(CpuIsa, AnUnknownNameIsASentenceThatListsTheOthers) {
  for (const char* name : {"", "AVX2", "avx", "avx512 ", "sse9"}) {
    const Result<CpuIsa> parsed = parse_cpu_isa(name);
    ASSERT_FALSE(parsed.ok()) << name;
    EXPECT_EQ(parsed.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_NE(parsed.status().message().find(std::string("\"") + name + "\""), std::string::npos);
    EXPECT_NE(parsed.status().message().find("avx512_bf16"), std::string::npos);
  }
}

TEST(CpuIsa, TheEnvironmentOnlyLowers) {
  EXPECT_LE(cpu_isa(), machine_isa());
  const char* name = std::getenv("SK_CPU_ISA");
  if (name == nullptr || *name == '\0') {
    EXPECT_EQ(cpu_isa(), machine_isa());
    EXPECT_TRUE(cpu_isa_status().ok());
  } else {
    Result<CpuIsa> parsed = parse_cpu_isa(name);
    EXPECT_EQ(parsed.ok(), cpu_isa_status().ok());
    const CpuIsa asked = parsed.ok() ? *parsed : machine_isa();
    EXPECT_EQ(cpu_isa(), std::min(asked, machine_isa()));
  }
}

// The kernel's own list, found by other means than cpuid, must agree.
TEST(CpuIsa, AgreesWithTheKernelsFlags) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the list is of x86's flags";  // Under an emulator it is the host's, too.
#endif
  std::ifstream file("/proc/cpuinfo");
  std::string line, flags;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) == 0) {
      flags = line + " ";
      break;
    }
  }
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no line of flags on this machine";
  const auto has = [&](const char* flag) {
    return flags.find(std::string(" ") + flag + " ") != std::string::npos;
  };
  const bool avx2 = has("avx2") && has("fma") && has("f16c");
  const bool avx512 =
      avx2 && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  const bool bf16 = avx512 && has("avx512_bf16");
  const bool amx = bf16 && has("amx_tile") && has("amx_bf16");
  EXPECT_EQ(machine_isa() >= CpuIsa::kAvx2, avx2);
  EXPECT_EQ(machine_isa() >= CpuIsa::kAvx512, avx512);
  EXPECT_EQ(machine_isa() >= CpuIsa::kAvx512Bf16, bf16);
  EXPECT_TRUE(amx || machine_isa() < CpuIsa::kAmx);  // With it, the system may still refuse.
}

}  // namespace
}  // namespace sk::cpu
