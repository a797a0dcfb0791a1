// Random calls of rmsnorm and of its gradient, with their data and an oracle in f64 that is written
// from the formulas alone.
#ifndef SK_TESTS_SUPPORT_ROWS_CASE_H_
#define SK_TESTS_SUPPORT_ROWS_CASE_H_

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "sk.h"

namespace sk::testing_support {

struct RowsCase {
  bool backward = false;
  int32_t dtype = SK_F32, weight_dtype = SK_F32, dweight_dtype = SK_F32;
  int64_t m = 1, n = 1;
  int64_t ldx = 1, ldy = 1, lddy = 1;  // ldy: of y, or of dx.
  bool weight = true, second = true;   // `second`: rstd is returned, or dweight.
  bool in_place = false;
  double eps = 1e-5;
};
RowsCase random_rows(std::mt19937_64& random, int64_t elements_max);
std::string describe(const RowsCase& c);

// An operand's memory; `ld` is 0 of a vector.
struct RowsArray {
  int32_t dtype = SK_F32;
  int64_t rows = 0, cols = 0, ld = 0;
  std::vector<std::byte> bytes;

  int64_t at(int64_t row, int64_t col) const { return (ld == 0 ? 0 : row * ld) + col; }
  double get(int64_t index) const;
  void set(int64_t index, double value);
};

// Inputs by chance, outputs poisoned.
struct RowsData {
  RowsArray x, y, weight, rstd;  // Forward; in place y is empty.
  RowsArray dy, dx, dweight;
};
RowsData make_rows(const RowsCase& c, std::mt19937_64& random);

// "" where `after` holds what the formulas make of `before`, and nothing beside rows has changed.
std::string wrong_rows(const RowsCase& c, const RowsData& before, const RowsData& after);

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_ROWS_CASE_H_
