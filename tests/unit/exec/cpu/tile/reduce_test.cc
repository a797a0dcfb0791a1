// Reductions against plain loops in the stated order: equal bits on every instruction set.
#include "lib/exec/cpu/tile/reduce.h"

#include <cmath>
#include <limits>

#include "tests/unit/exec/cpu/tile/tile_testing.h"

namespace sk::cpu {
namespace {

using namespace testing_support;

constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kBF16,
                             DType::kF16, DType::kI32, DType::kI64};
constexpr RedOp kOps[] = {RedOp::kSum, RedOp::kProd, RedOp::kMin, RedOp::kMax, RedOp::kAvg};

template <typename T>
T combine(RedOp op, T acc, T x) {
  switch (op) {
    case RedOp::kProd:
      return T(acc * x);
    case RedOp::kMin:
      return x < acc || x != x ? x : acc;
    case RedOp::kMax:
      return x > acc || x != x ? x : acc;
    default:
      return T(acc + x);
  }
}

// The definition, one element: `in` holds one element per input.
template <typename Acc, typename Read, typename Write>
void reduce_one(RedOp op, const std::vector<const uint8_t*>& in, uint8_t* out, Read read,
                Write write) {
  Acc acc = read(in[0]);
  for (size_t r = 1; r < in.size(); ++r) acc = combine<Acc>(op, acc, read(in[r]));
  if (op == RedOp::kAvg) acc = acc / Acc(in.size());
  write(acc, out);
}

template <typename T>
void reduce_one_integer(RedOp op, const std::vector<const uint8_t*>& in, uint8_t* out) {
  using U = std::make_unsigned_t<T>;
  T acc = load<T>(in[0]);
  for (size_t r = 1; r < in.size(); ++r) {
    const T x = load<T>(in[r]);
    if (op == RedOp::kSum) {
      acc = T(U(acc) + U(x));
    } else if (op == RedOp::kProd) {
      acc = T(U(acc) * U(x));
    } else {
      acc = combine<T>(op, acc, x);
    }
  }
  std::memcpy(out, &acc, sizeof acc);
}

void reduce_one_mixed(DType in_dtype, DType out_dtype, RedOp op,
                      const std::vector<const uint8_t*>& in, uint8_t* out) {
  switch (in_dtype) {
    case DType::kI32:
      return reduce_one_integer<int32_t>(op, in, out);
    case DType::kI64:
      return reduce_one_integer<int64_t>(op, in, out);
    case DType::kF64:
      return reduce_one<double>(
          op, in, out, [](const uint8_t* p) { return load<double>(p); },
          [&](double v, uint8_t* p) { encode(out_dtype, v, p); });
    default:
      return reduce_one<float>(
          op, in, out, [&](const uint8_t* p) { return float(decode(in_dtype, p)); },
          [&](float v, uint8_t* p) { encode(out_dtype, double(v), p); });
  }
}

// Bits, except that one NaN is as good as another.
bool same(DType dtype, const uint8_t* a, const uint8_t* b) {
  if (std::memcmp(a, b, dtype_bytes(dtype)) == 0) return true;
  return is_float(dtype) && std::isnan(decode(dtype, a)) && std::isnan(decode(dtype, b));
}

void fill(Random& random, DType dtype, Guarded& memory) {
  const size_t bytes = dtype_bytes(dtype);
  for (size_t i = 0; i + bytes <= memory.size(); i += bytes) {
    uint8_t* at = memory.data() + i;
    const int64_t kind = random.between(0, 9);
    if (!is_float(dtype) || kind == 0) {  // Any pattern: NaN, infinity, denormal, either zero.
      for (size_t b = 0; b < bytes; ++b) at[b] = uint8_t(random.between(0, 255));
    } else if (kind == 1) {
      encode(dtype, random.coin() ? 0.0 : -0.0, at);
    } else {
      encode(dtype, random.real(-100, 100), at);
    }
  }
}

struct Case {
  DType in_dtype, out_dtype;
  RedOp op;
  CpuIsa isa;
  int in_count, out_count;
  size_t elements;
};

std::string describe_case(const Case& c) {
  return std::string(cpu_isa_name(c.isa)) + " " + dtype_name(c.in_dtype) + " to " +
         dtype_name(c.out_dtype) + " " + redop_name(c.op) + " " + std::to_string(c.in_count) +
         " to " + std::to_string(c.out_count) + ", " + std::to_string(c.elements) + " elements, " +
         replay_line();
}

std::vector<Guarded> random_buffers(Random& random, DType dtype, int count, size_t elements) {
  std::vector<Guarded> buffers;
  buffers.reserve(size_t(count));
  const size_t shared = size_t(random.between(0, 15)) * dtype_bytes(dtype);
  const bool aligned_alike = random.coin();
  for (int i = 0; i < count; ++i) {
    const size_t own = size_t(random.between(0, 15)) * dtype_bytes(dtype);
    buffers.emplace_back(elements * dtype_bytes(dtype), aligned_alike ? shared : own);
  }
  return buffers;
}

void check(Random& random, const Case& c) {
  SCOPED_TRACE(describe_case(c));
  const size_t in_bytes = dtype_bytes(c.in_dtype), out_bytes = dtype_bytes(c.out_dtype);
  std::vector<Guarded> inputs = random_buffers(random, c.in_dtype, c.in_count, c.elements);
  std::vector<Guarded> outputs = random_buffers(random, c.out_dtype, c.out_count, c.elements);
  std::vector<const void*> in;
  std::vector<void*> out;
  for (Guarded& g : inputs) {
    fill(random, c.in_dtype, g);
    in.push_back(g.data());
  }
  for (Guarded& g : outputs) out.push_back(g.data());
  if (c.in_dtype == c.out_dtype && random.coin()) {  // In place: an output is an input.
    const size_t which = size_t(random.between(0, c.in_count - 1));
    out[size_t(random.between(0, c.out_count - 1))] = const_cast<void*>(in[which]);
  }
  std::vector<uint8_t> expected(c.elements * out_bytes);
  for (size_t i = 0; i < c.elements; ++i) {
    std::vector<const uint8_t*> one;
    for (const void* p : in) one.push_back(static_cast<const uint8_t*>(p) + i * in_bytes);
    reduce_one_mixed(c.in_dtype, c.out_dtype, c.op, one, expected.data() + i * out_bytes);
  }
  const StoreHint hint = random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal;
  if (c.in_dtype == c.out_dtype) {
    const ReduceFn fn = select_reduce(c.in_dtype, c.op, c.in_count, c.out_count, c.isa);
    ASSERT_NE(fn, nullptr);
    fn(in.data(), c.in_count, out.data(), c.out_count, c.elements, hint);
  } else {
    const ReduceStridedArgs args = {.in_dtype = c.in_dtype,
                                    .out_dtype = c.out_dtype,
                                    .op = c.op,
                                    .in = in.data(),
                                    .in_pitch = nullptr,
                                    .in_count = c.in_count,
                                    .out = out.data(),
                                    .out_pitch = nullptr,
                                    .out_count = c.out_count,
                                    .rows = 1,
                                    .row_elements = c.elements,
                                    .hint = hint};
    reduce_strided(args, c.isa);
  }
  for (void* o : out) {
    for (size_t i = 0; i < c.elements; ++i) {
      const uint8_t* got = static_cast<const uint8_t*>(o) + i * out_bytes;
      ASSERT_TRUE(same(c.out_dtype, got, expected.data() + i * out_bytes))
          << "element " << i << ": " << decode(c.out_dtype, got) << ", expected "
          << decode(c.out_dtype, expected.data() + i * out_bytes);
    }
  }
  for (const Guarded& g : inputs) ASSERT_TRUE(g.guards_intact());
  for (const Guarded& g : outputs) ASSERT_TRUE(g.guards_intact());
}

bool has_meaning(DType dtype, RedOp op) { return op != RedOp::kAvg || is_float(dtype); }

size_t random_elements(Random& random) {
  return size_t(random.between(0, 3) != 0 ? random.between(0, 140) : random.between(141, 700));
}

TEST(Reduce, EqualsTheLoopInOrder) {
  uint64_t salt = 0;
  for (CpuIsa isa : isas()) {
    for (DType dtype : kDTypes) {
      for (RedOp op : kOps) {
        if (!has_meaning(dtype, op)) continue;
        for (int round = 0; round < 20; ++round) {
          Random random(++salt);
          check(random, {dtype, dtype, op, isa, int(random.between(1, 5)),
                         int(random.between(1, 3)), random_elements(random)});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// And those of elements of 16 bits are kept as they were summed.
TEST(Reduce, PartialSumsAreRoundedOnce) {
  constexpr std::pair<DType, DType> kMixed[] = {{DType::kF32, DType::kBF16},
                                                {DType::kF32, DType::kF16},
                                                {DType::kF64, DType::kF32},
                                                {DType::kBF16, DType::kF32},
                                                {DType::kF16, DType::kF32}};
  uint64_t salt = 100000;
  for (CpuIsa isa : isas()) {
    for (const auto& [in_dtype, out_dtype] : kMixed) {
      for (RedOp op : kOps) {
        for (int round = 0; round < 10; ++round) {
          Random random(++salt);
          check(random, {in_dtype, out_dtype, op, isa, int(random.between(1, 5)),
                         int(random.between(1, 3)), random_elements(random)});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Reduce, StridedRowsEqualTheirOwnReductions) {
  for (CpuIsa isa : isas()) {
    for (int round = 0; round < 40; ++round) {
      Random random(200000 + uint64_t(isa) * 1000 + uint64_t(round));
      const DType dtype = random.pick(std::vector<DType>(std::begin(kDTypes), std::end(kDTypes)));
      const size_t bytes = dtype_bytes(dtype), rows = size_t(random.between(0, 6));
      const size_t cols = size_t(random.between(0, 70));
      std::vector<Guarded> in_memory, out_memory;
      std::vector<const void*> in;
      std::vector<void*> out;
      std::vector<int64_t> in_pitch, out_pitch;
      const int in_count = int(random.between(1, 4)), out_count = int(random.between(1, 3));
      in_memory.reserve(4);
      out_memory.reserve(3);
      for (int r = 0; r < in_count; ++r) {
        in_pitch.push_back(int64_t((cols + size_t(random.between(0, 9))) * bytes));
        in_memory.emplace_back(rows * size_t(in_pitch.back()));
        fill(random, dtype, in_memory.back());
        in.push_back(in_memory.back().data());
      }
      for (int j = 0; j < out_count; ++j) {
        out_pitch.push_back(int64_t((cols + size_t(random.between(0, 9))) * bytes));
        out_memory.emplace_back(rows * size_t(out_pitch.back()));
        out.push_back(out_memory.back().data());
      }
      const RedOp op = random.coin() ? RedOp::kSum : RedOp::kMax;
      reduce_strided({.in_dtype = dtype,
                      .out_dtype = dtype,
                      .op = op,
                      .in = in.data(),
                      .in_pitch = in_pitch.data(),
                      .in_count = in_count,
                      .out = out.data(),
                      .out_pitch = out_pitch.data(),
                      .out_count = out_count,
                      .rows = rows,
                      .row_elements = cols,
                      .hint = random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal},
                     isa);
      for (int j = 0; j < out_count; ++j) {
        const Guarded& memory = out_memory[size_t(j)];
        ASSERT_TRUE(memory.guards_intact());
        for (size_t r = 0; r < rows; ++r) {
          for (size_t i = 0; i < cols; ++i) {
            std::vector<const uint8_t*> one;
            for (size_t p = 0; p < in.size(); ++p) {
              one.push_back(static_cast<const uint8_t*>(in[p]) + r * size_t(in_pitch[p]) +
                            i * bytes);
            }
            uint8_t expected[8];
            reduce_one_mixed(dtype, dtype, op, one, expected);
            const uint8_t* got = memory.data() + r * size_t(out_pitch[size_t(j)]) + i * bytes;
            ASSERT_TRUE(same(dtype, got, expected)) << "row " << r << " " << replay_line();
          }
          for (size_t i = cols * bytes; i < size_t(out_pitch[size_t(j)]); ++i) {
            ASSERT_EQ(memory.data()[r * size_t(out_pitch[size_t(j)]) + i], Guarded::kPoison);
          }
        }
      }
    }
  }
}

TEST(Reduce, WhatHasNoMeaningHasNoFunction) {
  for (CpuIsa isa : isas()) {
    EXPECT_EQ(select_reduce(DType::kI32, RedOp::kAvg, 2, 1, isa), nullptr);
    EXPECT_EQ(select_reduce(DType::kI64, RedOp::kAvg, 2, 2, isa), nullptr);
    EXPECT_EQ(select_reduce(DType::kF32, RedOp::kSum, 0, 1, isa), nullptr);
    EXPECT_EQ(select_reduce(DType::kF32, RedOp::kSum, 1, 0, isa), nullptr);
  }
}

TEST(Reduce, TheUnresolvedCallIsTheResolvedOne) {
  Random random(300000);
  const std::vector<float> a = {1, 2, 3}, b = {10, 20, 30};
  std::vector<float> c(3, -1.0f);
  const void* in[] = {a.data(), b.data()};
  void* out[] = {c.data()};
  reduce(DType::kF32, RedOp::kSum, in, 2, out, 1, 3, StoreHint::kNormal);
  EXPECT_EQ(c, (std::vector<float>{11, 22, 33}));
}

}  // namespace
}  // namespace sk::cpu
