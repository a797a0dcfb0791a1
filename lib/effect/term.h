// What a cell of memory holds, in the words of an operation's meaning, and how such things join.
//
// An element of an array; or what has been joined of several ranks' so far. Where order matters,
// that is an interval: it begins where its block begins and grows by the next one. A whole block is
// an element of the next depth. So what was joined out of order, or across blocks, has no term at
// all. Where order does not matter it is a count and a sum of hashes.
#ifndef SK_LIB_EFFECT_TERM_H_
#define SK_LIB_EFFECT_TERM_H_

#include <span>

#include "lib/base/status.h"
#include "lib/op/dtype.h"
#include "lib/op/steps.h"

namespace sk::effect {

struct Hash {
  uint64_t low = 0, high = 0;

  Hash& operator+=(const Hash& other) {
    const bool carry = __builtin_add_overflow(low, other.low, &low);
    high += other.high + carry;
    return *this;
  }
  bool operator==(const Hash&) const = default;
};

struct Term {
  uint8_t array = 0;  // 1 + its number; 0 is nothing that the operation speaks of.
  uint8_t fold = 0;   // 1 + the number of what joins it; 0 is an element.
  uint8_t depth = 0;
  DType dtype = DType::kF32;
  bool rounded = false;   // No longer what an accumulator holds.
  bool turned = false;    // Stored column after column.
  bool laid_out = false;  // Elements of a block that only kernels can read: `last` is its number.
  // An element's rank, and the next one; else the interval at `depth`; else 0 and the count.
  uint32_t first = 0, last = 1;
  Hash hash = {};  // Where order does not matter: of all that were joined.

  bool is_nothing() const { return array == 0; }
  bool operator==(const Term&) const = default;
};

// One step that joins an array's elements over all ranks.
struct Joining {
  uint8_t number = 0;
  uint8_t array = 0;  // What is joined, as terms count.
  uint8_t out = 0;    // What it makes, likewise.
  RedOp redop = RedOp::kSum;
  DType dtype = DType::kF32;     // Of the elements.
  uint32_t count = 1;            // Ranks.
  Few<uint32_t, 3> blocks = {};  // From the innermost out.
  bool any_order = false;        // Integers: they wrap around alike.
  Hash all = {};                 // Where order does not matter: of all ranks.

  static Hash hash_of(uint32_t rank);
  // All of them, in the type of sums. Of one rank: its element.
  Term whole() const;
  bool is_whole(const Term& term) const;
  // Terms in the order in which a tile joins them. A sentence says what keeps them apart.
  Result<Term> join(std::span<const Term> terms) const;

 private:
  uint32_t count_at(uint32_t depth) const;
  uint32_t block_begin(uint32_t depth, uint32_t element) const;
  uint32_t block_end(uint32_t depth, uint32_t element) const;
  uint32_t first_of(const Term& term) const;  // A rank.
  bool is_block(const Term& term) const;      // Complete at its depth.
  void lower(Term* term) const;               // Of one element: it is that element.
  void raise(Term* term) const;               // A whole block as an element of the next depth.
  Term start(const Term& first) const;
  Status grow(Term* sum, Term next, size_t index) const;
  Status check_input(const Term& term, size_t index) const;
};

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_TERM_H_
