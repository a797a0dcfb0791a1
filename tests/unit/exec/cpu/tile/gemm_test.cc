// GEMM tiles against a triple loop in f64, on every instruction set of the machine.
//
// Whole numbers must come out exact, others within what k roundings allow; no byte outside the tile
// may change; and the bits of an element may not depend on how the problem was cut.
#include "lib/exec/cpu/tile/gemm.h"

#include <cmath>

#include "tests/unit/exec/cpu/tile/amx_emulation.h"
#include "tests/unit/exec/cpu/tile/gemm_testing.h"

namespace sk::cpu {
namespace {

using namespace testing_support;
using Epilogue = GemmTileArgs::Epilogue;

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 0x1p-53;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

// Sums of `ranks` products: exact for whole numbers, else within what the roundings allow.
void expect_close(const std::vector<Operands>& ranks, const Outputs& out, bool whole) {
  const Operands& o = ranks[0];
  for (int64_t i = 0; i < o.m; ++i) {
    for (int64_t j = 0; j < o.n; ++j) {
      double sum = 0, magnitude = 0;
      for (const Operands& r : ranks) {
        for (int64_t l = 0; l < o.k; ++l) {
          const double product = r.a_at(i, l) * r.b_at(l, j);
          sum += product;
          magnitude += std::fabs(product);
        }
      }
      const double roundings = double(o.k + int64_t(ranks.size())) + 2;
      const double tolerance = roundings * epsilon(sum_type(o.dtype)) * magnitude +
                               (epsilon(out.dtype) * std::fabs(sum)) * 1.01 + 0x1p-24;
      uint8_t rounded[8];
      encode(out.dtype, sum, rounded);
      for (size_t c = 0; c < out.c.size(); ++c) {
        const double got = decode(out.dtype, out.at(c, i, j));
        if (whole) {
          ASSERT_EQ(got, decode(out.dtype, rounded)) << "row " << i << " col " << j << " C " << c;
        } else {
          ASSERT_NEAR(got, sum, tolerance) << "row " << i << " col " << j << " C " << c;
        }
      }
    }
  }
}

// Those of every instruction set that may run here, and the AMX kernel emulated.
std::vector<const GemmKernel*> kernels(DType dtype) {
  std::vector<const GemmKernel*> all;
  for (CpuIsa isa : isas()) {
    const GemmKernel* kernel = select_gemm(dtype, isa);
    if (all.empty() || all.back() != kernel) all.push_back(kernel);
  }
#if defined(__x86_64__)
  if (dtype == DType::kBF16 && cpu_isa() >= CpuIsa::kAvx512) all.push_back(emulated_amx_kernel());
#endif
  return all;
}

class GemmTile : public testing::TestWithParam<DType> {};

std::string describe_case(const GemmKernel* kernel, const Shape& s, int round) {
  return std::string(gemm_kernel_name(kernel)) + " " + std::to_string(s.m) + "x" +
         std::to_string(s.n) + "x" + std::to_string(s.k) + " round " + std::to_string(round) + " " +
         replay_line();
}

TEST_P(GemmTile, StoreEqualsTheTripleLoop) {
  uint64_t salt = 0;
  for (const GemmKernel* kernel : kernels(GetParam())) {
    ++salt;
    for (int round = 0; round < 40; ++round) {
      Random random(salt * 1000 + uint64_t(round));
      const Shape s = random_shape(random);
      SCOPED_TRACE(describe_case(kernel, s, round));
      const bool whole = random.coin();
      std::vector<Operands> ranks;
      ranks.emplace_back(random, GetParam(), s.m, s.n, s.k, whole);
      const Packed packed(kernel, ranks[0], random);
      ASSERT_TRUE(packed.memory.guards_intact());
      Outputs out(random, random_c_type(random, GetParam()), s.m, s.n, int(random.between(1, 3)));
      for (const Cut& cut : random_cuts(random, kernel, s.m, s.n)) {
        GemmTileArgs g = tile_args(ranks[0], packed, cut);
        const std::vector<void*> c = out.pointers(cut);
        g.c = c.data();
        g.c_count = int(c.size());
        g.ldc = out.ldc;
        g.c_dtype = out.dtype;
        g.hint = random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal;
        gemm_tile(kernel, g);
      }
      expect_close(ranks, out, whole);
      out.expect_only_tile_written();
      if (HasFatalFailure()) return;
    }
  }
}

// Method: each rank's product is stored alone, in the accumulator type, and the products are added
// here in rank order; the fused epilogue must give these very bits.
TEST_P(GemmTile, ReduceIsTheSumInRankOrderRoundedOnce) {
  const DType sum_dtype = sum_type(GetParam());
  uint64_t salt = 0;
  for (const GemmKernel* kernel : kernels(GetParam())) {
    ++salt;
    for (int round = 0; round < 15; ++round) {
      Random random(7000 + salt * 1000 + uint64_t(round));
      const Shape s = random_shape(random);
      SCOPED_TRACE(describe_case(kernel, s, round));
      const int rank_count = int(random.between(1, 4));
      std::vector<Operands> ranks;
      std::vector<Packed> packed;
      std::vector<Outputs> alone;
      for (int r = 0; r < rank_count; ++r) {
        ranks.emplace_back(random, GetParam(), s.m, s.n, s.k, /*whole=*/false);
        packed.emplace_back(kernel, ranks.back(), random);
        alone.emplace_back(random, sum_dtype, s.m, s.n, 1);
        const Cut all = {0, s.m, 0, s.n};
        GemmTileArgs g = tile_args(ranks.back(), packed.back(), all);
        const std::vector<void*> c = alone.back().pointers(all);
        g.c = c.data();
        g.c_count = 1;
        g.ldc = alone.back().ldc;
        g.c_dtype = sum_dtype;
        gemm_tile(kernel, g);
      }
      Outputs out(random, random_c_type(random, GetParam()), s.m, s.n, rank_count);
      for (const Cut& cut : random_cuts(random, kernel, s.m, s.n)) {
        const int self = int(random.between(0, rank_count - 1));
        std::vector<Guarded> partials;
        std::vector<const void*> pointers;
        for (int r = 0; r < rank_count; ++r) {
          partials.emplace_back(partial_bytes(kernel, cut.rows, cut.cols));
          pointers.push_back(r == self ? nullptr : partials.back().data());
          if (r == self) continue;
          GemmTileArgs g = tile_args(ranks[size_t(r)], packed[size_t(r)], cut);
          g.epilogue = Epilogue::kPartial;
          g.partial = partials.back().data();
          gemm_tile(kernel, g);
          ASSERT_TRUE(partials.back().guards_intact());
        }
        GemmTileArgs g = tile_args(ranks[size_t(self)], packed[size_t(self)], cut);
        const std::vector<void*> c = out.pointers(cut);
        g.epilogue = Epilogue::kReduce;
        g.c = c.data();
        g.c_count = int(c.size());
        g.ldc = out.ldc;
        g.c_dtype = out.dtype;
        g.hint = random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal;
        g.partials = pointers.data();
        g.partial_count = rank_count;
        g.self = self;
        gemm_tile(kernel, g);
      }
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = decode(sum_dtype, alone[0].at(0, i, j));
          for (int r = 1; r < rank_count; ++r) {
            sum += decode(sum_dtype, alone[size_t(r)].at(0, i, j));
            if (sum_dtype == DType::kF32) sum = double(float(sum));  // As f32 adds.
          }
          uint8_t expected[8];
          encode(out.dtype, sum, expected);
          for (size_t c = 0; c < out.c.size(); ++c) {
            ASSERT_EQ(decode(out.dtype, out.at(c, i, j)), decode(out.dtype, expected))
                << "row " << i << " col " << j << " C " << c;
          }
        }
      }
      out.expect_only_tile_written();
      if (HasFatalFailure()) return;
    }
  }
}

