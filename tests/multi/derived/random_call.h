// Random calls of any operation, made from its schema: what it may be called with, and the memory
// of each rank.
#ifndef SK_TESTS_MULTI_DERIVED_RANDOM_CALL_H_
#define SK_TESTS_MULTI_DERIVED_RANDOM_CALL_H_

#include <set>
#include <string>
#include <vector>

#include "lib/op/schema.h"
#include "tests/multi/derived/choices.h"
#include "tests/multi/derived/meaning.h"

namespace sk::derived {

constexpr int kRanksMax = 16;

struct Setting {
  int ranks = 1;
  bool put_only = false;
  int workers = 1;
};
// How ranks reach each other: the first of them maps memory, the others put.
using Ways = std::vector<std::string>;
inline const Ways kMapsAndPuts = {"map", "put"};

// A call without its memory. What `op` says of symmetric operands is where they lie.
struct Shape {
  OpDesc op;
  Setting setting;
  std::set<uint32_t> inside;     // Operands that lie in the memory of `may_be_in`.
  std::vector<int64_t> lengths;  // Of the tensors of each list.
  std::vector<int64_t> values;   // Of runtime attributes.
  size_t numbers = 0;            // Of which kind they are.
  // What it is one of, "a type=f16", "ranks=3", so that calls can be chosen that have all pairs.
  std::vector<std::string> features;
};
// A wish of local operations: rows that several workers share. Their oracle takes long, so none are
// where nobody wishes them.
inline constexpr char kRowsAre[] = "rows are", kShared[] = "shared";
// Fewer than `count` where such calls do not come about in many tries.
std::vector<Shape> random_shapes(const Schema& schema, size_t count, Random& random,
                                 const Wishes& wishes = {}, const Ways& ways = kMapsAndPuts);
// One of each of the product of all axes but sizes, named ranks and numbers, which are drawn.
std::vector<Shape> all_shapes(const Schema& schema, Random& random,
                              const Ways& ways = kMapsAndPuts);

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
