// The benchmarks themselves, on a fake GPU: what they would notice, and how they take turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/gpu/bare.h"
#include "bench/gpu/parts.h"
#include "bench/gpu/product_plan.h"
#include "bench/gpu/rounds.h"

namespace sk::cuda {
namespace {

using testing::HasSubstr;

class GpuBench : public testing::Test {
 protected:
  void SetUp() override {
    if (machine_.is_real()) GTEST_SKIP() << "tried on a fake GPU only; here is a real one";
  }
  const Machine& machine_ = Machine::get();
};

class Product : public GpuBench {
 protected:
  Product() {
    a_.fill(Fill::kWhole, 1);
    b_.fill(Fill::kWhole, 2);
    c_.poison();
  }
  std::string difference() const {
    return compare_product(shape_, {a_.read()}, {b_.read()}, c_.read());
  }
  const Shape shape_{130, 72, 64};
  Matrix a_{machine_, shape_.a_bytes()}, b_{machine_, shape_.b_bytes()},
      c_{machine_, shape_.c_bytes()};
};

TEST_F(Product, ThatIsRightPasses) {
  BareProduct(machine_).enqueue(shape_, a_, b_, c_);
  machine_.synchronize();
  EXPECT_EQ(difference(), "");
  c_.poison();
  ProductPlan(machine_, shape_, 1, 2).enqueue({{a_.data(), c_.data(), b_.data()}});
  machine_.synchronize();
  EXPECT_EQ(difference(), "");
}

TEST_F(Product, ThatIsNotWrittenIsNoticed) {
  EXPECT_EQ(difference(), "an element was not written");
}

TEST_F(Product, OfOtherMatricesIsNoticed) {
  BareProduct(machine_).enqueue(shape_, a_, b_, c_);
  machine_.synchronize();
  b_.fill(Fill::kWhole, 3);
  EXPECT_THAT(difference(), HasSubstr("row 0, column 0 is"));
}

TEST_F(Product, OfTooFewRanksIsNoticed) {
  BareProduct(machine_).enqueue(shape_, a_, b_, c_);
  machine_.synchronize();
  const std::vector<uint16_t> a = a_.read(), b = b_.read();
  EXPECT_THAT(compare_product(shape_, {a, a}, {b, b}, c_.read()), HasSubstr("column"));
}

TEST_F(GpuBench, CandidatesTakeTurnsThereAndBack) {
  const Matrix from(machine_, 64), to(machine_, 64);
  std::string captured;
  const auto candidate = [&](char name) {
    return Candidate{std::string(1, name),
                     [&, name](int run) {
                       captured += name;
                       captured += char('0' + run);
                       const abi::Result result = machine_.calls().cuMemcpyDtoDAsync(
                           to.address(), from.address(), 64, machine_.stream());
                       machine_.check(result, "cuMemcpyDtoDAsync");
                     },
                     "a \"note\""};
  };
  testing::internal::CaptureStdout();
  measure(machine_, "part", "case", {candidate('x'), candidate('y')}, /*period=*/3);
  const std::string lines = testing::internal::GetCapturedStdout();
  EXPECT_EQ(captured, "x0x1x2y0y1y2");  // Captured once, then replayed.
  EXPECT_THAT(lines, HasSubstr("\"candidate\":\"x\",\"note\":\"a \\\"note\\\"\",\"runs\":3,"));
  const Effort wanted = effort(machine_);
  // rounds[round][visit][sample]: every visit a list.
  size_t lists = 0;
  for (size_t at = lines.find('['); at != std::string::npos; at = lines.find('[', at + 1)) ++lists;
  EXPECT_EQ(lists, 2u * (1 + size_t(wanted.rounds) * (1 + 2)));
}

TEST_F(GpuBench, EveryPartRunsOnAFakeGpu) {
  for (const auto part :
       {measure_gemm, measure_pairs, measure_fused, measure_collectives, measure_latency}) {
    testing::internal::CaptureStdout();
    EXPECT_NO_THROW(part(machine_));
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("\"candidate\":\"plan\""));
  }
}

}  // namespace
}  // namespace sk::cuda
