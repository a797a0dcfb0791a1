// Every operation, as its schema says that it may be called: types, layouts, places, numbers,
// ranks, by load and store or by puts alone, each result held against what the schema says it
// means.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>

#include "tests/multi/derived/cover.h"
#include "tests/multi/derived/elements.h"
#include "tests/multi/derived/run_cases.h"
#include "tests/multi/derived/tolerance.h"

namespace sk::derived {
namespace {

constexpr size_t kBeside = 60;  // Calls that need not have anything new.

// In place of those that cover all pairs: so many random ones, or "all".
const char* asked() { return std::getenv("SK_TEST_DERIVED"); }
bool all_asked() { return asked() != nullptr && std::strcmp(asked(), "all") == 0; }

class Derived : public testing::TestWithParam<const Schema*> {};
class DerivedLarge : public Derived {};

// What the words of the schema may be, each of which some call must have had.
std::vector<std::string> promised(const Schema& schema) {
  std::vector<std::string> out;
  const auto each = [&](const std::string& axis, const std::vector<std::string>& values) {
    for (const std::string& value : values) out.push_back(axis + "=" + value);
  };
  if (schema.scope == Scope::kLocal) {
    each("workers", {"1", "2", "3"});
    if (schema.free[0] != '\0') {
      each(std::string(schema.free) + " in effect",
           {"none", "part of the plan's", "all of the plan's"});
    }
  } else {
    for (int ranks = schema.scope == Scope::kPair ? 2 : 1; ranks <= kRanksMax; ++ranks)
      each("ranks", {std::to_string(ranks)});
    each("peers", kMapsAndPuts);
  }
  for (const Dimension& dimension : schema.dimensions) {
    const std::string condition = std::string(dimension.name) + " >= 1";
    const bool some = std::ranges::any_of(
        schema.conditions, [&](const Condition& is) { return condition == is.holds; });
    each(dimension.name, {"1", "more"});
    if (!some) each(dimension.name, {"0"});
  }
  for (const Attribute& attribute : schema.attributes) {
    if (attribute.kind == AttributeKind::kBool) each(attribute.name, {"no", "yes"});
    if (attribute.kind == AttributeKind::kRedOp)
      each(attribute.name, {"sum", "prod", "min", "max", "avg"});
  }
  for (const OperandSchema& operand : schema.operands) {
    const std::string name = operand.name;
    const bool floats = std::string_view(operand.types) == "float";
    if (floats || std::string_view(operand.types) == "any")
      each(name + " type", {"f32", "f64", "bf16", "f16"});
    if (std::string_view(operand.types) == "any") each(name + " type", {"i32", "i64"});
    if (operand.optional) each(name, {"there", "left out"});
    if (operand.storage != operand.or_storage)
      each(name + " stored", {"as first said", "the other way"});
    if (operand.alias[0] != '\0') each(name + " in place", {"no", "yes"});
    if (operand.reached) each(name + " mapped", {"no", "yes"});
    if (operand.may_be(Storage::kRows)) each(name + " rows apart", {"no", "yes"});
    if (operand.may_be_in[0] != '\0') each(name + " inside", {"no", "yes"});
  }
  return out;
}

std::vector<std::string> missing(const Schema& schema, const Coverage& coverage) {
  std::vector<std::string> out = promised(schema);
  std::erase_if(out, [&](const std::string& feature) {
    const size_t at = feature.find('=');
    const auto axis = coverage.axes().find(feature.substr(0, at));
    return axis != coverage.axes().end() && axis->second.contains(feature.substr(at + 1));
  });
  return out;
}

// Prints what the calls have had, and which pairs no call may have: SK_TEST_DERIVED_PAIRS lists
// these.
TEST_P(Derived, CallsMakeWhatTheSchemaSays) {
  const uint64_t first = seed();
  Random random(first);
  if (asked() != nullptr) {
    const std::vector<Shape> shapes =
        all_asked() ? all_shapes(*GetParam(), random)
                    : random_shapes(*GetParam(), std::strtoull(asked(), nullptr, 10), random);
    ASSERT_FALSE(shapes.empty());
    Coverage coverage;
    for (const Shape& shape : shapes) coverage.add(shape);
    std::printf("%zu calls, %zu pairs: %s\n", shapes.size(), coverage.pairs(),
                coverage.text().c_str());
    return run_shapes(shapes, random, first);
  }
  Cover cover = covering_pairs(*GetParam(), random);
  EXPECT_EQ(missing(*GetParam(), cover.coverage), std::vector<std::string>());
  std::printf("%zu calls have %zu pairs, %zu are of no call: %s\n", cover.shapes.size(),
              cover.coverage.pairs(), cover.never.size(), cover.coverage.text().c_str());
  if (std::getenv("SK_TEST_DERIVED_PAIRS") != nullptr) {
    for (const std::string& pair : cover.never) std::printf("  never: %s\n", pair.c_str());
  }
  RecordProperty("cases", int(cover.shapes.size()));
  for (Shape& shape : random_shapes(*GetParam(), kBeside, random))
    cover.shapes.push_back(std::move(shape));
  run_shapes(cover.shapes, random, first);
}

// Of each type so many rows that two workers or three have their part.
TEST_P(DerivedLarge, WorkersShareIt) {
  const uint64_t first = seed();
  Random random(first);
  for (const char* type : {"f32", "f64", "bf16", "f16"}) {
    const Wishes wishes = {{kRowsAre, kShared},
                           {std::string(GetParam()->operands[0].name) + " type", type},
                           {"workers", random() % 2 == 0 ? "2" : "3"}};
    const std::vector<Shape> shapes = random_shapes(*GetParam(), 1, random, wishes);
    ASSERT_EQ(shapes.size(), 1u) << type;
    run_shapes(shapes, random, first);
  }
}

// As the call would leave it, or nearly so.
RankMemory right(const Case& c, int64_t rank) {
  const OpDesc& op = c.shape.op;
  RankMemory made = c.before[size_t(rank)];
  for (uint32_t i = 0; i < op.schema().operands.size(); ++i) {
    if (op.schema().operands[i].role != Role::kOut || !has(c.shape, i, rank)) continue;
    put_results(c, i, rank, made);
  }
  return made;
}

// The test itself: any bit of any byte of a call's memory, one at a time.
TEST_P(Derived, WhatIsWrongIsSeen) {
  Random random(seed());
  size_t looked = 0;
  for (const Shape& shape : covering_pairs(*GetParam(), random, {{"numbers", "plain"}}).shapes) {
    const Case c = make_case(shape, random);
    const int64_t rank = int64_t(random() % uint64_t(shape.setting.ranks));
    const RankMemory made = right(c, rank);
    ASSERT_EQ(wrong_in(c, rank, made), "") << text_of(shape);
    for (size_t i = 0; i < made.operands.size(); ++i) {
      if (made.operands[i].bytes.empty()) continue;
      RankMemory wrong = made;
      // The highest bit of a number's highest byte is its sign, which is seen of all but zero.
      const size_t element = dtype_bytes(shape.op.type(uint32_t(i)));
      const size_t bytes = made.operands[i].bytes.size() - made.operands[i].offset;
      const size_t at = made.operands[i].offset + random() % (bytes / element) * element;
      std::byte& byte = wrong.operands[i].bytes[at + element - 1];
      if (get(shape.op.type(uint32_t(i)), &wrong.operands[i].bytes[at]) == 0) continue;
      byte ^= std::byte(0x80);
      EXPECT_NE(wrong_in(c, rank, wrong), "") << text_of(shape);
      ++looked;
    }
  }
  EXPECT_TRUE(looked > 3 || GetParam()->operands.empty());
}

double as_stored(double value, DType type) {
  std::byte bytes[sizeof(double)];
  set(type, bytes, value);
  return get(type, bytes);
}

// What a bug makes of a result: by its name, in the terms of what is right. `stale`: of the call
// before.
struct Bug {
  const char* name;
  bool rounds;   // It is as good as right but in its last bits.
  bool borrows;  // It puts other results there, which by chance may be as good.
  void (*plant)(Array& result, const Array& stale, DType type);
};
void turn(Array& array, size_t by) {
  if (by < array.elements.size())
    std::rotate(array.elements.begin(), array.elements.begin() + ptrdiff_t(by),
                array.elements.end());
}
constexpr Bug kBugs[] = {
    {"a scale is missing", false, false,
     [](Array& is, const Array&, DType) {
       for (Value& each : is.elements) each.value *= 2;
     }},
    {"halves are swapped", false, true,
     [](Array& is, const Array&, DType) { turn(is, is.elements.size() / 2); }},
    {"the row before", false, true,
     [](Array& is, const Array&, DType) { turn(is, is.rows > 1 ? size_t(is.columns) : 1); }},
    {"the call before", false, true,
     [](Array& is, const Array& stale, DType) { is.elements = stale.elements; }},
    {"the mean is over padding, too", false, false,
     [](Array& is, const Array&, DType) {
       for (Value& each : is.elements) each.value *= double(is.columns) / double(is.columns + 7);
     }},
    {"rounded to a shorter type on the way", true, false,
     [](Array& is, const Array&, DType type) {
       const DType shorter = type == DType::kF64   ? DType::kF32
                             : type == DType::kF32 ? DType::kBF16
                                                   : type;
       for (Value& each : is.elements) {
         // Of the shortest: without its last bit.
         const double less = type == shorter ? each.value * (1 + step_of(type) * 2) : each.value;
         each.value = as_stored(less, shorter);
       }
     }},
};

// How far the farthest element is off, by what it was made of. As it is stored: twice of what is
// beyond the type is the same infinity.
double farthest(const Array& from, const Array& right, DType type) {
  double most = 0;
  for (size_t i = 0; i < right.elements.size(); ++i) {
    const Value& is = right.elements[i];
    const double size = std::max(is.size, std::fabs(is.value));
    const double off =
        std::fabs(as_stored(from.elements[i].value, type) - as_stored(is.value, type));
    if (std::isfinite(off) && size > 1e-9) most = std::max(most, off / size);
  }
  return most;
}

// Two sums of a thousand random squares, say, may differ by less than either may be off.
bool as_good(const Array& other, const Array& right, DType type) {
  for (size_t i = 0; i < right.elements.size(); ++i) {
    if (!is_right(as_stored(other.elements[i].value, type), right.elements[i], type)) return false;
  }
  return true;
}

// Each of these in a result, and one element that nobody has written. Adds up how often each was
// seen.
void plant_bugs(const Schema& schema, Random& random, std::map<std::string, int>& planted) {
  for (const Shape& shape : covering_pairs(schema, random, {{"numbers", "plain"}}).shapes) {
    const Case c = make_case(shape, random), before = make_case(shape, random);
    const auto rank = int64_t(random() % uint64_t(shape.setting.ranks));
    const OpDesc& op = shape.op;
    for (uint32_t i = 0; i < op.schema().operands.size(); ++i) {
      const OperandSchema& operand = op.schema().operands[i];
      if (operand.role != Role::kOut || !has(shape, i, rank)) continue;
      const Array& made = c.expected.at(operand.name)[size_t(rank)];
      const Array& stale = before.expected.at(operand.name)[size_t(rank)];
      for (const Bug& bug : kBugs) {
        Case wrong = c;
        Array& there = wrong.expected.at(operand.name)[size_t(rank)];
        bug.plant(there, stale, op.type(i));
        // Where the numbers allow it: a row may be like the one before.
        const double seen_from = is_float(op.type(i)) ? 4 * step_of(op.type(i)) : 0;
        if (farthest(there, made, op.type(i)) <= (bug.rounds ? step_of(op.type(i)) : 2 * seen_from))
          continue;
        if (bug.borrows && as_good(there, made, op.type(i))) continue;
        RankMemory memory = right(c, rank);
        put_results(wrong, i, rank, memory);
        const bool seen = !wrong_in(c, rank, memory).empty();
        // Long sums may lose as much as that in their own type.
        if (!bug.rounds) {
          EXPECT_TRUE(seen) << bug.name << ": " << operand.name << " of " << text_of(shape);
        }
        planted[bug.name] += seen;
      }
      if (made.elements.empty() || place_of(shape, i, rank).home != i) continue;
      RankMemory memory = right(c, rank);
      const size_t first = memory.operands[i].offset;
      std::copy_n(&c.before[size_t(rank)].operands[i].bytes[first], dtype_bytes(op.type(i)),
                  &memory.operands[i].bytes[first]);
      // What lay there may be as good as the result by chance.
      const double lay_there = get(op.type(i), &memory.operands[i].bytes[first]);
      if (memory.operands[i].bytes == right(c, rank).operands[i].bytes ||
          is_right(lay_there, made.elements[0], op.type(i)))
        continue;
      EXPECT_NE(wrong_in(c, rank, memory), "") << operand.name << " of " << text_of(shape);
    }
  }
}

TEST_P(Derived, EachPlantedBugIsSeen) {
  constexpr int kSeenMin = 4;
  constexpr int kDrawsMax = 16;  // Of few shapes few results may differ.
  Random random(seed());
  std::map<std::string, int> planted;
  const bool moves = GetParam()->meaning != nullptr;
  const auto is_enough = [&](const Bug& bug) {
    return planted[bug.name] >= kSeenMin || !moves || bug.rounds;
  };
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    plant_bugs(*GetParam(), random, planted);
    if (std::all_of(std::begin(kBugs), std::end(kBugs), is_enough)) break;
  }
  for (const auto& [name, count] : planted) std::printf("%s: seen %d times\n", name.c_str(), count);
  for (const Bug& bug : kBugs) EXPECT_TRUE(is_enough(bug)) << bug.name;
}

std::vector<const Schema*> local_schemas() {
  std::vector<const Schema*> out = schemas();
  std::erase_if(out, [](const Schema* each) { return each->scope != Scope::kLocal; });
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, DerivedLarge, testing::ValuesIn(local_schemas()),
                         [](const auto& info) { return std::string(info.param->name); });
INSTANTIATE_TEST_SUITE_P(All, Derived, testing::ValuesIn(schemas()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace sk::derived
