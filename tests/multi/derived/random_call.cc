#include "tests/multi/derived/random_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "lib/algo/planner.h"
#include "lib/op/expr.h"
#include "lib/op/judge.h"
#include "lib/op/scope.h"
#include "lib/op/stored.h"
#include "lib/op/types.h"
#include "lib/op/values.h"
#include "tests/multi/derived/elements.h"
#include "tests/multi/derived/numbers.h"
#include "tests/multi/derived/tolerance.h"

namespace sk::derived {
namespace {

constexpr int64_t kWorkMax = 60'000;  // Elements that the oracle may have to look at, about.
constexpr int64_t kExtents[] = {2, 3, 5, 8, 13, 17, 32, 33, 70, 200, 1000, 5000};

// What workers of one rank share has so many elements at least: of two bytes, three times as
// many as one worker keeps to itself.
constexpr int64_t kSharedElements = 200'000;

class ShapeMaker {
 public:
  ShapeMaker(const Schema& schema, const Ways& ways, Choices& choices, Random& random)
      : schema_(schema),
        choices_(choices),
        random_(random),
        shape_{OpDesc(schema), setting(ways), {}, {}, {}, 0, {}} {}

  bool make() {
    OpDesc& op = shape_.op;
    if (!dimensions()) return false;
    for (size_t i = 0; i < schema_.attributes.size(); ++i) {
      const int64_t value = attribute(schema_.attributes[i]);
      if (schema_.attributes[i].runtime) shape_.values.push_back(value);
      op.set(schema_.attribute_field(i), value);
    }
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) choose(i);
    // A product of many such numbers is beyond all types in some orders, and not in others.
    const auto factors = schema_.attribute("op");
    const bool joins = factors != nullptr && factors->kind == AttributeKind::kRedOp;
    if (joins && RedOp(op[schema_.field("op")]) == RedOp::kProd) {
      shape_.numbers = choices_.draw("numbers", {kNumbers[0], kNumbers[1]});
    } else {
      shape_.numbers = choices_.draw("numbers", kNumbers);
    }
    if (!choices_.kept() || !mistake_in(op, uint32_t(world())).empty()) return false;
    shape_.features = choices_.features();
    if (schema_.has_lists()) choose_lengths();
    tell_rows_in_effect();
    return true;
  }
  Shape take() { return std::move(shape_); }

 private:
  int64_t world() const { return shape_.setting.ranks; }

  Setting setting(const Ways& ways) {
    Setting out;
    if (schema_.scope == Scope::kLocal) {
      out.workers = 1 + int(choices_.pick("workers", {"1", "2", "3"}));
      return out;
    }
    std::vector<std::string> ranks;
    const int least = schema_.scope == Scope::kPair ? 2 : 1;
    for (int count = least; count <= kRanksMax; ++count) ranks.push_back(std::to_string(count));
    out.ranks = least + int(choices_.pick("ranks", ranks));
    out.put_only = choices_.pick("peers", ways) != 0;
    if (out.ranks <= 3) out.workers = 1 + int(choices_.draw("workers", {"1", "2", "3"}));
    return out;
  }

  // Nothing, one or more of each; where workers share a call, so many of the first.
  bool dimensions() {
    int64_t left = kWorkMax / (world() * world()), others = 1;
    bool many = true;
    for (size_t i = 0; i < schema_.dimensions.size(); ++i) {
      const auto kind =
          int64_t(choices_.draw(schema_.dimensions[i].name, {"0", "1", "more", "more", "more"}));
      int64_t extent = std::min<int64_t>(kind, 2);
      if (extent > 1) {
        const auto end = std::upper_bound(std::begin(kExtents), std::end(kExtents), left);
        if (end == std::begin(kExtents)) return false;
        extent = kExtents[random_() % uint64_t(end - std::begin(kExtents))];
      }
      many &= extent > 1;
      if (i > 0) others *= std::max<int64_t>(1, extent);
      left /= std::max<int64_t>(1, extent);
      shape_.op.set(schema_.dimension_field(i), extent);
    }
    if (!choices_.wants(kRowsAre, kShared)) return true;
    if (!many) return false;
    const int64_t rows = kSharedElements / others + 1 + int64_t(random_() % 50);
    shape_.op.set(schema_.dimension_field(0), rows);
    return true;
  }

