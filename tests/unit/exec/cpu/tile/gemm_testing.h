// Problems for the GEMM tests: operands, packed weights, random tiles, guarded outputs.
#ifndef SK_TESTS_UNIT_EXEC_CPU_TILE_GEMM_TESTING_H_
#define SK_TESTS_UNIT_EXEC_CPU_TILE_GEMM_TESTING_H_

#include <algorithm>
#include <limits>
#include <vector>

#include "lib/exec/cpu/tile/gemm.h"
#include "tests/unit/exec/cpu/tile/tile_testing.h"

namespace sk::cpu::testing_support {

inline DType sum_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

// One rank's operands, with padding between rows that must not be read as data.
struct Operands {
  DType dtype;
  int64_t m, n, k, lda, ldb;
  bool transpose_a, transpose_b;
  Guarded a, b;

  Operands(Random& random, DType dtype, int64_t m, int64_t n, int64_t k, bool whole)
      : dtype(dtype),
        m(m),
        n(n),
        k(k),
        lda(0),
        ldb(0),
        transpose_a(random.coin()),
        transpose_b(random.coin()),
        a(0),
        b(0) {
    lda = (transpose_a ? m : k) + random.between(0, 5);
    ldb = (transpose_b ? k : n) + random.between(0, 5);
    a = fill(random, transpose_a ? k : m, transpose_a ? m : k, lda, whole);
    b = fill(random, transpose_b ? n : k, transpose_b ? k : n, ldb, whole);
  }

  Guarded fill(Random& random, int64_t rows, int64_t cols, int64_t ld, bool whole) const {
    const size_t bytes = dtype_bytes(dtype);
    Guarded memory(size_t(rows * ld) * bytes, size_t(random.between(0, 3)) * bytes);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < ld; ++c) {
        const double value = whole ? double(random.between(-4, 4)) : random.real(-1, 1);
        const double padding = std::numeric_limits<double>::quiet_NaN();
        encode(dtype, c < cols ? value : padding, memory.data() + size_t(r * ld + c) * bytes);
      }
    }
    return memory;
  }
  double a_at(int64_t i, int64_t l) const {
    return decode(dtype,
                  a.data() + size_t(transpose_a ? l * lda + i : i * lda + l) * dtype_bytes(dtype));
  }
  double b_at(int64_t l, int64_t j) const {
    return decode(dtype,
                  b.data() + size_t(transpose_b ? j * ldb + l : l * ldb + j) * dtype_bytes(dtype));
  }
};

struct Packed {
  Guarded memory;
  Packed(const GemmKernel* kernel, const Operands& o, Random& random)
      : memory(packed_bytes(kernel, o.k, o.n)) {
    const int64_t unit = gemm_column_unit(kernel);
    for (int64_t col = 0; col < o.n;) {  // In as many calls as chance has it.
      const int64_t end = std::min(o.n, col + unit * random.between(1, 3));
      pack_b(kernel, o.b.data(), o.ldb, o.transpose_b, o.k, o.n, memory.data(), col, end);
      col = end;
    }
  }
};

struct Cut {
  int64_t row, rows, col, cols;
};

inline std::vector<Cut> random_cuts(Random& random, const GemmKernel* kernel, int64_t m,
                                    int64_t n) {
  const int64_t unit = gemm_column_unit(kernel);
  std::vector<Cut> cuts;
  for (int64_t col = 0; col < n;) {
    const int64_t cols = std::min(n - col, unit * random.between(1, 3));
    for (int64_t row = 0; row < m;) {
      const int64_t rows = std::min(m - row, random.between(1, 40));
      cuts.push_back({row, rows, col, cols});
      row += rows;
    }
    col += cols;
  }
  return cuts;
}

inline GemmTileArgs tile_args(const Operands& o, const Packed& packed, const Cut& cut) {
  GemmTileArgs g;
  g.a = o.a.data();
  g.lda = o.lda;
  g.transpose_a = o.transpose_a;
  g.packed_b = packed.memory.data();
  g.m = o.m;
  g.n = o.n;
  g.k = o.k;
  g.row0 = cut.row;
  g.rows = cut.rows;
  g.col0 = cut.col;
  g.cols = cut.cols;
  return g;
}

// Several C of one layout, poisoned; rows are `ldc` apart.
struct Outputs {
  DType dtype;
  int64_t m, n, ldc;
  std::vector<Guarded> c;

  Outputs(Random& random, DType dtype, int64_t m, int64_t n, int count)
      : dtype(dtype), m(m), n(n), ldc(n + random.between(0, 7)) {
    const size_t bytes = dtype_bytes(dtype);
    for (int j = 0; j < count; ++j) {
      c.emplace_back(size_t(m * ldc) * bytes, size_t(random.between(0, 1)) * bytes);
    }
  }
  std::vector<void*> pointers(const Cut& cut) {
    std::vector<void*> at;
    for (Guarded& g : c) {
      at.push_back(g.data() + size_t(cut.row * ldc + cut.col) * dtype_bytes(dtype));
    }
    return at;
  }
  const uint8_t* at(size_t j, int64_t row, int64_t col) const {
    return c[j].data() + size_t(row * ldc + col) * dtype_bytes(dtype);
  }
  void expect_only_tile_written() const {
    for (const Guarded& g : c) {
      EXPECT_TRUE(g.guards_intact());
      const size_t bytes = dtype_bytes(dtype);
      for (int64_t r = 0; r < m; ++r) {
        for (size_t i = size_t(r * ldc + n) * bytes; i < size_t((r + 1) * ldc) * bytes; ++i) {
          ASSERT_EQ(g.data()[i], Guarded::kPoison) << "between rows, after row " << r;
        }
      }
    }
  }
};

struct Shape {
  int64_t m, n, k;
};

inline Shape random_shape(Random& random) {
  const int64_t k_special[] = {0, 1, 31, 33, 257, 1000};
  return {random.between(1, 70), random.between(1, 70),
          random.coin() ? random.between(1, 70) : k_special[random.between(0, 5)]};
}

inline DType random_c_type(Random& random, DType dtype) {
  if (dtype == DType::kF64) return random.coin() ? DType::kF64 : DType::kF32;
  return random.coin() ? dtype : DType::kF32;
}

}  // namespace sk::cpu::testing_support

#endif  // SK_TESTS_UNIT_EXEC_CPU_TILE_GEMM_TESTING_H_
