// The benchmarks themselves, on a fake GPU: what they would notice, and how they take turns.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "bench/gpu/bare.h"
#include "bench/gpu/health.h"
#include "bench/gpu/parts.h"
#include "bench/gpu/product_sets.h"
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
  EXPECT_THAT(lines,
              HasSubstr("\"candidate\":\"x\",\"note\":\"a \\\"note\\\"\",\"runs\":3,\"gpu\":{"));
  const Effort wanted = effort(machine_);
  // rounds[round][visit][sample]: every visit a list.
  size_t lists = 0, lines_seen = 0;
  for (size_t begin = lines.find("\"rounds\":"); begin != std::string::npos;
       begin = lines.find("\"rounds\":", begin + 1), ++lines_seen) {
    const size_t end = lines.find('\n', begin);
    lists += size_t(std::count(lines.begin() + int64_t(begin), lines.begin() + int64_t(end), '['));
  }
  EXPECT_EQ(lines_seen, 2u);
  EXPECT_EQ(lists, 2u * (1 + size_t(wanted.rounds) * (1 + 2)));
}

TEST_F(Product, ThatIsWrongIsDescribed) {
  BareProduct(machine_).enqueue(shape_, a_, b_, c_);
  machine_.synchronize();
  const std::vector<uint16_t> a = a_.read(), b = b_.read();
  std::vector<uint16_t> c = c_.read();
  EXPECT_EQ(judge_product(shape_, a, b, c).wrong, "");
  EXPECT_EQ(judge_product(shape_, a, b, c).compared, 130u * 72);
  c[129 * 72 + 71] = 0x4640;  // 12288: more than any sum.
  c[65 * 72 + 3] = 0x4640;
  const std::string wrong = judge_product(shape_, a, b, c).wrong;
  EXPECT_THAT(wrong, HasSubstr("2 of 9360 elements are wrong, 0 of these were not written; first: "
                               "row 65, column 3 is 12288, not "));
  EXPECT_THAT(wrong, HasSubstr("by blocks of 64 x 64: (1, 0): 1 (2, 1): 1"));
}

// The peer's failure, or wrong result, takes nobody else's figures with it.
TEST_F(Product, OfAPeerThatFailsIsAbsentAndTheOthersAreMeasured) {
  ASSERT_EQ(setenv("SK_CUBLASLT", SK_FAKE_CUBLASLT, 1), 0);
  CublasLt peer(machine_);
  unsetenv("SK_CUBLASLT");
  ASSERT_EQ(peer.absent(), "");
  ProductSets sets(machine_, shape_);
  const BareProduct bare(machine_);
  std::vector<Candidate> candidates = {sets.of_bare("bare", bare),
                                       {"wrong", [](int) {}, "", /*is_peer=*/true}};
  testing::internal::CaptureStdout();
  sets.add_cublaslt(peer, "gemm", candidates);
  candidates.push_back({"last", candidates[0].enqueue, ""});
  sets.measure_checked("gemm", candidates);
  const std::string lines = testing::internal::GetCapturedStdout();
  EXPECT_THAT(lines, HasSubstr("\"cublaslt\",\"absent\":\"cublasLtMatmul: status 13\""));
  EXPECT_THAT(lines, HasSubstr("\"wrong\",\"absent\":\"130x72x64, wrong: an element was not"));
  for (const char* name : {"bare", "last"})
    EXPECT_THAT(lines, HasSubstr(fmt::format("\"candidate\":\"{}\",\"note\":", name)));
  EXPECT_ANY_THROW(sets.measure_checked("gemm", {{"ours", [](int) {}, ""}}));
}

TEST(Fastest, IsWhatTheMiddleOfItsSamplesSays) {
  EXPECT_EQ(least_by_median({{5, 5, 5}, {4, 99, 3}, {1, 6, 7}}), 1u);
  EXPECT_EQ(least_by_median({{1, 9, 1, 9}, {4, 4, 99, 4}}), 1u);
  EXPECT_EQ(least_by_median({{2, 2}, {2, 2}}), 0u);  // Of equals the first.
}

