// A step of AdamW on every instruction set: the same bits as a loop over elements, of all types, of
// any length, beginning anywhere.
#include "lib/exec/cpu/tile/adamw.h"

#include <cmath>
#include <cstring>

#include "tests/unit/exec/cpu/tile/tile_testing.h"

namespace sk::cpu {
namespace {

using namespace testing_support;

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};

struct Numbers {
  double lr = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

AdamwArgs numbers_of(const Numbers& n, int step) {
  AdamwArgs args;
  args.m_keeps = n.beta1;
  args.m_takes = 1 - n.beta1;
  args.v_keeps = n.beta2;
  args.v_takes = 1 - n.beta2;
  args.p_keeps = 1 - n.lr * n.weight_decay;
  args.rate = n.lr / (1 - std::pow(n.beta1, step));
  args.v_scale = 1 / std::sqrt(1 - std::pow(n.beta2, step));
  args.eps = n.eps;
  return args;
}

// One element, an operation at a time: what is volatile is neither kept wider nor contracted.
template <typename T>
void scalar(const AdamwArgs& by, T& p, T g, T& m, T& v) {
  volatile T kept_m = m * T(by.m_keeps);
  volatile T more = g * T(by.m_takes);
  m = kept_m + more;
  volatile T kept = v * T(by.v_keeps);
  volatile T part = g * T(by.v_takes);
  volatile T taken = part * g;
  v = kept + taken;
  volatile T root = std::sqrt(v);
  volatile T scaled = root * T(by.v_scale);
  volatile T below = scaled + T(by.eps);
  volatile T above = m * T(by.rate);
  volatile T less = above / below;
  volatile T kept_p = p * T(by.p_keeps);
  p = kept_p - less;
}

// A vector with guards.
struct Vector {
  Vector(Random& random, DType of, size_t elements)
      : dtype(of),
        count(elements),
        memory(elements * dtype_bytes(of), size_t(random.between(0, 15)) * dtype_bytes(of)) {}
  void fill(Random& random, double low, double high) {
    for (size_t i = 0; i < count; ++i) encode(dtype, random.real(low, high), at(i));
  }
  uint8_t* at(size_t i) { return memory.data() + i * dtype_bytes(dtype); }
  double get(size_t i) { return decode(dtype, at(i)); }

  DType dtype;
  size_t count;
  Guarded memory;
};

struct State {
  State(Random& random, DType dtype, DType grad, size_t count)
      : p(random, dtype, count),
        g(random, grad, count),
        m(random, accumulator(dtype), count),
        v(random, accumulator(dtype), count) {
    p.fill(random, -2, 2);
    m.fill(random, -1, 1);
    v.fill(random, 0, 1);
  }
  template <typename T>
  void step_by_elements(const AdamwArgs& by) {
    for (size_t i = 0; i < p.count; ++i) {
      T at_p = T(p.get(i)), at_m = T(m.get(i)), at_v = T(v.get(i));
      scalar<T>(by, at_p, T(g.get(i)), at_m, at_v);
      encode(p.dtype, at_p, p.at(i));
      encode(m.dtype, at_m, m.at(i));
      encode(v.dtype, at_v, v.at(i));
    }
  }
  void step(AdamwFn kernel, AdamwArgs args) {
    args.p = args.new_p = p.at(0);
    args.g = g.at(0);
    args.m = args.new_m = m.at(0);
    args.v = args.new_v = v.at(0);
    args.count = p.count;
    kernel(args);
  }
  bool same_bits(State& other) {
    const auto same = [](Vector& a, Vector& b) {
      return std::memcmp(a.at(0), b.at(0), a.count * dtype_bytes(a.dtype)) == 0;
    };
    return same(p, other.p) && same(m, other.m) && same(v, other.v);
  }
  bool clean() {
    return p.memory.guards_intact() && g.memory.guards_intact() && m.memory.guards_intact() &&
           v.memory.guards_intact();
  }

  Vector p, g, m, v;
};

void expect_same(CpuIsa isa, DType dtype, DType grad, size_t count, int steps) {
  SCOPED_TRACE(replay_line() + " " + dtype_name(dtype) + " by " + dtype_name(grad) + ", " +
               std::to_string(count) + " on " + std::to_string(int(isa)));
  Random random(count * 8 + size_t(dtype));
  State made(random, dtype, grad, count), wanted(random, dtype, grad, count);
  for (auto member : {&State::p, &State::m, &State::v}) {
    std::memcpy((wanted.*member).at(0), (made.*member).at(0),
                count * dtype_bytes((made.*member).dtype));
  }
  const AdamwFn kernel = select_adamw(dtype, grad, isa);
  ASSERT_NE(kernel, nullptr);
  for (int step = 1; step <= steps; ++step) {
    made.g.fill(random, -3, 3);
    std::memcpy(wanted.g.at(0), made.g.at(0), count * dtype_bytes(grad));
    const AdamwArgs by = numbers_of({.lr = 0.01 / step}, step);
    made.step(kernel, by);
    if (dtype == DType::kF64) {
      wanted.step_by_elements<double>(by);
    } else {
      wanted.step_by_elements<float>(by);
    }
    ASSERT_TRUE(made.same_bits(wanted)) << "step " << step;
  }
  EXPECT_TRUE(made.clean());
}

TEST(AdamwKernels, GiveTheBitsOfALoopOverElements) {
  for (const CpuIsa isa : isas()) {
    for (const DType dtype : kDTypes) {
      for (const DType grad : {dtype, DType::kF32}) {
        for (size_t count = 0; count < 70; ++count) expect_same(isa, dtype, grad, count, 2);
        expect_same(isa, dtype, grad, 1000, 3);
      }
    }
  }
}

TEST(AdamwKernels, GiveThemStillAfterAHundredSteps) {
  for (const CpuIsa isa : isas()) {
    for (const DType dtype : kDTypes) expect_same(isa, dtype, dtype, 97, 100);
  }
}

// Whose square is beyond f32, where v is not: an infinite one would end the element's steps for
// ever.
TEST(AdamwKernels, LargeGradientsLeaveVFinite) {
  for (const CpuIsa isa : isas()) {
    Random random(7);
    State made(random, DType::kF32, DType::kF32, 37);
    made.g.fill(random, 1e20, 4e20);
    made.step(select_adamw(DType::kF32, DType::kF32, isa), numbers_of({}, 1));
    for (size_t i = 0; i < made.v.count; ++i) {
      const double wanted = made.g.get(i) * made.g.get(i) * 0.001;
      EXPECT_NEAR(made.v.get(i) / wanted, 1, 1e-6) << i << " on " << int(isa);
    }
  }
}

TEST(AdamwKernels, AreOfFloatingTypesAndOfGradientsOfThatTypeOrF32) {
  EXPECT_EQ(select_adamw(DType::kI32, DType::kI32, CpuIsa(0)), nullptr);
  EXPECT_EQ(select_adamw(DType::kF32, DType::kF64, CpuIsa(0)), nullptr);
  EXPECT_EQ(select_adamw(DType::kBF16, DType::kF16, CpuIsa(0)), nullptr);
}

}  // namespace
}  // namespace sk::cpu
