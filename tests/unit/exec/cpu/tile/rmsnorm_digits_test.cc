// Rows so long that a sum which goes on in one place has no digits left for what comes, and numbers
// whose squares are out of reach.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lib/exec/cpu/tile/rmsnorm.h"
#include "tests/unit/exec/cpu/tile/tile_testing.h"

namespace sk::cpu {
namespace {

using namespace testing_support;

constexpr double kStep = 0x1p-23;

TEST(RmsnormDigits, LongRowsKeepThem) {
  for (const CpuIsa isa : isas()) {
    for (const size_t cols : {size_t(4095), size_t(4096), size_t(4097), size_t(8192),
                              size_t(65'536), size_t(1'000'003), size_t(5'000'011)}) {
      for (const float value : {1.0F, 0.1F, 1.1F}) {
        const std::vector<float> x(cols, value), dy(cols, 1.0F);
        std::vector<float> y(cols);
        float rstd = 0;
        RmsnormArgs args{
            .x = x.data(), .y = y.data(), .rstd = &rstd, .rows = 1, .cols = cols, .eps = 0};
        select_rmsnorm(DType::kF32, RmsnormWeight::kNone, isa)(args);
        const double want = 1 / double(value);
        ASSERT_NEAR(rstd, want, want * 64 * kStep) << cpu_isa_name(isa) << ", " << cols;
        ASSERT_NEAR(y[cols - 1], 1, 64 * kStep) << cpu_isa_name(isa) << ", " << cols;
        // Of all equal there is no gradient: what is left are the digits of the sum.
        std::vector<float> dx(cols);
        RmsnormBackwardArgs back{.x = x.data(),
                                 .dy = dy.data(),
                                 .rstd = &rstd,
                                 .dx = dx.data(),
                                 .rows = 1,
                                 .cols = cols};
        select_rmsnorm_backward(DType::kF32, RmsnormWeight::kNone, isa)(back);
        ASSERT_NEAR(dx[cols / 2], 0, want * 256 * kStep) << cpu_isa_name(isa) << ", " << cols;
      }
    }
  }
}

TEST(RmsnormDigits, AGradientThatIsFiniteDoesNotOverflowOnTheWay) {
  for (const CpuIsa isa : isas()) {
    const float x[] = {1e-20F, 2e-20F}, dy[] = {1, 1}, rstd = 6.3e19F;
    float dx[2] = {};
    RmsnormBackwardArgs args{.x = x, .dy = dy, .rstd = &rstd, .dx = dx, .rows = 1, .cols = 2};
    select_rmsnorm_backward(DType::kF32, RmsnormWeight::kNone, isa)(args);
    const double dot = (1e-20 + 2e-20) / 2 * double(rstd) * double(rstd);
    for (int j = 0; j < 2; ++j) {
      const double want = (1 - double(x[j]) * dot) * double(rstd);
      EXPECT_NEAR(dx[j], want, std::fabs(want) * 1e-5) << cpu_isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace sk::cpu
