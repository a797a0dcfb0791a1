// What one call means: its schema's steps (lib/op/steps.h) with all names and expressions computed.
//
// Terms are in normal form: a moved element is the element that it was, all ranks' contributions
// of one rank alone are that rank's. So there are terms of operands and of what functions make, and
// of what is joined of them.
#ifndef SK_LIB_EFFECT_MEANING_H_
#define SK_LIB_EFFECT_MEANING_H_

#include <map>
#include <string>
#include <vector>

#include "lib/effect/layout.h"
#include "lib/effect/stream.h"
#include "lib/op/op.h"

namespace sk::effect {

inline constexpr size_t kIteratorsMax = 6;
using Iterators = std::array<int64_t, kIteratorsMax>;  // A value for each.

// A sum of multiples of iterators.
struct Index {
  int64_t base = 0;
  Iterators factor{};

  int64_t at(const Iterators& values) const;
  // The one iterator that it is, or -1.
  int alone() const;
  bool operator==(const Index&) const = default;
};

// An array of a vector's shape has one row.
struct ArrayInfo {
  std::string_view name;
  DType dtype = DType::kF32;
  uint64_t rows = 1, cols = 0;
};

struct Projection {
  uint8_t array = 0;  // As terms count.
  Index rank = {};
  std::array<Index, kAxesMax> index = {};  // Rows, columns.
  bool operator==(const Projection&) const = default;
};

// A step that makes what was not there: terms of its `out` are elements.
struct Function {
  struct Bound {
    std::string_view name;
    int64_t value = 0;
    bool is_float = false;  // The bits of a double.
  };
  std::string_view name;
  RedOp redop = RedOp::kSum;
  bool joins = false;  // Over `uncut`, in an order of its own.
  int uncut = -1;
  uint64_t block = 0;  // `out` has an element of each so many of `uncut`; 0: of all.
  Few<int, kInsideMax> inside = {};
  Projection out = {};
  Few<Projection, kStepInputsMax> in = {};
  Iterators extent{};
  Few<Bound, kStepBindingsMax> bind = {};

  bool whole_only(int iterator) const;  // A tile has all of it or none.
  bool element_by_element() const;      // One element of each input at the place of the output.
};

class Meaning {
 public:
  Meaning(const OpDesc& op, uint32_t world_size);

  const ArrayInfo& array(uint32_t number) const { return arrays_[number - 1]; }  // As terms count.
  const std::vector<Function>& functions() const { return functions_; }
  // The step that joins the ranks' elements of `array` so, or null.
  const Joining* joining(uint32_t array, RedOp redop) const;
  // The term stored as `dtype`: rounded, at most once, when it is what some array holds as such; or
  // widened to what sums of it are kept in.
  Status store(Term* term, DType dtype) const;

  // The array whose elements it has, in another order; itself where a step makes or joins them.
  uint32_t origin(uint32_t array) const;
  // What elements of an array hold in the end; false where `rank` has no such elements.
  bool hold(uint32_t array, uint32_t rank, const Rect& rect, Stream* out) const;
  // The same, stored column after column.
  bool hold_turned(uint32_t array, uint32_t rank, const Rect& rect, Stream* out) const;

  std::string describe(const Term& term) const;
  std::string describe(const Piece& piece) const;

 private:
  bool hold_in(uint32_t array, uint32_t rank, const Rect& rect, bool turned, Stream* out) const;
  // What no step makes: elements of `rank`, as they are stored.
  Piece own(uint32_t array, uint32_t rank, const Rect& stored, bool turned) const;

  // Which multiples of the inner iterator's extent, and which value of it: `r * count + i`.
  struct Radix {
    int inner = -1, outer = -1;  // -1: there is none, it is 0.
    uint64_t extent = 1;         // Of the inner one.
    uint64_t split(uint64_t at, uint64_t length, Iterators* values) const;
  };
  struct Move {
    uint8_t out_array = 0;
    Index out_rank = {};
    std::array<Radix, kAxesMax> out_index = {};
    Projection in = {};
    int joined = -1;  // Over this iterator: `joinings_[joining]`.
    uint8_t joining = 0;
  };
  class Lowering;

  const Move* move_to(uint32_t array) const;
  bool is_stored(const Term& term, DType dtype) const;
  bool is_given(const Term& term) const;

  std::vector<ArrayInfo> arrays_;
  std::vector<Joining> joinings_;
  std::vector<Move> moves_;
  std::vector<Function> functions_;
};

// Blocks that are laid out for kernels.
struct Block {
  const Layout* layout = nullptr;
  uint32_t array = 0;
  Rect rect = {};
  uint64_t bytes = 0;
};

class Blocks {
 public:
  // `term` as an element of such a block.
  Term lay_out(const Term& term, const Block& block);
  // Null where it is none.
  const Block* of(const Term& term) const { return term.laid_out ? &blocks_[term.last] : nullptr; }
  static Term read(Term term) {
    term.laid_out = false;
    term.last = term.first + 1;
    return term;
  }

 private:
  std::vector<Block> blocks_;
  std::map<std::array<uint64_t, 7>, uint32_t> known_;
};

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_MEANING_H_