// One NaN, one infinity and one tiny element, each alone in its row of one rank's product: the
// other rank's is zero there. All epilogues but partials, which carry them.
TEST_P(GemmTile, NanInfinityAndTinySumsReachTheResult) {
  const double tiny = GetParam() == DType::kF16 ? 0x1p-14 : 0x1p-120;  // Normal in every type.
  const double specials[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), tiny};
  uint64_t salt = 0;
  for (const GemmKernel* kernel : kernels(GetParam())) {
    for (int own = 0; own < 2; ++own) {  // Whose tile is finished.
      Random random(13000 + ++salt);
      const Shape s = {random.between(3, 40), random.between(1, 70), random.between(1, 50)};
      SCOPED_TRACE(describe_case(kernel, s, own));
      const size_t bytes = dtype_bytes(GetParam());
      std::vector<Operands> ranks;
      std::vector<Packed> packed;
      for (int rank = 0; rank < 2; ++rank) {
        Operands& o = ranks.emplace_back(random, GetParam(), s.m, s.n, s.k, /*whole=*/true);
        for (int64_t l = 0; l < s.k; ++l) {
          for (int64_t j = 0; j < s.n; ++j) {
            encode(o.dtype, 1.0,
                   o.b.data() + size_t(o.transpose_b ? j * o.ldb + l : l * o.ldb + j) * bytes);
          }
          for (int64_t i = 0; i < 3; ++i) {
            const double value = rank == 0 && l == s.k / 2 ? specials[i] : 0.0;
            encode(o.dtype, value,
                   o.a.data() + size_t(o.transpose_a ? l * o.lda + i : i * o.lda + l) * bytes);
          }
        }
        packed.emplace_back(kernel, o, random);
      }
      const Cut all = {0, s.m, 0, s.n};
      Guarded partial(partial_bytes(kernel, s.m, s.n));
      GemmTileArgs other = tile_args(ranks[size_t(1 - own)], packed[size_t(1 - own)], all);
      other.epilogue = Epilogue::kPartial;
      other.partial = partial.data();
      other.hint = random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal;
      gemm_tile(kernel, other);
      const void* partials[] = {own == 0 ? nullptr : partial.data(),
                                own == 1 ? nullptr : partial.data()};
      Outputs out(random, random_c_type(random, GetParam()), s.m, s.n, 2);
      GemmTileArgs g = tile_args(ranks[size_t(own)], packed[size_t(own)], all);
      const std::vector<void*> c = out.pointers(all);
      g.epilogue = Epilogue::kReduce;
      g.c = c.data();
      g.c_count = 2;
      g.ldc = out.ldc;
      g.c_dtype = out.dtype;
      g.hint = random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal;
      g.partials = partials;
      g.partial_count = 2;
      g.self = own;
      gemm_tile(kernel, g);
      for (size_t j = 0; j < 2; ++j) {
        for (int64_t column = 0; column < s.n; ++column) {
          ASSERT_TRUE(std::isnan(decode(out.dtype, out.at(j, 0, column)))) << column;
          ASSERT_EQ(decode(out.dtype, out.at(j, 1, column)), specials[1]) << column;
          ASSERT_EQ(decode(out.dtype, out.at(j, 2, column)), tiny) << column;
        }
      }
    }
  }
}

