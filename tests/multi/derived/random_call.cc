#include "tests/multi/derived/random_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/op/expr.h"
#include "lib/op/judge.h"
#include "lib/op/scope.h"
#include "lib/op/stored.h"
#include "lib/op/types.h"
#include "lib/op/values.h"
#include "tests/multi/derived/elements.h"

namespace sk::derived {
namespace {

constexpr int64_t kWorkMax = 60'000;  // Elements that the oracle may have to look at, about.
constexpr int64_t kExtents[] = {0, 1, 2, 3, 5, 8, 13, 17, 32, 33, 70, 200, 1000, 5000};

template <typename T>
const T& one_of(const std::vector<T>& all, Random& random) {
  return all[random() % all.size()];
}
bool chance(Random& random, uint32_t in) { return random() % in == 0; }

// Numbers that no type here is troubled by: products of as many as there are ranks stay small.
double number(DType type, Random& random) {
  if (!is_float(type)) return double(int64_t(random() % 5) - 2);
  const double size = 0.5 + double(random() % 1024) / 1024;
  return chance(random, 2) ? size : -size;
}

class ShapeMaker {
 public:
  ShapeMaker(const Schema& schema, const Setting& setting, Random& random)
      : schema_(schema), random_(random), shape_{OpDesc(schema), setting, {}, {}, {}, {}} {}

  bool make() {
    OpDesc& op = shape_.op;
    int64_t work = world() * world();
    for (size_t i = 0; i < schema_.dimensions.size(); ++i) {
      const int64_t extent = kExtents[random_() % std::size(kExtents)];
      op.set(schema_.dimension_field(i), extent);
      work *= std::max<int64_t>(1, extent);
    }
    for (size_t i = 0; i < schema_.attributes.size(); ++i) {
      const int64_t value = attribute(schema_.attributes[i]);
      if (schema_.attributes[i].runtime) shape_.values.push_back(value);
      op.set(schema_.attribute_field(i), value);
    }
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) choose(i);
    if (schema_.has_lists()) choose_lengths();
    if (work > kWorkMax || !mistake_in(op, uint32_t(world())).empty()) return false;
    tell_features();
    return true;
  }
  Shape take() { return std::move(shape_); }

 private:
  int64_t world() const { return shape_.setting.ranks; }

  int64_t attribute(const Attribute& attribute) {
    switch (attribute.kind) {
      case AttributeKind::kBool:
        return int64_t(random_() % 2);
      case AttributeKind::kRank:
        return int64_t(random_() % uint64_t(world()));
      case AttributeKind::kRedOp:
        return SK_SUM + int64_t(random_() % (SK_AVG - SK_SUM + 1));
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
  }

  void choose(uint32_t i) {
    OpDesc& op = shape_.op;
    const OperandSchema& operand = schema_.operands[i];
    if (operand.optional && chance(random_, 3)) {
      op.set(OpDesc::absent_field(i), 1);
      op.set(OpDesc::type_field(i), int64_t(first_type(op, i)));
      return;
    }
    std::vector<DType> types;
    for (int32_t type = SK_F32; type <= SK_I64; ++type) {
      if (may_have_type(op, i, DType(type))) types.push_back(DType(type));
    }
    if (types.empty()) return;
    op.set(OpDesc::type_field(i), int64_t(one_of(types, random_)));
    if (operand.storage != operand.or_storage) {
      op.set(OpDesc::storage_field(i),
             int64_t(chance(random_, 2) ? operand.storage : operand.or_storage));
    }
    if (operand.reached && chance(random_, 3)) op.set(OpDesc::symmetric_field(i), 1);
    if (op.storage(i) == Storage::kRows) {
      const int64_t pads[] = {0, 0, 1, 7};
      const Stored how = stored(op, i, uint32_t(world()));
      op.set(schema_.stride_field(i), std::max<int64_t>(1, how.columns) + pads[random_() % 4]);
    }
    if (operand.alias[0] != '\0' && chance(random_, 4)) in_place(i);
    if (operand.may_be_in[0] != '\0' && chance(random_, 3)) shape_.inside.insert(i);
  }
  void in_place(uint32_t i) {
    OpDesc& op = shape_.op;
    const auto home =
        uint32_t(schema_.operand(schema_.operands[i].alias) - schema_.operands.data());
    op.set(OpDesc::aliased_field(i), 1);
    op.set(OpDesc::symmetric_field(i), 0);
    // An operand behind this one gets the same type by its own rule.
    if (op.storage(i) == Storage::kRows && home < i)
      op.set(schema_.stride_field(i), op[schema_.stride_field(home)]);
  }

  void tell_features() {
    const OpDesc& op = shape_.op;
    const auto tell = [&](std::string feature) { shape_.features.push_back(std::move(feature)); };
    tell(fmt::format("ranks={}", world()));
    tell(fmt::format("put_only={}", shape_.setting.put_only));
    for (size_t i = 0; i < schema_.dimensions.size(); ++i) {
      const int64_t extent = op[schema_.dimension_field(i)];
      tell(fmt::format("{} is {}", schema_.dimensions[i].name,
                       extent > 1    ? "more"
                       : extent == 1 ? "1"
                                     : "0"));
    }
    if (schema_.has_lists()) {
      const size_t count = shape_.lengths.size();
      tell(fmt::format("lists of {}", count > 2 ? "more" : fmt::to_string(count)));
    }
    for (size_t i = 0; i < schema_.attributes.size(); ++i) {
      const Attribute& each = schema_.attributes[i];
      if (each.kind != AttributeKind::kBool && each.kind != AttributeKind::kRedOp) continue;
      tell(fmt::format("{}={}", each.name, value_text(each, op[schema_.attribute_field(i)])));
    }
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      const OperandSchema& each = schema_.operands[i];
      if (op.absent(i)) {
        tell(fmt::format("{} absent", each.name));
        continue;
      }
      tell(fmt::format("{} {}", each.name, dtype_name(op.type(i))));
      if (each.storage != each.or_storage)
        tell(fmt::format("{} stored {}", each.name, int(op.storage(i))));
      if (each.reached) tell(fmt::format("{} symmetric {}", each.name, op.symmetric(i)));
      if (each.alias[0] != '\0') tell(fmt::format("{} in place {}", each.name, op.aliased(i)));
      if (each.may_be_in[0] != '\0')
        tell(fmt::format("{} inside {}", each.name, shape_.inside.contains(i)));
      if (op.storage(i) != Storage::kRows) continue;
      tell(fmt::format("{} apart {}", each.name,
                       op[schema_.stride_field(i)] > stored(op, i, uint32_t(world())).columns));
    }
  }