  int64_t attribute(const Attribute& attribute) {
    switch (attribute.kind) {
      case AttributeKind::kBool:
        return int64_t(choices_.pick_flag(attribute.name));
      case AttributeKind::kRank:
        return int64_t(random_() % uint64_t(world()));
      case AttributeKind::kRedOp:
        return SK_SUM +
               int64_t(choices_.pick(attribute.name, {"sum", "prod", "min", "max", "avg"}));
      case AttributeKind::kInt:
        return integer(attribute);
      case AttributeKind::kFloat:
        break;
    }
    const double chosen = std::pow(10, -double(random_() % 9));
    return bits_of(std::clamp(chosen, attribute.lowest, attribute.highest));
  }
  int64_t integer(const Attribute& attribute) {
    const auto bound = [&](const char* text, int64_t otherwise) {
      return text[0] == '\0' ? otherwise : evaluate(text, OpScope(shape_.op, world())).value;
    };
    const int64_t least = bound(attribute.least, -3), most = bound(attribute.most, least + 6);
    return least + int64_t(random_() % uint64_t(std::max<int64_t>(1, most - least + 1)));
  }

  // Tensors of no element and of one among them; of no elements perhaps no tensor.
  void choose_lengths() {
    int64_t left = shape_.op[schema_.field(schema_.free)];
    while (left > 0 || chance(random_, 2)) {
      const int64_t some = left > 0 ? 1 + int64_t(random_() % uint64_t(left)) : 0;
      const int64_t lengths[] = {0, std::min<int64_t>(1, left), some, some};
      shape_.lengths.push_back(lengths[random_() % 4]);
      left -= shape_.lengths.back();
    }
    const size_t count = shape_.lengths.size();
    shape_.features.push_back(
        fmt::format("lists of={}", count > 2 ? "more" : fmt::to_string(count)));
  }

  void choose(uint32_t i) {
    OpDesc& op = shape_.op;
    const OperandSchema& operand = schema_.operands[i];
    const std::string name = operand.name;
    if (operand.optional && choices_.pick(name, {"there", "left out"}) == 1) {
      op.set(OpDesc::absent_field(i), 1);
      op.set(OpDesc::type_field(i), int64_t(first_type(op, i)));
      return;
    }
    std::vector<DType> types;
    std::vector<std::string> type_names;
    for (int32_t type = SK_F32; type <= SK_I64; ++type) {
      if (!may_have_type(op, i, DType(type))) continue;
      types.push_back(DType(type));
      type_names.emplace_back(dtype_name(DType(type)));
    }
    if (types.empty()) return;
    op.set(OpDesc::type_field(i), int64_t(types[choices_.pick(name + " type", type_names)]));
    if (operand.storage != operand.or_storage) {
      const bool other = choices_.pick(name + " stored", {"as first said", "the other way"}) == 1;
      op.set(OpDesc::storage_field(i), int64_t(other ? operand.or_storage : operand.storage));
    }
    const bool in_place = operand.alias[0] != '\0' && choices_.pick_flag(name + " in place");
    if (!in_place && operand.reached && choices_.pick_flag(name + " mapped"))
      op.set(OpDesc::symmetric_field(i), 1);
    if (op.storage(i) == Storage::kRows && !in_place) {
      const Stored how = stored(op, i, uint32_t(world()));
      const bool apart = choices_.pick_flag(name + " rows apart");
      const int64_t pad = !apart ? 0 : random_() % 2 == 0 ? 1 : 7;
      op.set(schema_.stride_field(i), std::max<int64_t>(1, how.columns) + pad);
    }
    if (in_place) share(i);
    if (operand.may_be_in[0] != '\0' && choices_.pick_flag(name + " inside"))
      shape_.inside.insert(i);
  }
  void share(uint32_t i) {
    OpDesc& op = shape_.op;
    const auto home =
        uint32_t(schema_.operand(schema_.operands[i].alias) - schema_.operands.data());
    op.set(OpDesc::aliased_field(i), 1);
    // An operand behind this one gets the same type by its own rule.
    if (op.storage(i) == Storage::kRows && home < i)
      op.set(schema_.stride_field(i), op[schema_.stride_field(home)]);
  }

  // Of a plan for any number of rows: whether the call has all that its plan was made for.
  void tell_rows_in_effect() {
    if (schema_.free[0] == '\0') return;
    uint64_t extent = 0;
    const OpDesc planned = with_room(shape_.op, &extent);
    const int64_t rows = shape_.op[schema_.field(schema_.free)];
    const char* which = rows == 0                                     ? "none"
                        : planned[schema_.field(schema_.free)] > rows ? "part of the plan's"
                                                                      : "all of the plan's";
    shape_.features.push_back(fmt::format("{} in effect={}", schema_.free, which));
  }