// Roundings that all go one way: in one chain of 4,096 additions they pass what numerical libraries
// allow for f32 (1e-5 of the value).
TEST(GemmTileSums, OfThousandsStayAccurate) {
  const std::pair<double, double> ranges[] = {{1.0 / 3, 0.0}, {1e4, 1.0}};  // Value, noise.
  uint64_t salt = 0;
  for (const GemmKernel* kernel : kernels(DType::kF32)) {
    for (const auto& [value, noise] : ranges) {
      Random random(11000 + ++salt);
      Operands o(random, DType::kF32, random.between(14, 20), random.between(30, 40), 4096, true);
      SCOPED_TRACE(describe_case(kernel, {o.m, o.n, o.k}, 0));
      for (Guarded* matrix : {&o.a, &o.b}) {
        const int64_t count = matrix == &o.a ? (o.transpose_a ? o.k : o.m) * o.lda
                                             : (o.transpose_b ? o.n : o.k) * o.ldb;
        for (int64_t i = 0; i < count; ++i) {
          const double each = matrix == &o.a ? value + noise * random.real(-1, 1)
                              : noise > 0    ? random.real(0, 1)
                                             : value;
          encode(DType::kF32, each, matrix->data() + size_t(i) * 4);
        }
      }
      const Packed packed(kernel, o, random);
      Outputs out(random, DType::kF32, o.m, o.n, 1);
      const Cut all = {0, o.m, 0, o.n};
      GemmTileArgs g = tile_args(o, packed, all);
      const std::vector<void*> c = out.pointers(all);
      g.c = c.data();
      g.c_count = 1;
      g.ldc = out.ldc;
      g.c_dtype = DType::kF32;
      gemm_tile(kernel, g);
      for (int64_t i = 0; i < o.m; ++i) {
        for (int64_t j = 0; j < o.n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < o.k; ++l) sum += o.a_at(i, l) * o.b_at(l, j);
          ASSERT_NEAR(decode(DType::kF32, out.at(0, i, j)), sum, 1e-5 * std::fabs(sum) + 1e-6)
              << "row " << i << " col " << j;
        }
      }
    }
  }
}

