// From a schema's texts to numbers. What is wrong with a text, flaw_in() has said.
#include <algorithm>

#include "lib/effect/meaning.h"
#include "lib/op/names.h"
#include "lib/op/scope.h"

namespace sk::effect {
namespace {

struct IteratorScope {
  const OpScope& call;
  const Few<std::string_view, kIteratorsMax>& names;
  const Iterators& values;

  bool find(std::string_view name, int64_t* value) const {
    const auto* const found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return call.find(name, value);
    *value = values[size_t(found - names.begin())];
    return true;
  }
  bool find_is_float(std::string_view operand, bool* value) const {
    return call.find_is_float(operand, value);
  }
};

}  // namespace

class Meaning::Lowering {
 public:
  Lowering(const OpDesc& op, uint32_t world_size, Meaning* out)
      : op_(op), schema_(op.schema()), world_(world_size), scope_(op, world_size), out_(*out) {}

  void run() {
    for (uint32_t i = 0; i < schema_.operands.size(); ++i) {
      const OperandSchema& operand = schema_.operands[i];
      add_array(operand.name, op_.type(i), operand.shape);
    }
    for (const InnerArray& inner : schema_.arrays) {
      add_array(inner.name, type_of(inner.type), inner.shape);
    }
    if (schema_.meaning == nullptr) return;
    for (const Step& step : *schema_.meaning) {
      if (!is_absent(step.out)) add(step);
    }
  }

 private:
  bool is_absent(const Access& access) const {
    const size_t number = number_of(access.array) - 1u;
    return number < schema_.operands.size() && op_.absent(uint32_t(number));
  }

  int64_t value(std::string_view text) const {
    int64_t value = 0;
    if (names::is_name(text) && scope_.find(text, &value)) return value;  // Most are names.
    return evaluate(text, scope_).value;
  }

  // An attribute alone: expressions know no floats.
  bool means_float(std::string_view text) const {
    return std::ranges::any_of(schema_.attributes, [&](const Attribute& each) {
      return each.kind == AttributeKind::kFloat && names::is_called(text, each.name);
    });
  }

  void add_array(std::string_view name, DType dtype, std::string_view shape) {
    ArrayInfo info{.name = name, .dtype = dtype};
    size_t axes = 0;
    for_each_axis(shape, [&](std::string_view axis) {
      if (axes++ > 0) info.rows = info.cols;
      info.cols = uint64_t(value(axis));
    });
    axes_.push_back(axes);
    out_.arrays_.push_back(info);
  }

  DType type_of(std::string_view type) const {
    constexpr std::string_view kSum = "accumulator(";
    const bool sum = type.starts_with(kSum);
    if (sum) type = type.substr(kSum.size(), type.size() - kSum.size() - 1);
    const DType dtype = out_.array(number_of(type)).dtype;
    return sum ? accumulator(dtype) : dtype;
  }

  // As terms count.
  uint8_t number_of(std::string_view name) const {
    for (size_t i = 0; i < out_.arrays_.size(); ++i) {
      if (names::is_called(name, out_.arrays_[i].name)) return uint8_t(i + 1);
    }
    return 1;  // No well-formed schema.
  }

  bool is_iterator(std::string_view text) const {
    if (std::find(names_.begin(), names_.end(), text) != names_.end()) return true;
    return names::is_name(text) && meaning_of(schema_, text).kind == sk::Meaning::kNothing;
  }

  int note(std::string_view name, uint64_t extent) {
    const auto* const found = std::find(names_.begin(), names_.end(), name);
    const int number = int(found - names_.begin());
    if (found == names_.end() && !names_.push_back(name)) return 0;
    if (found == names_.end() || extent != 0) extent_[size_t(number)] = int64_t(extent);
    return number;
  }

  void note_iterators(const Access& access) {
    if (is_iterator(access.at)) note(access.at, world_);
    const uint8_t number = number_of(access.array);
    const ArrayInfo& array = out_.array(number);
    for (size_t axis = 0; axis < access.index.size(); ++axis) {
      if (!is_iterator(access.index[axis])) continue;
      note(access.index[axis], axis + 1 == axes_[number - 1u] ? array.cols : array.rows);
    }
  }

  // Of those that stand alone nowhere.
  void note_parts(const Access& access) {
    for (const std::string_view text : access.index) {
      const RadixIndex radix = radix_index(text);
      if (is_iterator(radix.inner)) note(radix.inner, uint64_t(value(radix.parts)));
    }
  }