  const Schema& schema_;
  Choices& choices_;
  Random& random_;
  Shape shape_;
};

// B that a call takes packed is given as rows without gaps, and packed by the library.
Stored as_given(const OpDesc& op, uint32_t operand, int64_t world) {
  Stored how = stored(op, operand, uint32_t(world));
  if (how.storage != Storage::kPackedB) return how;
  const Array shape = shaped(op, world, op.schema().operands[operand].shape);
  how.rows = shape.rows;
  how.columns = how.stride = shape.columns;
  how.element_bytes = dtype_bytes(op.type(operand));
  return how;
}

// Where an element of the shape's row and column is stored, in bytes.
size_t at(const Shape& shape, uint32_t operand, const Stored& how, int64_t row, int64_t column) {
  const OpDesc& op = shape.op;
  if (op.schema().operands[operand].list)
    return size_t(listed_at(shape, column)) * how.element_bytes;
  const bool turned =
      how.storage != Storage::kPackedB && flag(op, op.schema().operands[operand].turned_by);
  const int64_t index = turned ? column * how.stride + row : row * how.stride + column;
  return size_t(index) * how.element_bytes;
}

}  // namespace

int64_t listed_at(const Shape& shape, int64_t element) {
  int64_t behind = 0;  // What lies before an element's tensor is listed after it.
  size_t tensor = 0;
  while (tensor < shape.lengths.size() && element >= shape.lengths[tensor])
    element -= shape.lengths[tensor++];
  for (size_t i = tensor + 1; i < shape.lengths.size(); ++i) behind += shape.lengths[i] + 1;
  return behind + element;
}

std::vector<Shape> random_shapes(const Schema& schema, size_t count, Random& random,
                                 const Wishes& wishes, const Ways& ways) {
  std::vector<Shape> out;
  for (size_t tries = 0; tries < 200 * count && out.size() < count; ++tries) {
    Choices choices(random, wishes);
    ShapeMaker maker(schema, ways, choices, random);
    if (maker.make()) out.push_back(maker.take());
  }
  return out;
}

std::vector<Shape> all_shapes(const Schema& schema, Random& random, const Ways& ways) {
  constexpr int kTries = 100;  // Sizes are drawn, and not all fit.
  std::vector<Shape> out;
  Choices choices = Choices::of_all(random);
  do {
    for (int tries = 0; tries < kTries; ++tries) {
      Choices same = choices;
      ShapeMaker maker(schema, ways, same, random);
      const bool made = maker.make();
      if (made) out.push_back(maker.take());
      if (made || tries + 1 == kTries) {
        choices = same;
        break;
      }
    }
  } while (choices.next());
  return out;
}

bool has(const Shape& shape, uint32_t operand, int64_t rank) {
  return !shape.op.absent(operand) && has_operand(shape.op, operand, uint32_t(rank));
}

Place place_of(const Shape& shape, uint32_t operand, int64_t rank) {
  const Schema& schema = shape.op.schema();
  const OperandSchema& is = schema.operands[operand];
  const auto number = [&](const char* name) {
    return uint32_t(schema.operand(name) - schema.operands.data());
  };
  if (shape.inside.contains(operand) && has(shape, number(is.may_be_in), rank))
    return {number(is.may_be_in), 0};
  if (!shape.op.aliased(operand)) return {operand, 0};
  const OpScope scope(shape.op, shape.setting.ranks, rank);
  return {number(is.alias), evaluate(is.alias_at, scope).value};
}

Case make_case(const Shape& shape, Random& random) {
  const OpDesc& op = shape.op;
  const Schema& schema = op.schema();
  const int64_t world = shape.setting.ranks;
  Case c{shape, std::vector<RankMemory>(size_t(world)), {}};
  // First the memory, so that what lies in another operand's is put there.
  for (int64_t rank = 0; rank < world; ++rank) {
    RankMemory& mine = c.before[size_t(rank)];
    mine.operands.resize(schema.operands.size());
    for (uint32_t i = 0; i < schema.operands.size(); ++i) {
      if (!has(shape, i, rank) || place_of(shape, i, rank).home != i) continue;
      const Stored how = as_given(op, i, world);
      int64_t elements =
          how.rows == 0 || how.columns == 0 ? 0 : (how.rows - 1) * how.stride + how.columns;
      if (schema.operands[i].list) elements += int64_t(shape.lengths.size());
      Memory& memory = mine.operands[i];
      memory.offset = Memory::kGuard + random() % 4 * how.element_bytes;
      memory.bytes.resize(memory.offset + size_t(elements) * how.element_bytes + Memory::kGuard);
      for (std::byte& each : memory.bytes) each = std::byte(random() | 1);
    }
  }
  std::vector<uint32_t> read;
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (schema.operands[i].role == Role::kIn && !op.absent(i)) read.push_back(i);
  }
  const uint32_t odd_operand = read.empty() ? 0 : read[random() % read.size()];
  const auto odd_rank = int64_t(random() % uint64_t(world));
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (op.absent(i)) continue;
    const OperandSchema& operand = schema.operands[i];
    Array shaped_as = shaped(op, world, operand.shape);
    std::vector<Array> by_rank(size_t(world), shaped_as);
    const Stored how = as_given(op, i, world);
    for (int64_t rank = 0; rank < world; ++rank) {
      if (!has(shape, i, rank)) continue;
      Array& array = by_rank[size_t(rank)];
      array.elements.resize(size_t(array.rows * array.columns));
      if (operand.role != Role::kIn) continue;
      const Place place = place_of(shape, i, rank);
      Memory& memory = c.before[size_t(rank)].operands[place.home];
      std::byte* first =
          memory.bytes.data() + memory.offset + size_t(place.first) * how.element_bytes;
      // Of all ranks and inputs one alone has it.
      const bool is_odd = rank == odd_rank && i == odd_operand && array.rows * array.columns > 0;
      const int64_t odd =
          is_odd ? int64_t(random() % uint64_t(array.rows * array.columns)) : int64_t(-1);
      for (int64_t row = 0; row < array.rows; ++row) {
        for (int64_t column = 0; column < array.columns; ++column) {
          std::byte* to = first + at(shape, i, how, row, column);
          double one = number(op.type(i), kNumbers[shape.numbers], random);
          if (is_float(op.type(i)) && row * array.columns + column == odd) {
            if (kNumbers[shape.numbers] == "one NaN")
              one = std::numeric_limits<double>::quiet_NaN();
            if (kNumbers[shape.numbers] == "one infinity")
              one = std::numeric_limits<double>::infinity();
          }
          set(op.type(i), to, operand.not_negative ? std::fabs(one) : one);
          const double value = get(op.type(i), to);
          array.at(row, column) = {value, std::fabs(value), true};
        }
      }
    }
    c.expected.emplace(operand.name, std::move(by_rank));
  }
  // An output in place of an input begins as that, and its elements are made.
  make_results(op, world, shape.values, c.expected);
  return c;
}

