// Random calls of any operation, made from its schema: what it may be called with, and the memory
// of each rank.
#ifndef SK_TESTS_MULTI_DERIVED_RANDOM_CALL_H_
#define SK_TESTS_MULTI_DERIVED_RANDOM_CALL_H_

#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/op/schema.h"
#include "tests/multi/derived/meaning.h"

namespace sk::derived {

using Random = std::mt19937_64;

struct Setting {
  int ranks = 1;
  bool put_only = false;
  int workers = 1;
};
// Some settings that an operation of `scope` is tried in.
std::vector<Setting> settings_of(const Schema& schema);

// A call without its memory. What `op` says of symmetric operands is where they lie.
struct Shape {
  OpDesc op;
  Setting setting;
  std::set<uint32_t> inside;     // Operands that lie in the memory of `may_be_in`.
  std::vector<int64_t> lengths;  // Of the tensors of each list.
  std::vector<int64_t> values;   // Of runtime attributes.
  // What it is one of, "a.dtype=f16", "ranks=3", so that calls can be chosen that have all pairs.
  std::vector<std::string> features;
};
// None where no such call comes about in many tries.
std::vector<Shape> random_shapes(const Schema& schema, size_t count, Random& random);
// Few of them that have every pair of features which two of all have together.
std::vector<Shape> covering_pairs(std::vector<Shape> all);

// Memory of one operand, with room in front and behind that nobody may write.
struct Memory {
  static constexpr size_t kGuard = 64;

  std::vector<std::byte> bytes;  // Poisoned, where it is no input.
  size_t offset = 0;             // Where the operand begins.
};

struct RankMemory {
  std::vector<Memory> operands;  // Empty where the rank has none, or it lies in another's.
};

struct Case {
  Shape shape;
  std::vector<RankMemory> before;  // By rank.
  Arrays expected;
};
Case make_case(const Shape& shape, Random& random);

// In whose memory an operand lies, and at which element.
struct Place {
  uint32_t home;
  int64_t first;
};
Place place_of(const Shape& shape, uint32_t operand, int64_t rank);
bool has(const Shape& shape, uint32_t operand, int64_t rank);

// Where in its memory a list's element lies: its tensors lie apart there, and in another order.
int64_t listed_at(const Shape& shape, int64_t element);

// What is expected of an output, into memory of `rank`.
void put_results(const Case& c, uint32_t operand, int64_t rank, RankMemory& into);

// "" where `after` holds what is expected of `rank`, and all else is as it was.
std::string wrong_in(const Case& c, int64_t rank, const RankMemory& after);

std::string text_of(const Shape& shape);

}  // namespace sk::derived

#endif  // SK_TESTS_MULTI_DERIVED_RANDOM_CALL_H_
