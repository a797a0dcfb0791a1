// What a tile operation does: constant data, one record each, in the notation of operations
// (lib/op/steps.h) over its regions. Its parameters mean what the record says of them, or nothing.
//
// Where a record has ranges its iterators go over parts of an array, and parameters say which; else
// a tile goes over its regions element by element, whatever they hold.
#ifndef SK_LIB_EFFECT_TILE_H_
#define SK_LIB_EFFECT_TILE_H_

#include <span>
#include <string>
#include <vector>

#include "lib/effect/layout.h"
#include "lib/op/dtype.h"
#include "lib/op/steps.h"

namespace sk::effect {

// Texts are expressions of parameters.
struct RangeRecord {
  const char* iterator;
  const char* first;
  const char* count;
  const char* whole;  // What it goes over in the operation: the extent there.
};

struct RegionRecord {
  const char* name;
  const char* type = "";       // A parameter's name; "accumulator(dtype)"; empty: bytes.
  const char* turned_by = "";  // The parameter under which it is stored column after column.
  const Layout* layout = nullptr;
  bool written = false;
  bool repeats = false;         // Several regions, or a region in several buffers: its entries.
  bool whole = false;           // It holds all of its array, whatever of it the step reads.
  bool from_first_row = false;  // Kernels count its rows from the array's first.
};

struct FormRecord {
  const char* steps;
  std::span<const RegionRecord> regions;  // In the order of the task's.
  std::span<const RangeRecord> ranges = {};
};

struct TileRecord {
  std::span<const char* const> parameters;  // In the order of the task's.
  std::span<const FormRecord> forms;
  const char* form_by = "";  // The parameter that chooses among them.
  // Null where the kernels have what the parameters ask for, else a sentence.
  std::string (*refuses)(std::span<const int64_t> parameters) = nullptr;
};

// The same with names looked up: made once.
class Tile {
 public:
  static constexpr size_t kRangesMax = 6;
  struct Number {  // Of parameters.
    int parameter = -1;
    int64_t constant = 0;
    std::string_view text = {};  // Where it is neither.
  };
  struct Range {
    std::string_view name;  // Of its iterator.
    Number first, count, whole;
  };
  struct Place {
    int region = -1;
    enum At : uint8_t { kOne, kEach, kOwn } at = kOne;  // Of its entries.
    std::array<int, kAxesMax> index{-1, -1};            // Iterators: rows, columns.
    int blocks_of = -1;  // The one of them whose blocks these are, not its elements.
    Number block = {};   // So many elements each.
  };
  struct Bound {
    std::string_view name;
    Number value;
  };
  struct Do {
    Place out;
    std::string_view function = {};
    bool joins = false, uncut = false;
    Number monoid = {};  // A RedOp.
    int over = -1;       // The iterator of what is joined, unless entries are.
    Few<int, kInsideMax> inside = {};
    Few<Place, kStepInputsMax> in = {};
    Few<Bound, kStepBindingsMax> bind = {};
  };
  struct RegionOf {
    const RegionRecord* record = nullptr;
    int type = -1;  // A parameter.
    bool sums = false;
    int turned_by = -1;
  };
  struct Form {
    std::vector<RegionOf> regions;
    std::vector<Range> ranges;  // By iterator; empty: element by element.
    std::vector<Do> steps;
    int own_region = -1, own_parameter = -1;  // The entry that the form makes itself.

    // Of a task's `count` regions: which of `regions`.
    size_t role(size_t region, size_t count) const;
  };

  explicit Tile(const TileRecord& record);

  const TileRecord& record() const { return record_; }
  // Null where no form has that number.
  const Form* form(std::span<const int64_t> parameters) const;
  int64_t value(const Number& number, std::span<const int64_t> parameters) const;
  // "", or the first thing that is wrong with its texts. Of the library's own a test asks, of a
  // user's who registers it.
  std::string_view flaw() const { return flaw_; }

 private:
  Number number(std::string_view text);
  void add(const FormRecord& record);
  int iterator(std::string_view name);
  Place place(const Access& access, Form& form);
  Do lowered(const Step& step, Form& form);
  static bool makes_each_output_once(const Form& form);
  static std::string_view elements_flaw(const Form& form);
  void require(bool holds, std::string_view flaw) {
    if (!holds && flaw_.empty()) flaw_ = flaw;
  }

  const TileRecord& record_;
  std::vector<Form> forms_;
  std::vector<std::string_view> names_;  // Of the form's iterators.
  int form_by_ = -1;
  std::string_view flaw_;
};

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_TILE_H_
