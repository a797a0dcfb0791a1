// What a task of an operation looks like, and what it does: its parameters, what each of its
// regions is to it, and what becomes of them.
#ifndef SK_LIB_TILE_SIGNATURE_H_
#define SK_LIB_TILE_SIGNATURE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/effect/tile.h"
#include "lib/plan/task.h"

namespace sk {

// How a parameter is written in text.
enum class ParamKind : uint8_t {
  kInteger,
  kBool,
  kDtype,
  kRedop,
  kWord,
  kFloat,  // The bits of a double; as the number that they are.
};

enum class ParamUse : uint8_t {
  kMeaning,  // What is computed.
  kPlace,    // Where in an array, or among the ranks, a region lies.
  kHint,     // How, and never what.
  kRun,      // Meant as kMeaning is; plans have which value of a run it is (kRunValue).
};

struct Parameter {
  const char* name;
  ParamKind kind;
  ParamUse use;
  int64_t min, max;
  std::span<const char* const> words = {};  // kWord: of the values from `min` on.

  constexpr bool has_words() const {
    return kind == ParamKind::kDtype || kind == ParamKind::kRedop || kind == ParamKind::kWord;
  }
  // "f32", "sum", "stream"; "" where it is written as a number.
  std::string_view word(int64_t value) const;
};

inline constexpr uint8_t kNoParameter = UINT8_MAX;

struct RegionRole {
  const char* name;
  RegionAccess access;
  bool many_buffers = false;  // Else buffer_count is 1.
  bool repeats = false;       // One region or more, as many as a task has room for.
  // The parameter that names the one entry which the task makes itself: nobody touches it there.
  uint8_t but_parameter = kNoParameter;
  const char* type = "";       // A parameter's name; "accumulator(dtype)"; empty: bytes.
  const char* turned_by = "";  // The parameter under which it is stored column after column.
  const effect::Layout* layout = nullptr;
  bool whole = false;           // It holds all of its array, whatever of it the step reads.
  bool from_first_row = false;  // Kernels count its rows from the array's first.
  // It is read while other elements than those at its place are written: even a tile that works in
  // place may not write over it.
  bool read_again = false;

  // What is read from several places has entries; what is written is written alike everywhere.
  constexpr bool has_entries() const { return access == kRead && (many_buffers || repeats); }
};

struct Form {
  std::span<const RegionRole> regions;
  // What it does, in the notation of lib/op/steps.h over regions and ranges; without ranges it goes
  // over its regions element by element.
  const char* steps = "";
  std::span<const effect::RangeRecord> ranges = {};

  constexpr uint32_t region_count_min() const { return uint32_t(regions.size()); }
  constexpr uint32_t region_count_max() const {
    for (const RegionRole& role : regions) {
      if (role.repeats) return kRepeatedRegionsMax;
    }
    return region_count_min();
  }
  constexpr bool takes(uint32_t count) const {
    return count == regions.size() || (count >= region_count_min() && count <= region_count_max());
  }
  // Of region `index` of `count`; null where the form has no such region, or not so many.
  const RegionRole* role(uint32_t index, uint32_t count) const {
    if (index >= count) return nullptr;
    return count == regions.size() ? &regions[index] : repeated_role(index, count);
  }

 private:
  const RegionRole* repeated_role(uint32_t index, uint32_t count) const;
};

struct Signature {
  const char* name;  // As in the text form.
  std::span<const Parameter> parameters = {};
  std::span<const Form> forms;  // One, or one for each value of `form_parameter`.
  uint8_t form_parameter = kNoParameter;
  bool touches_peers = false;  // May read or write other ranks' buffers where they are mapped.
  // Null where it has all types that parameters may name, else a sentence, "" for what it has.
  std::string (*refuses)(std::span<const int64_t> params) = nullptr;

  uint32_t region_count_min() const;
  uint32_t region_count_max() const;

  // The rest is asked of parameters that this has, in their order.
  const Form* form(std::span<const int64_t> params) const {
    return form_parameter == kNoParameter ? &forms[0] : form_of(params[form_parameter]);
  }
  const RegionRole* role(std::span<const int64_t> params, uint32_t index, uint32_t count) const {
    const Form* found = form(params);
    return found == nullptr ? nullptr : found->role(index, count);
  }
  // Of region `index` of `count`, the entry of its buffers that nobody touches.
  std::optional<uint64_t> own_entry(std::span<const int64_t> params, uint32_t index,
                                    uint32_t count) const {
    const RegionRole* found = role(params, index, count);
    if (found == nullptr || found->but_parameter == kNoParameter) return std::nullopt;
    return uint64_t(params[found->but_parameter]);
  }

 private:
  // Null for a value of `form_parameter` that has none.
  const Form* form_of(int64_t value) const;
};

}  // namespace sk

#endif  // SK_LIB_TILE_SIGNATURE_H_
