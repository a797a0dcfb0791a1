#include "tests/multi/derived/meaning.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "lib/op/names.h"
#include "lib/op/scope.h"
#include "lib/op/values.h"
#include "tests/multi/derived/elements.h"
#include "tests/multi/derived/functions.h"

namespace sk::derived {
namespace {

using Iterators = std::map<std::string, int64_t, std::less<>>;

// The call's names, and the iterators where they stand.
class Bindings {
 public:
  Bindings(const OpDesc& op, int64_t world, const Iterators& iterators)
      : scope_(op, world), iterators_(iterators) {}
  bool find(std::string_view name, int64_t* value) const {
    const auto found = iterators_.find(name);
    if (found == iterators_.end()) return scope_.find(name, value);
    *value = found->second;
    return true;
  }
  bool find_is_float(std::string_view operand, bool* value) const {
    return scope_.find_is_float(operand, value);
  }

 private:
  OpScope scope_;
  const Iterators& iterators_;
};

bool is_word(std::string_view text) {
  return !text.empty() && expr::is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return expr::is_letter(c) || expr::is_digit(c); });
}

// One step of one call.
class StepRun {
 public:
  StepRun(const OpDesc& op, int64_t world, std::span<const int64_t> values, const Step& step,
          Arrays& arrays)
      : op_(op), world_(world), values_(values), step_(step), arrays_(arrays) {}

  void run() {
    find_iterators(step_.out);
    for (const Access& in : step_.in) find_iterators(in);
    for (const std::string_view inside : step_.inside) inside_.emplace(inside);
    // What is joined goes innermost, in its order.
    std::vector<std::string> order;
    for (const auto& [name, extent] : extents_) {
      if (name != step_.fold.over && !inside_.contains(name)) order.push_back(name);
    }
    if (!step_.fold.over.empty()) order.emplace_back(step_.fold.over);
    walk(order, 0);
    finish();
  }

 private:
  bool is_known(std::string_view name) const {
    return meaning_of(op_.schema(), name).kind != Meaning::kNothing;
  }
  void found(std::string_view name, int64_t extent) {
    if (!is_word(name) || is_known(name)) return;
    extents_.emplace(name, extent);
  }
  std::string array_of(const Access& access) const {
    const OperandSchema* operand = operand_in_expressions(op_.schema(), access.array);
    return operand != nullptr ? operand->name : std::string(access.array);
  }
  void find_iterators(const Access& access) {
    if (!access.at.empty()) found(access.at, world_);
    const std::string name = array_of(access);
    const auto known = arrays_.find(name);
    if (known == arrays_.end()) return;
    const Array& shape = known->second.front();
    const size_t axes = access.index.size();
    for (size_t axis = 0; axis < axes; ++axis) {
      found(access.index[axis], axis + 1 == axes ? shape.columns : shape.rows);
      const RadixIndex radix = radix_index(access.index[axis]);
      if (!radix.inner.empty()) found(radix.inner, value(radix.parts));
    }
  }

  int64_t value(std::string_view text) const {
    if (const auto alone = now_.find(text); alone != now_.end()) return alone->second;
    const ExprValue is = evaluate(text, Bindings(op_, world_, now_));
    if (!is.ok()) throw std::runtime_error("cannot compute " + std::string(text));
    return is.value;
  }
  int64_t rank_of(const Access& access) const { return access.at.empty() ? 0 : value(access.at); }

  // Null where the call came without it.
  Array* array(const Access& access) {
    const auto known = arrays_.find(array_of(access));
    if (known == arrays_.end()) return nullptr;
    return &known->second[size_t(rank_of(access))];
  }
  Value& element(Array& array, const Access& access) {
    const size_t axes = access.index.size();
    const int64_t row = axes == 2 ? value(access.index[0]) : 0;
    return array.at(row, value(access.index[axes - 1]));
  }
  bool goes_inside(const Access& access) const {
    return std::any_of(access.index.begin(), access.index.end(),
                       [&](std::string_view index) { return inside_.contains(index); });
  }

  void walk(const std::vector<std::string>& order, size_t depth) {
    if (depth == order.size()) return make();
    for (int64_t i = 0; i < extents_.at(order[depth]); ++i) {
      now_[order[depth]] = i;
      walk(order, depth + 1);
    }
  }

  Argument argument(const Access& access) {
    Array* from = array(access);
    if (from == nullptr) return {};
    if (!goes_inside(access)) return {element(*from, access)};
    Argument all;
    const std::string inside = *inside_.begin();
    for (int64_t i = 0; i < extents_.at(inside); ++i) {
      now_[inside] = i;
      all.push_back(element(*from, access));
    }
    now_.erase(inside);
    return all;
  }