namespace {

// `visit(value, type, where)` for each element of an output, `where` in its home's memory.
template <typename Visitor>
void for_each_result(const Case& c, uint32_t operand, int64_t rank, const RankMemory& memory,
                     Visitor&& visit) {
  const OpDesc& op = c.shape.op;
  Array want = c.expected.at(op.schema().operands[operand].name)[size_t(rank)];
  const Place place = place_of(c.shape, operand, rank);
  const Stored how = as_given(op, operand, c.shape.setting.ranks);
  const size_t first = memory.operands[place.home].offset + size_t(place.first) * how.element_bytes;
  for (int64_t row = 0; row < want.rows; ++row) {
    for (int64_t column = 0; column < want.columns; ++column) {
      const size_t where = first + at(c.shape, operand, how, row, column);
      // Of a schema that is wrong: in place of another it may be longer than that.
      if (where + how.element_bytes > memory.operands[place.home].bytes.size())
        throw std::runtime_error("a result lies behind the memory that it is in");
      visit(row, column, want.at(row, column), place.home, where);
    }
  }
}

}  // namespace

void put_results(const Case& c, uint32_t operand, int64_t rank, RankMemory& into) {
  for_each_result(c, operand, rank, into,
                  [&](int64_t, int64_t, const Value& value, uint32_t home, size_t where) {
                    set(c.shape.op.type(operand), &into.operands[home].bytes[where], value.value);
                  });
}

std::string wrong_in(const Case& c, int64_t rank, const RankMemory& after) {
  const OpDesc& op = c.shape.op;
  const Schema& schema = op.schema();
  const RankMemory& before = c.before[size_t(rank)];
  // What may be written is made as it was once it has been looked at; then all is compared.
  RankMemory rest = after;
  std::string wrong;
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    if (schema.operands[i].role != Role::kOut || !has(c.shape, i, rank)) continue;
    const DType type = op.type(i);
    for_each_result(c, i, rank, after,
                    [&](int64_t row, int64_t column, const Value& value, uint32_t home, size_t at) {
                      const double got = get(type, &after.operands[home].bytes[at]);
                      std::copy_n(&before.operands[home].bytes[at], dtype_bytes(type),
                                  &rest.operands[home].bytes[at]);
                      if (is_right(got, value, type) || !wrong.empty()) return;
                      wrong =
                          fmt::format("{}[{}, {}] of rank {} is {}, it must be {}",
                                      schema.operands[i].name, row, column, rank, got, value.value);
                    });
  }
  for (uint32_t i = 0; wrong.empty() && i < schema.operands.size(); ++i) {
    if (rest.operands[i].bytes == before.operands[i].bytes) continue;
    wrong = fmt::format("memory of {} of rank {} was written where nothing is said of it",
                        schema.operands[i].name, rank);
  }
  return wrong;
}

std::string text_of(const Shape& shape) {
  std::string text = describe(shape.op);
  for (const std::string& each : shape.features) text += "; " + each;
  return text;
}

}  // namespace sk::derived
