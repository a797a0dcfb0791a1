#include "lib/tile/user_text.h"

#include <charconv>
#include <cmath>

#include "lib/base/hash.h"
#include "lib/op/expr.h"
#include "lib/op/names.h"
#include "lib/op/types.h"

namespace sk {
namespace {

constexpr size_t kNameMax = 64, kTextMax = 1024;

class Digest {
 public:
  void add(uint64_t value) { value_ = hash_mix(value_, value); }
  void add(const std::string& text) {
    add(text.size());
    for (const char c : text) add(uint64_t(uint8_t(c)));
  }
  uint64_t value() const { return value_ == 0 ? 1 : value_; }

 private:
  uint64_t value_ = 0;
};

// "" where it is one.
std::string why_no_name(const std::string& name) {
  if (name.size() > kNameMax)
    return fmt::format("has {} characters, at most {}", name.size(), kNameMax);
  if (!names::is_name(name)) {
    return "must be made of a to z, 0 to 9 and _, begin with no digit and end with no _";
  }
  if (expr::is_keyword(name) || expr::is_function(name) || names::is_word_elsewhere(name) ||
      name == "world" || name == "rank") {
    return "is a word that libsk or a language keeps for itself";
  }
  return "";
}

// Printable ASCII alone: sentences and JSON are made of it.
bool is_plain(const std::string& text) {
  for (const char c : text) {
    if (c < ' ' || c > '~') return false;
  }
  return text.size() <= kTextMax;
}

// Names in expressions: dimensions, which are axes of some region alone.
struct Dimensions {
  const TileText& text;

  bool find(std::string_view name, int64_t* value) const {
    *value = 0;
    bool found = false;
    for (const TileText::Array& region : text.regions) {
      for_each_axis(region.shape, [&](std::string_view axis) { found |= axis == name; });
    }
    return found && names::is_name(name);
  }
  bool find_is_float(std::string_view, bool*) const { return false; }
};

class Check {
 public:
  explicit Check(const TileText& text) : text_(text) {}

  Status run() const {
    if (const std::string why = why_no_name(text_.name); !why.empty()) {
      return error(SK_ERR_INVALID_ARGUMENT, "name is {}, it {}", quoted_text(text_.name), why);
    }
    if (schema_of(text_.name) != nullptr) {
      return error(SK_ERR_INVALID_ARGUMENT, "name is \"{}\", which is an operation of libsk",
                   text_.name);
    }
    if (!is_plain(text_.summary)) return refuse("summary {}", kPlain);
    if (!is_plain(text_.effect)) return refuse("effect {}", kPlain);
    if (text_.version == 0) return refuse("version is 0, allowed are 1 to 65535");
    SK_RETURN_IF_ERROR(check_cut());
    SK_RETURN_IF_ERROR(check_regions());
    return check_numbers();
  }

 private:
  static constexpr const char* kPlain = "must be printable ASCII of 1024 characters at most";

  template <typename... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return error(SK_ERR_INVALID_ARGUMENT, "tile {}: {}", text_.name,
                 fmt::format(format, std::forward<Args>(args)...));
  }

  Status check_cut() const {
    const bool all = text_.over == TileOver::kAll;
    if (text_.effect.empty() && !all) {
      return refuse(
          "an opaque tile is never cut: over must be SK_TILE_OVER_ALL, or give an effect");
    }
    if (text_.tile_rows < 0 || (all && text_.tile_rows != 0)) {
      return refuse("tile_rows is {}, it must be {}", text_.tile_rows,
                    all ? "0, for nothing is cut" : "0 or more");
    }
    return {};
  }