// The host may take the processor away for as long as some hundred copies last; the middle of six
// samples is then still one that it left alone.
TEST_F(Product, OfTheFastestAlgorithmIsFound) {
  const Matrix from(machine_, 1 << 22), to(machine_, 1 << 22);
  const auto copy = [&](size_t bytes, int times) {
    return Candidate{"copy",
                     [&, bytes, times](int) {
                       for (int i = 0; i < times; ++i) {
                         machine_.check(machine_.calls().cuMemcpyDtoDAsync(
                                            to.address(), from.address(), bytes, machine_.stream()),
                                        "cuMemcpyDtoDAsync");
                       }
                     },
                     ""};
  };
  const auto much = copy(1 << 22, 32);
  EXPECT_EQ(fastest(machine_, {much, copy(64, 1), much}, 2), 1u);
}

TEST(GpuHealth, IsReadWhileWorkIsUnderWay) {
  const Health health(SK_FAKE_NVML);
  EXPECT_EQ(health.absent(), "");
  std::vector<Health::Reading> readings;
  for (int i = 0; i < 3; ++i) readings.push_back(health.read());
  EXPECT_EQ(as_json(health, readings),
            "{\"sm_mhz\":1910,\"memory_mhz\":2619,\"milliwatts\":695000,\"celsius\":null,"
            "\"held_back_by\":[\"power cap\",\"software thermal slowdown\"]}");
}

TEST(GpuHealth, WhereThereIsNoneSaysWhy) {
  const Health health("libnothing.so.1");
  EXPECT_THAT(as_json(health, {}), HasSubstr("{\"absent\":\"libnothing.so.1: cannot open"));
  EXPECT_EQ(health.read().sm_mhz, 0u);
}

TEST_F(GpuBench, ACaseThatThereIsNotIsNamed) {
  const Wanted wanted("5x5x5");
  EXPECT_NO_THROW(measure_gemm(machine_, wanted));  // Does nothing.
  try {
    wanted.check();
    FAIL() << "it was taken";
  } catch (const std::exception& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("no case \"5x5x5\"; there are: 8192x8192x8192, "));
  }
}

struct OnePart {
  void (*act)(const Machine&, const Wanted&);
  const char* name;
  const char* says;
};
class Parts : public GpuBench, public testing::WithParamInterface<OnePart> {};

// One case of each; a visit does them all.
TEST_P(Parts, RunOnAFakeGpu) {
  testing::internal::CaptureStdout();
  const Wanted wanted(GetParam().name);
  EXPECT_NO_THROW(GetParam().act(machine_, wanted));
  EXPECT_NO_THROW(wanted.check());
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr(GetParam().says));
}
constexpr char kOfPlan[] = "\"candidate\":\"plan\"", kOfBare[] = "\"candidate\":\"bare";
INSTANTIATE_TEST_SUITE_P(
    Of, Parts,
    testing::Values(OnePart{check_bare, "128x256x4096", "\"checked\":3072"},
                    OnePart{check_bare_pairs, "256x256x64", "\"checked\":10240"},
                    OnePart{measure_versus, "4096x4096x4096", kOfBare},
                    OnePart{measure_versus_pairs, "4096x4096x4096", "\"bare_pairs\""},
                    OnePart{measure_order, "8192x8192x8192", "bare_bands_of_1"},
                    OnePart{measure_gemm, "4096x4096x4096", kOfPlan},
                    OnePart{measure_raw, "4096x4096x4096", "\"plan_kn\""},
                    OnePart{measure_pairs, "8192x8192x8192", "\"plan_pairs\""},
                    OnePart{measure_fused, "4096x4096x4096 2 ranks", kOfPlan},
                    OnePart{measure_collectives, "allgather 4 ranks", kOfPlan},
                    OnePart{measure_latency, "replayed run", kOfPlan},
                    OnePart{measure_latency, "abort", kOfPlan}));

}  // namespace
}  // namespace sk::cuda