  void make() {
    Array* to = array(step_.out);
    if (to == nullptr || !to->here()) return;
    std::vector<Argument> in;
    for (const Access& access : step_.in) in.push_back(argument(access));
    const Bound bound_to = {[&](std::string_view name) {
                              for (const Binding& each : step_.bind) {
                                if (each.parameter == name) return bound(each.value);
                              }
                              throw std::runtime_error("nothing is bound to " + std::string(name));
                            },
                            accumulator(op_.type(0))};
    Argument made = step_.function.empty() ? in[0] : function_of(step_.function)(in, bound_to);
    if (!goes_inside(step_.out)) return join(element(*to, step_.out), made[0]);
    const std::string inside = *inside_.begin();
    for (size_t i = 0; i < made.size(); ++i) {
      now_[inside] = int64_t(i);
      join(element(*to, step_.out), made[i]);
    }
    now_.erase(inside);
  }
  double bound(std::string_view text) const {
    const Meaning is = meaning_of(op_.schema(), text);
    if (!is.only_bound) return double(value(text));
    const Attribute& attribute = *op_.schema().attribute(text);
    const auto index = size_t(&attribute - op_.schema().attributes.data());
    const int64_t bits = attribute.runtime ? values_[op_.schema().run_value(index)] : op_[is.field];
    return attribute.kind == AttributeKind::kFloat ? float_of(bits) : double(bits);
  }

  // The attribute's value where the monoid is one, else by its name.
  RedOp monoid() const {
    const Meaning is = meaning_of(op_.schema(), step_.fold.monoid);
    if (is.kind == Meaning::kField) return RedOp(op_[is.field]);
    for (int32_t each = SK_SUM; each <= SK_AVG; ++each) {
      if (step_.fold.monoid == redop_name(RedOp(each))) return RedOp(each);
    }
    throw std::runtime_error("no monoid " + std::string(step_.fold.monoid));
  }
  void join(Value& out, const Value& value) {
    const bool first = seen_.insert(&out).second;
    if (first || step_.fold.over.empty()) {
      if (!first) throw std::runtime_error("an element is made twice");
      out = value;
      return;
    }
    switch (monoid()) {
      case RedOp::kSum:
      case RedOp::kAvg:
        out = {out.value + value.value, out.size + value.size, false,
               std::max(out.roundings, value.roundings) + 1, out.lost + value.lost};
        break;
      case RedOp::kProd:
        out = {out.value * value.value, out.size * value.size, false,
               out.roundings + value.roundings + 1};
        break;
      // A NaN on either side stays; of zeros the first.
      case RedOp::kMin:
        if (!(out.value <= value.value) && !std::isnan(out.value)) out.value = value.value;
        break;
      case RedOp::kMax:
        if (!(out.value >= value.value) && !std::isnan(out.value)) out.value = value.value;
        break;
    }
  }
  void finish() {
    if (step_.fold.over.empty() || monoid() != RedOp::kAvg) return;
    const double count = double(extents_.at(std::string(step_.fold.over)));
    for (std::vector<Array>::iterator each = arrays_.at(array_of(step_.out)).begin();
         each != arrays_.at(array_of(step_.out)).end(); ++each) {
      for (Value& value : each->elements) {
        if (!seen_.contains(&value)) continue;
        value = {value.value / count, value.size / count, false, value.roundings + 2, value.lost};
      }
    }
  }

  const OpDesc& op_;
  const int64_t world_;
  const std::span<const int64_t> values_;
  const Step& step_;
  Arrays& arrays_;
  std::map<std::string, int64_t, std::less<>> extents_;
  std::set<std::string, std::less<>> inside_;
  Iterators now_;
  std::set<const Value*> seen_;
};

bool reads(const Step& step, std::string_view array) {
  return std::any_of(step.in.begin(), step.in.end(),
                     [&](const Access& access) { return access.array == array; });
}

// A result that later steps read is what its operand holds, of its type.
void round_what_is_read_again(const OpDesc& op, const Step& made, Arrays& arrays) {
  const Schema& schema = op.schema();
  const OperandSchema* operand = operand_in_expressions(schema, made.out.array);
  const auto known = operand == nullptr ? arrays.end() : arrays.find(operand->name);
  if (known == arrays.end()) return;
  if (std::none_of(schema.meaning->begin(), schema.meaning->end(),
                   [&](const Step& step) { return reads(step, made.out.array); })) {
    return;
  }
  const DType type = op.type(uint8_t(operand - schema.operands.data()));
  for (Array& array : known->second) {
    for (Value& value : array.elements) {
      std::byte stored[sizeof(double)];
      set(type, stored, value.value);
      value.value = get(type, stored);
    }
  }
}

}  // namespace

Array shaped(const OpDesc& op, int64_t world, const char* shape) {
  Array out;
  std::vector<int64_t> axes;
  for_each_axis(shape, [&](std::string_view axis) {
    axes.push_back(evaluate(axis, OpScope(op, world)).value);
  });
  out.rows = axes.size() == 2 ? axes[0] : 1;
  out.columns = axes.back();
  return out;
}

void make_results(const OpDesc& op, int64_t world, std::span<const int64_t> values,
                  Arrays& arrays) {
  const Schema& schema = op.schema();
  if (schema.meaning == nullptr) return;
  for (const InnerArray& inner : schema.arrays) {
    Array one = shaped(op, world, inner.shape);
    one.elements.resize(size_t(one.rows * one.columns));
    arrays.emplace(inner.name, std::vector<Array>(size_t(world), one));
  }
  for (const Step& step : *schema.meaning) {
    StepRun(op, world, values, step, arrays).run();
    round_what_is_read_again(op, step, arrays);
  }
}

}  // namespace sk::derived