  const Schema& schema_;
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

std::vector<Setting> settings_of(const Schema& schema) {
  if (schema.scope == Scope::kLocal) return {{1, false, 1}, {1, false, 2}, {1, false, 3}};
  std::vector<Setting> all;
  for (const int ranks : {1, 2, 3, 5, 8, 16}) {
    if (schema.scope == Scope::kPair && ranks == 1) continue;
    for (const bool put_only : {false, true}) {
      all.push_back({ranks, put_only, ranks > 3 ? 1 : ranks});
    }
  }
  return all;
}

std::vector<Shape> random_shapes(const Schema& schema, size_t count, Random& random) {
  const std::vector<Setting> settings = settings_of(schema);
  std::vector<Shape> out;
  for (size_t tries = 0; tries < 200 * count && out.size() < count; ++tries) {
    ShapeMaker maker(schema, one_of(settings, random), random);
    if (maker.make()) out.push_back(maker.take());
  }
  return out;
}

std::vector<Shape> covering_pairs(std::vector<Shape> all) {
  std::set<std::pair<std::string, std::string>> seen;
  const auto take = [&](const Shape& shape) {
    size_t added = 0;
    for (const std::string& a : shape.features) {
      for (const std::string& b : shape.features) added += a <= b && seen.emplace(a, b).second;
    }
    return added;
  };
  // Those that have most come first: a later one then adds what is rare.
  std::vector<Shape> chosen;
  for (Shape& shape : all) {
    if (take(shape) != 0) chosen.push_back(std::move(shape));
  }
  return chosen;
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
      for (int64_t row = 0; row < array.rows; ++row) {
        for (int64_t column = 0; column < array.columns; ++column) {
          std::byte* to = first + at(shape, i, how, row, column);
          const double drawn = number(op.type(i), random);
          set(op.type(i), to, operand.not_negative ? std::fabs(drawn) : drawn);
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
      visit(row, column, want.at(row, column), place.home,
            first + at(c.shape, operand, how, row, column));
    }
  }
}

// By how much a result of that type may differ: half a step where it is rounded once.
double tolerance(const Value& value, DType type) {
  if (value.exact || !is_float(type)) return 0;
  const double sums = step_of(accumulator(type)) * 64;
  return std::fabs(value.value) * step_of(type) / 2 + value.size * sums +
         (type == DType::kF16 ? 0x1p-24 : 1e-37);
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
                      std::byte stored[sizeof(double)];  // Perhaps beyond the largest of its type.
                      set(type, stored, value.value);
                      const bool same = got == get(type, stored) ||
                                        std::fabs(got - value.value) <= tolerance(value, type);
                      if (same || !wrong.empty()) return;
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
