// What the tests of the tile kernels share: seeds, element formats as doubles, guarded memory.
#ifndef SK_TESTS_UNIT_EXEC_CPU_TILE_TILE_TESTING_H_
#define SK_TESTS_UNIT_EXEC_CPU_TILE_TILE_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "lib/exec/cpu/tile/cpu_features.h"
#include "lib/op/dtype.h"

namespace sk::cpu::testing_support {

// Fresh for every run; SK_TEST_SEED replays one.
inline uint64_t run_seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("SK_TEST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : uint64_t(std::random_device{}());
  }();
  return seed;
}

class Random {
 public:
  explicit Random(uint64_t salt) : engine_(run_seed() * 0x9e3779b97f4a7c15u + salt) {}
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  bool coin() { return between(0, 1) == 1; }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine_);
  }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[size_t(between(0, int64_t(from.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

inline std::string replay_line() { return "SK_TEST_SEED=" + std::to_string(run_seed()); }

// Every instruction set that this machine and SK_CPU_ISA allow.
inline std::vector<CpuIsa> isas() {
  std::vector<CpuIsa> all;
  for (int i = 0; i <= int(cpu_isa()); ++i) all.push_back(CpuIsa(i));
  return all;
}

inline void encode(DType dtype, double value, void* to) {
  switch (dtype) {
    case DType::kF32: {
      const float v = float(value);
      std::memcpy(to, &v, sizeof v);
      return;
    }
    case DType::kF64:
      std::memcpy(to, &value, sizeof value);
      return;
    case DType::kBF16: {
      const uint16_t v = f32_to_bf16(float(value));
      std::memcpy(to, &v, sizeof v);
      return;
    }
    case DType::kF16: {
      const uint16_t v = f32_to_f16(float(value));
      std::memcpy(to, &v, sizeof v);
      return;
    }
    case DType::kI32: {
      const int32_t v = int32_t(value);
      std::memcpy(to, &v, sizeof v);
      return;
    }
    case DType::kI64: {
      const int64_t v = int64_t(value);
      std::memcpy(to, &v, sizeof v);
      return;
    }
  }
}

template <typename T>
T load(const void* from) {
  T v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline double decode(DType dtype, const void* from) {
  switch (dtype) {
    case DType::kF32:
      return double(load<float>(from));
    case DType::kF64:
      return load<double>(from);
    case DType::kBF16:
      return double(bf16_to_f32(load<uint16_t>(from)));
    case DType::kF16:
      return double(f16_to_f32(load<uint16_t>(from)));
    case DType::kI32:
      return double(load<int32_t>(from));
    case DType::kI64:
      return double(load<int64_t>(from));
  }
  return 0;
}

// Memory at `offset` bytes past a 64-byte boundary, poisoned, with poisoned bytes on both sides.
class Guarded {
 public:
  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kPoison = 0xa5;

  explicit Guarded(size_t bytes, size_t offset = 0)
      : bytes_(bytes), memory_(bytes + 2 * kGuardBytes + 64 + offset, kPoison) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory_.data()) + kGuardBytes;
    begin_ = kGuardBytes + size_t((64 - at % 64) % 64) + offset;
  }
  uint8_t* data() { return memory_.data() + begin_; }
  const uint8_t* data() const { return memory_.data() + begin_; }
  size_t size() const { return bytes_; }

  bool guards_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + bytes_;
      if (!inside && memory_[i] != kPoison) return false;
    }
    return true;
  }

 private:
  size_t bytes_;
  size_t begin_ = 0;
  std::vector<uint8_t> memory_;
};

}  // namespace sk::cpu::testing_support

#endif  // SK_TESTS_UNIT_EXEC_CPU_TILE_TILE_TESTING_H_
