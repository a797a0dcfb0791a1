// Conversions of bf16 and f16 against definitions that share no code with them: every 16-bit
// pattern, and every midpoint between two neighbours, where rounding to even decides.
#include "lib/op/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sk {
namespace {

double f16_by_definition(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31)
    return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryPatternReadsByItsDefinitionAndRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = f16_to_f32(uint16_t(bits));
    const double expected = f16_by_definition(uint16_t(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
    } else {
      EXPECT_EQ(value, expected) << bits;
      EXPECT_EQ(f32_to_f16(value), bits);
    }
  }
}

TEST(F16, MidpointsRoundToEvenAndTheirNeighboursAway) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {  // Finite and below the largest.
    const float low = f16_to_f32(uint16_t(bits)), high = f16_to_f32(uint16_t(bits + 1));
    const float middle = (low + high) / 2;  // Exact: f32 has 13 bits more.
    EXPECT_EQ(f32_to_f16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, low)), bits) << bits;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, high)), bits + 1) << bits;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);  // The midpoint to what would be 2^16: even is infinity.
}

TEST(BF16, EveryPatternRoundTripsAndMidpointsRoundToEven) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_f32(uint16_t(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << bits;
      continue;
    }
    EXPECT_EQ(f32_to_bf16(value), bits);
    if ((bits & 0x7fff) >= 0x7f7f) continue;  // The midpoint above the largest is infinity's.
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000u);
    EXPECT_EQ(f32_to_bf16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>((bits << 16) | 0x7fffu)), bits);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>((bits << 16) | 0x8001u)), bits + 1);
  }
}

// Rounding adds to the bits: a NaN whose upper bits are all ones, or whose payload lies in the bits
// that are cut off, would become zero or infinity.
TEST(Narrowing, ANanOfAnyPayloadStaysOne) {
  for (const uint32_t bits : {0x7f800001u, 0x7f80ffffu, 0x7f801fffu, 0x7fffffffu, 0x7fc00000u}) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float value = std::bit_cast<float>(bits | sign);
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << std::hex << (bits | sign);
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << std::hex << (bits | sign);
    }
  }
}

}  // namespace
}  // namespace sk