  Status check_regions() const {
    if (text_.regions.size() < 2 || text_.regions.size() > kTileRegionsMax) {
      return refuse("it has {} regions, allowed are 2 to {}", text_.regions.size(),
                    kTileRegionsMax);
    }
    size_t read = 0;
    for (size_t i = 0; i < text_.regions.size(); ++i) {
      SK_RETURN_IF_ERROR(check_region(i));
      read += text_.regions[i].role == Role::kIn;
    }
    if (read == 0 || read == text_.regions.size()) {
      return refuse("it must read one region at least, and write one");
    }
    return {};
  }
  Status check_region(size_t i) const {
    const TileText::Array& region = text_.regions[i];
    if (const std::string why = why_no_name(region.name); !why.empty()) {
      return refuse("the name of region {} is {}, it {}", i, quoted_text(region.name), why);
    }
    for (size_t j = 0; j < i; ++j) {
      if (region.name == text_.regions[j].name)
        return refuse("two regions are named {}", region.name);
    }
    if (!is_plain(region.doc)) return refuse("the doc of {} {}", region.name, kPlain);
    SK_RETURN_IF_ERROR(check_types(i));
    size_t axes = 0;
    for_each_axis(region.shape, [&](std::string_view) { ++axes; });
    if (axes < 1 || axes > kAxesMax || !is_plain(region.shape)) {
      return refuse("the shape of {} is {}, it must have one axis or two", region.name,
                    quoted_text(region.shape));
    }
    Status read;
    for_each_axis(region.shape, [&](std::string_view axis) {
      if (read.ok()) read = check_expression("an axis of " + region.name, axis);
      const bool own = !names::is_name(axis) || why_no_name(std::string(axis)).empty();
      if (read.ok() && !own) {
        read = refuse(
            "an axis of {} is \"{}\", which is a word that libsk or a language keeps for "
            "itself",
            region.name, axis);
      }
      if (read.ok() && (text_.region(axis) != nullptr)) {
        read = refuse("two things are named {}", axis);
      }
    });
    SK_RETURN_IF_ERROR(std::move(read));
    if (region.in_place.empty()) return {};
    const TileText::Array* home = text_.region(region.in_place);
    if (region.role != Role::kOut || home == nullptr || home->role != Role::kIn) {
      return refuse("{} may be in the memory of {}, which must be a region read, for one written",
                    region.name, quoted_text(region.in_place));
    }
    if (home->shape != region.shape || region.types != home->name) {
      return refuse("{} may be in the memory of {}: its types must be \"{}\" and its shape \"{}\"",
                    region.name, home->name, home->name, home->shape);
    }
    return {};
  }
  Status check_expression(const std::string& what, std::string_view expression) const {
    if (proofread(expression, Dimensions{text_}).ok()) return {};
    return refuse(
        "{} is {}, which cannot be read: numbers, names that some region has as an axis alone, + - "
        "* "
        "// %, cdiv(a, b), min and max",
        what, quoted_text(expression));
  }
  Status check_types(size_t i) const {
    const TileText::Array& region = text_.regions[i];
    bool known = !region.types.empty() && is_plain(region.types);
    for_each_type(region.types, [&](std::string_view rule) {
      bool is = rule == "any" || rule == "float";
      for (int32_t type = SK_F32; type <= SK_I64; ++type) is |= rule == dtype_name(DType(type));
      const std::string_view summed = summed_in(rule);
      for (size_t j = 0; j < i; ++j) {
        is |= text_.regions[j].name == (summed.empty() ? rule : summed);
      }
      known &= is;
    });
    if (known) return {};
    return refuse(
        "the types of {} are {}; give \"any\", \"float\", types such as \"f32|f64\", or the name "
        "of "
        "a region before it",
        region.name, quoted_text(region.types));
  }

  Status check_numbers() const {
    if (text_.numbers.size() > kTileNumbersMax) {
      return refuse("it has {} parameters, allowed are 0 to {}", text_.numbers.size(),
                    kTileNumbersMax);
    }
    for (size_t i = 0; i < text_.numbers.size(); ++i) {
      const TileText::Number& number = text_.numbers[i];
      if (const std::string why = why_no_name(number.name); !why.empty()) {
        return refuse("the name of parameter {} is {}, it {}", i, quoted_text(number.name), why);
      }
      int64_t value = 0;
      bool twice =
          text_.region(number.name) != nullptr || Dimensions{text_}.find(number.name, &value);
      for (size_t j = 0; j < i; ++j) twice |= number.name == text_.numbers[j].name;
      if (twice) return refuse("two things are named {}", number.name);
      if (!is_plain(number.doc)) return refuse("the doc of {} {}", number.name, kPlain);
      SK_RETURN_IF_ERROR(check_bounds(number));
    }
    return {};
  }
  Status check_bounds(const TileText::Number& number) const {
    if (number.kind == AttributeKind::kInt) {
      for (const std::string* bound : {&number.least, &number.most}) {
        if (bound->empty()) continue;
        SK_RETURN_IF_ERROR(check_expression("a bound of " + number.name, *bound));
      }
      return {};
    }
    double lowest = 0, highest = 0;
    for (const auto& [text, value] :
         {std::pair(&number.least, &lowest), {&number.most, &highest}}) {
      if (text->empty() || read_float(*text, value)) continue;
      return refuse("a bound of {} is {}, it must be a number", number.name, quoted_text(*text));
    }
    if (number.least.empty() || number.most.empty() || lowest <= highest) return {};
    return refuse("{} would have to be from {} to {}", number.name, lowest, highest);
  }

  const TileText& text_;
};

}  // namespace

const char* tile_over_name(TileOver over) {
  switch (over) {
    case TileOver::kRows:
      return "rows";
    case TileOver::kBlocks:
      return "blocks";
    case TileOver::kAll:
      return "all";
  }
  return "?";
}

const TileText::Array* TileText::region(std::string_view wanted) const {
  for (const Array& each : regions) {
    if (each.name == wanted) return &each;
  }
  return nullptr;
}

uint64_t TileText::digest() const {
  Digest digest;
  for (const std::string* each : {&name, &summary, &effect}) digest.add(*each);
  for (const uint64_t each : {uint64_t(version), uint64_t(over), uint64_t(serial),
                              uint64_t(tile_rows), uint64_t(regions.size())}) {
    digest.add(each);
  }
  for (const Array& each : regions) {
    digest.add(uint64_t(each.role));
    for (const auto* text : {&each.name, &each.types, &each.shape, &each.in_place, &each.doc}) {
      digest.add(*text);
    }
  }
  for (const Number& each : numbers) {
    digest.add(uint64_t(each.kind));
    for (const auto* text : {&each.name, &each.least, &each.most, &each.doc}) digest.add(*text);
  }
  return digest.value();
}

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kNameMax)) out += c < ' ' || c > '~' ? '?' : c;
  return out + (text.size() > kNameMax ? "...\"" : "\"");
}

bool read_float(const std::string& text, double* value) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, *value);
  return read.ec == std::errc() && read.ptr == end && !std::isnan(*value);
}

Status check_tile_text(const TileText& text) { return Check(text).run(); }

}  // namespace sk