  Index index(std::string_view text) const {
    Index out;
    const auto* const found = std::find(names_.begin(), names_.end(), text);
    if (found != names_.end()) {
      out.factor[size_t(found - names_.begin())] = 1;
      return out;
    }
    if (names::is_name(text)) {
      out.base = value(text);
      return out;
    }
    Iterators at{};
    const IteratorScope scope{scope_, names_, at};
    out.base = evaluate(text, scope).value;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (text.find(names_[i]) == text.npos) continue;
      at[i] = 1;
      out.factor[i] = evaluate(text, scope).value - out.base;
      at[i] = 0;
    }
    return out;
  }

  Projection projection(const Access& access) const {
    Projection out{.array = number_of(access.array), .rank = index(access.at), .index = {}};
    const size_t axes = access.index.size();  // A vector is the columns of one row.
    for (size_t axis = 0; axis < axes; ++axis) {
      out.index[axis + kAxesMax - axes] = index(access.index[axis]);
    }
    return out;
  }

  Radix radix(const Index& index) const {
    Radix out;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (index.factor[i] == 0) continue;
      for (size_t other = 0; other < names_.size(); ++other) {
        if (other == i || index.factor[other] == 0) continue;
        if (index.factor[i] == 1 && index.factor[other] == extent_[i]) {
          return {int(i), int(other), std::max<uint64_t>(1, uint64_t(extent_[i]))};
        }
      }
      out.inner = int(i);
    }
    return out;
  }

  RedOp monoid(std::string_view name) const {
    if (const Field field = schema_.field(name)) return RedOp(op_[field]);
    for (int32_t each = SK_SUM; each <= SK_AVG; ++each) {
      if (name == redop_name(RedOp(each))) return RedOp(each);
    }
    return RedOp::kSum;
  }

  void add(const Step& step) {
    names_ = {};
    extent_ = {};
    note_iterators(step.out);
    for (const Access& access : step.in) note_iterators(access);
    note_parts(step.out);
    for (const Access& access : step.in) note_parts(access);
    if (step.function.empty() && step.fold.order != OrderKind::kUncut) return add_move(step);
    Function function{.name = step.function, .redop = monoid(step.fold.monoid), .out = {}};
    function.joins = !step.fold.monoid.empty();
    if (function.joins) function.uncut = note(step.fold.over, 0);
    for (const std::string_view name : step.inside) function.inside.push_back(note(name, 0));
    function.out = projection(step.out);
    for (size_t axis = 0; axis < step.out.index.size(); ++axis) {
      const auto [iterator, block] = block_index(step.out.index[axis]);
      if (iterator.empty() || function.uncut < 0) continue;
      function.block = uint64_t(std::max<int64_t>(1, value(block)));
      Index& at = function.out.index[axis + kAxesMax - step.out.index.size()];
      at = {};
      at.factor[size_t(function.uncut)] = 1;
    }
    for (const Access& access : step.in) {
      if (!is_absent(access)) function.in.push_back(projection(access));
    }
    function.extent = extent_;
    for (const Binding& each : step.bind) {
      function.bind.push_back({each.parameter, value(each.value), means_float(each.value)});
    }
    out_.functions_.push_back(function);
  }

  void add_move(const Step& step) {
    const Projection out = projection(step.out);
    Move move{.out_array = out.array, .out_rank = out.rank, .in = projection(step.in[0])};
    for (size_t axis = 0; axis < kAxesMax; ++axis) move.out_index[axis] = radix(out.index[axis]);
    if (!step.fold.monoid.empty()) {
      move.joined = note(step.fold.over, 0);
      move.joining = uint8_t(out_.joinings_.size());
      add_joining(step.fold, move);
    }
    out_.moves_.push_back(move);
  }

  void add_joining(const Fold& fold, const Move& move) {
    Joining joining{.number = uint8_t(out_.joinings_.size()),
                    .array = move.in.array,
                    .out = move.out_array,
                    .redop = monoid(fold.monoid),
                    .dtype = out_.array(move.in.array).dtype,
                    .count = world_};
    joining.any_order = !is_float(joining.dtype);
    for (const std::string_view block : fold.blocks) {
      joining.blocks.push_back(uint32_t(std::clamp<int64_t>(value(block), 1, world_)));
    }
    for (uint32_t rank = 0; joining.any_order && rank < world_; ++rank) {
      joining.all += Joining::hash_of(rank);
    }
    out_.joinings_.push_back(joining);
  }

  const OpDesc& op_;
  const Schema& schema_;
  uint32_t world_;
  OpScope scope_;
  Meaning& out_;
  std::vector<size_t> axes_;  // Of arrays.
  // Of the step at hand.
  Few<std::string_view, kIteratorsMax> names_;
  Iterators extent_{};
};

Meaning::Meaning(const OpDesc& op, uint32_t world_size) {
  arrays_.reserve(op.schema().operands.size() + op.schema().arrays.size());
  Lowering(op, world_size, this).run();
}

}  // namespace sk::effect
