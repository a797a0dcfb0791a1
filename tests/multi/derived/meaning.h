// What a schema says that a call makes, computed: every array in doubles, element after element,
// without a plan, a tile or a rank of its own. The oracle of all operations that have a meaning.
#ifndef SK_TESTS_MULTI_DERIVED_MEANING_H_
#define SK_TESTS_MULTI_DERIVED_MEANING_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/op/schema.h"

namespace sk::derived {

// `size`: how large the numbers were that it was computed from, for what rounding may make of it:
// the sum of the magnitudes of all terms. `exact`: nothing was computed, it was moved or chosen.
struct Value {
  double value = 0, size = 0;
  bool exact = true;
  double roundings = 0;  // Of numbers up to `size`, at most, in whatever order terms are summed.
  double lost = 0;       // What may be lost below the smallest normal numbers.
};

// Rows and columns as the schema's shape has them, not as they are stored; a vector is one row.
struct Array {
  int64_t rows = 0, columns = 0;
  std::vector<Value> elements;  // Empty where the rank does not have it.

  Value& at(int64_t row, int64_t column) { return elements[size_t(row * columns + column)]; }
  bool here() const { return !elements.empty(); }
};

// By name, then by rank.
using Arrays = std::map<std::string, std::vector<Array>, std::less<>>;

// The shape of an operand or inner array.
Array shaped(const OpDesc& op, int64_t world, const char* shape);

// `arrays` holds the inputs of each rank, those that the call has; results are added. A function
// that it does not know is an error: a schema with a new one adds its formula to functions.cc.
// `values`: of runtime attributes.
void make_results(const OpDesc& op, int64_t world, std::span<const int64_t> values, Arrays& arrays);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_MEANING_H_