// Beyond one block of rows, columns and k, where sums are carried between chunks.
TEST_P(GemmTile, BitsDoNotDependOnTheTiling) {
  uint64_t salt = 0;
  for (const GemmKernel* kernel : kernels(GetParam())) {
    ++salt;
    Random random(9000 + salt);
    const Shape s = {random.between(300, 330), random.between(1030, 1100),
                     random.between(1030, 1100)};
    SCOPED_TRACE(describe_case(kernel, s, 0));
    const Operands o(random, GetParam(), s.m, s.n, s.k, /*whole=*/false);
    const Packed packed(kernel, o, random);
    const DType c_dtype = sum_type(GetParam());
    Outputs whole(random, c_dtype, s.m, s.n, 1), cut_up(random, c_dtype, s.m, s.n, 1);
    const auto run = [&](Outputs& out, const Cut& cut) {
      GemmTileArgs g = tile_args(o, packed, cut);
      const std::vector<void*> c = out.pointers(cut);
      g.c = c.data();
      g.c_count = 1;
      g.ldc = out.ldc;
      g.c_dtype = c_dtype;
      gemm_tile(kernel, g);
    };
    run(whole, {0, s.m, 0, s.n});
    const int64_t unit = gemm_column_unit(kernel);
    for (int64_t col = 0; col < s.n; col += 7 * unit) {
      for (int64_t row = 0; row < s.m; row += 101) {
        run(cut_up, {row, std::min<int64_t>(101, s.m - row), col, std::min(7 * unit, s.n - col)});
      }
    }
    for (int64_t i = 0; i < s.m; ++i) {
      ASSERT_EQ(
          0, std::memcmp(whole.at(0, i, 0), cut_up.at(0, i, 0), size_t(s.n) * dtype_bytes(c_dtype)))
          << "row " << i;
    }
    // The whole tile went through every inner block: some rows against the oracle.
    for (int sample = 0; sample < 200; ++sample) {
      const int64_t i = random.between(0, s.m - 1), j = random.between(0, s.n - 1);
      double sum = 0, magnitude = 0;
      for (int64_t l = 0; l < s.k; ++l) {
        sum += o.a_at(i, l) * o.b_at(l, j);
        magnitude += std::fabs(o.a_at(i, l) * o.b_at(l, j));
      }
      ASSERT_NEAR(decode(c_dtype, whole.at(0, i, j)), sum,
                  double(s.k + 2) * epsilon(c_dtype) * magnitude)
          << "row " << i << " col " << j;
    }
    whole.expect_only_tile_written();
    cut_up.expect_only_tile_written();
  }
}

TEST_P(GemmTile, TilingCoversTheProblemInWholeUnits) {
  for (const GemmKernel* kernel : kernels(GetParam())) {
    const int64_t unit = gemm_column_unit(kernel);
    for (int64_t m : {1, 13, 64, 512, 1000, 4096}) {
      for (int64_t n : {1, 32, 333, 512, 2048}) {
        for (int parts : {1, 2, 3, 16}) {
          const GemmTiling t = gemm_tiling(kernel, m, n, 512, parts);
          EXPECT_GE(t.m, 1);
          EXPECT_LE(t.m, m);
          EXPECT_EQ(t.n % unit, 0);
          // The ranks that own the tiles wait for each other.
          const int64_t row_tiles = (m + t.m - 1) / t.m, last = m - (row_tiles - 1) * t.m;
          EXPECT_GE(last + std::max(t.m / 64, row_tiles), t.m) << m << " in " << t.m;
          const int64_t tiles = ((m + t.m - 1) / t.m) * ((n + t.n - 1) / t.n);
          if (m < 512 || n < 512) continue;
          EXPECT_GE(tiles, parts) << m << " " << n << " " << t.m;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmTile,
                         testing::Values(DType::kF32, DType::kF64, DType::kBF16, DType::kF16),
                         [](const auto& param) { return std::string(dtype_name(param.param)); });

TEST(GemmKernels, IntegersHaveNone) {
  EXPECT_EQ(select_gemm(DType::kI32), nullptr);
  EXPECT_EQ(select_gemm(DType::kI64), nullptr);
}

TEST(GemmKernels, ScratchCanBeReservedAhead) { EXPECT_TRUE(gemm_reserve_scratch().ok()); }

TEST(GemmKernels, AmxRunsWhereTheMachineHasIt) {
  if (cpu_isa() < CpuIsa::kAmx) {
    GTEST_SKIP() << "the processor has no AMX, or SK_CPU_ISA rules it out: this machine's highest "
                    "set is "
                 << cpu_isa_name(cpu_isa());
  }
  EXPECT_STREQ(gemm_kernel_name(select_gemm(DType::kBF16)), "bf16 amx");
}

}  // namespace
}  // namespace sk::cpu
