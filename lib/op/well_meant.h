// Whether what a schema means (steps.h) can be relied on: a part of flaw_in(), well_formed.h.
#ifndef SK_LIB_OP_WELL_MEANT_H_
#define SK_LIB_OP_WELL_MEANT_H_

#include "lib/op/names.h"

namespace sk::flaws {

inline constexpr std::string_view kFine = "";

// Of one step: its iterators, and what each goes over: an axis by its text, or "@" for ranks.
class StepReader {
 public:
  constexpr StepReader(const Schema& schema, const Step& step) : schema_(schema), step_(step) {}

  constexpr std::string_view flaw() {
    if (!note(step_.out)) return "a step's output cannot be read";
    for (const Access& access : step_.in) {
      if (!note(access)) return "a step's input cannot be read";
    }
    bool all_noted = note_parts(step_.out);
    for (const Access& access : step_.in) all_noted &= note_parts(access);
    if (!all_noted) return "a step has more iterators than are read";
    if (!reads(step_.out)) return "a step's output has an index that cannot be read";
    for (const Access& access : step_.in) {
      if (!reads(access)) return "a step's input has an index that cannot be read";
    }
    for (const Binding& each : step_.bind) {
      // A float alone, or an expression of integers.
      const bool alone = names::is_name(each.value);
      if (!proofread(each.value, names::Known(schema_, false, alone)).ok()) {
        return "a binding cannot be read";
      }
    }
    for (const std::string_view name : step_.inside) {
      if (find(name) == nullptr) return "a function is inside of no iterator";
    }
    const bool moves = step_.function.empty() && step_.fold.order != OrderKind::kUncut;
    if (!moves && !has_plain_indices()) return "a function's indices are no iterators alone";
    for (size_t axis = 0; axis < step_.out.index.size(); ++axis) {
      if (!gives_back(step_.out.index[axis], axis_of(schema_, step_.out.array, axis))) {
        return "a place of an output does not give its iterators back";
      }
    }
    const std::string_view flaw = step_.fold.monoid.empty() ? kFine : fold_flaw(moves);
    if (flaw != kFine) return flaw;
    if (!binds_all()) return "a step's input has an iterator that nothing binds";
    return moves ? move_flaw() : kFine;
  }

  // "count", "world * count": the axis of an array; "" where there is none.
  static constexpr std::string_view axis_of(const Schema& schema, std::string_view array,
                                            size_t axis) {
    const char* shape = shape_of(schema, array);
    std::string_view found;
    size_t at = 0;
    if (shape == nullptr) return found;
    for_each_axis(shape, [&](std::string_view text) {
      if (at++ == axis) found = text;
    });
    return found;
  }
  static constexpr const char* shape_of(const Schema& schema, std::string_view array) {
    const OperandSchema* operand = operand_in_expressions(schema, array);
    if (operand != nullptr) return operand->shape;
    for (const InnerArray& inner : schema.arrays) {
      if (array == inner.name) return inner.shape;
    }
    return nullptr;
  }

 private:
  struct Iterator {
    std::string_view name, over;
  };
  struct Names {
    const StepReader& reader;
    constexpr bool find(std::string_view name, int64_t* value) const {
      return names::Known(reader.schema_).find(name, value) || reader.find(name) != nullptr;
    }
    constexpr bool find_is_float(std::string_view, bool*) const { return false; }
  };

  constexpr const Iterator* find(std::string_view name) const {
    for (const Iterator& each : iterators_) {
      if (each.name == name) return &each;
    }
    return nullptr;
  }
  constexpr bool is_iterator(std::string_view text) const {
    return names::is_name(text) && !expr::is_function(text) && !expr::is_keyword(text) &&
           meaning_of(schema_, text).kind == Meaning::kNothing;
  }
  constexpr bool note(std::string_view name, std::string_view over) {
    const Iterator* known = find(name);
    return known != nullptr ? known->over == over : iterators_.push_back({name, over});
  }
  constexpr bool note(const Access& access) {
    if (access.at.empty() || shape_of(schema_, access.array) == nullptr) return false;
    if (!axis_of(schema_, access.array, access.index.size()).empty()) return false;
    if (is_iterator(access.at) && !note(access.at, "@")) return false;
    for (size_t axis = 0; axis < access.index.size(); ++axis) {
      const std::string_view over = axis_of(schema_, access.array, axis);
      if (over.empty()) return false;
      if (is_iterator(access.index[axis]) && !note(access.index[axis], over)) return false;
    }
    return true;
  }
  // Of those that stand alone nowhere: they go over a part.
  constexpr bool note_parts(const Access& access) {
    for (const std::string_view index : access.index) {
      const RadixIndex radix = radix_index(index);
      if (find(radix.inner) != nullptr || !is_iterator(radix.inner)) continue;
      if (names::is_name(radix.parts) && !note(radix.inner, radix.parts)) return false;
    }
    return true;
  }
  constexpr bool reads(const Access& access) const {
    bool all = proofread(access.at, Names{*this}).ok();
    for (const std::string_view index : access.index) all &= proofread(index, Names{*this}).ok();
    return all;
  }
  constexpr bool mentions(const Access& access, std::string_view iterator) const {
    bool found = access.at == iterator;
    for (const std::string_view index : access.index) found |= names::has_word(index, iterator);
    return found;
  }
  // By the output, or by what the step has all of: what it joins, or is inside of.
  constexpr bool binds_all() const {
    bool all = true;
    for (const Iterator& each : iterators_) {
      bool bound = mentions(step_.out, each.name) || each.name == step_.fold.over;
      for (const std::string_view name : step_.inside) bound |= name == each.name;
      all &= bound;
    }
    return all;
  }
  // What is moved is read where it is left: along the same axes, each by its iterator or by mixed
  // radix. A judge asks for parts of the output, and takes their extents for those of the input.
  constexpr std::string_view move_flaw() const {
    const Access& from = step_.in[0];
    if (from.index.size() != step_.out.index.size())
      return "a move has not as many axes as its input";
    for (size_t axis = 0; axis < from.index.size(); ++axis) {
      if (!step_.fold.over.empty() && names::has_word(from.index[axis], step_.fold.over)) {
        return "a step joins elements of several places";
      }
      if (!gives_back(from.index[axis], axis_of(schema_, from.array, axis))) {
        return "an index of what a step moves is neither an iterator nor mixed radix";
      }
      if (innermost(from.index[axis]) != innermost(step_.out.index[axis])) {
        return "a step moves along another axis than it reads";
      }
    }
    return kFine;
  }
  // `i` of "r * count + i", and of "i".
  static constexpr std::string_view innermost(std::string_view index) {
    return index.substr(index.rfind(' ') + 1);
  }
  constexpr bool has_plain_indices() const {
    bool plain = true;
    const auto look = [&](const Access& access) {
      for (const std::string_view index : access.index) plain &= is_iterator(index);
    };
    for (const Access& access : step_.in) look(access);
    for (size_t axis = 0; axis < step_.out.index.size(); ++axis) {
      const std::string_view index = step_.out.index[axis];
      plain &=
          is_iterator(index) || is_block_of_sum(index, axis_of(schema_, step_.out.array, axis));
    }
    return plain;
  }
  // "i // 32" where i is what an uncut sum goes over, and the axis "cdiv(m, 32)".
  constexpr bool is_block_of_sum(std::string_view text, std::string_view axis) const {
    const auto [iterator, block] = block_index(text);
    const Iterator* over = find(iterator);
    if (over == nullptr || step_.fold.monoid.empty() || step_.fold.order != OrderKind::kUncut ||
        iterator != step_.fold.over || over->over == "@" || !names::is_positive(block)) {
      return false;
    }
    return take(&axis, "cdiv(") && take(&axis, over->over) && take(&axis, ", ") &&
           take(&axis, block) && axis == ")";
  }
  static constexpr bool take(std::string_view* text, std::string_view word) {
    if (!text->starts_with(word)) return false;
    text->remove_prefix(word.size());
    return true;
  }
  // An iterator, or "r * count + i" where i goes over "count" and the axis is "world * count".
  constexpr bool gives_back(std::string_view text, std::string_view axis) const {
    if (is_iterator(text) || is_block_of_sum(text, axis)) return true;
    const Iterator* outer = find(text.substr(0, text.find(' ')));
    const Iterator* inner = find(text.substr(text.rfind(' ') + 1));
    if (outer == nullptr || inner == nullptr || !names::is_name(inner->over)) return false;
    std::string_view extent = axis;
    return take(&text, outer->name) && take(&text, " * ") && take(&text, inner->over) &&
           take(&text, " + ") && text == inner->name &&
           take(&extent, outer->over == "@" ? "world" : outer->over) && take(&extent, " * ") &&
           extent == inner->over;
  }
  constexpr std::string_view fold_flaw(bool moves) const {
    const Attribute* attribute = schema_.attribute(step_.fold.monoid);
    bool known = attribute != nullptr && attribute->kind == AttributeKind::kRedOp;
    for (int32_t each = SK_SUM; each <= SK_AVG; ++each) {
      known |= step_.fold.monoid == redop_name(RedOp(each));
    }
    if (!known) return "nothing joins as a step says";
    const Iterator* over = find(step_.fold.over);
    if (over == nullptr) return "a step joins over no iterator";
    for (const std::string_view block : step_.fold.blocks) {
      if (!proofread(block, names::Known(schema_)).ok()) return "a block cannot be read";
    }
    // What tasks join one after another are ranks' elements of one place.
    if (!moves) return step_.fold.order == OrderKind::kUncut ? kFine : "a function's sum is cut";
    if (over->over != "@" || step_.in[0].at != step_.fold.over || step_.in.size() != 1) {
      return "a step joins other things than ranks' elements";
    }
    return kFine;
  }

  const Schema& schema_;
  const Step& step_;
  Few<Iterator, 6> iterators_;
};

constexpr bool is_made(const Step& step) {
  return !step.function.empty() || step.fold.order == OrderKind::kUncut;
}

// The one step before `end` that defines `array`, or null.
constexpr const Step* defining(const Schema& schema, std::string_view array, size_t end) {
  const Step* found = nullptr;
  for (size_t i = 0; i < end; ++i) {
    const Step& step = (*schema.meaning)[i];
    if (step.out.array != array) continue;
    if (found != nullptr) return nullptr;
    found = &step;
  }
  return found;
}

// So that a tile's step could stand for either.
constexpr bool alike(const Step& a, const Step& b) {
  if (is_made(a) != is_made(b) || a.function != b.function || a.fold.monoid != b.fold.monoid ||
      a.in.size() != b.in.size() || a.bind.size() != b.bind.size()) {
    return false;
  }
  if (!is_made(a) && a.fold.monoid.empty()) return false;  // Moves stand for themselves.
  for (size_t i = 0; i < a.in.size(); ++i) {
    if (a.in[i].array != b.in[i].array) return false;
  }
  for (size_t i = 0; i < a.bind.size(); ++i) {
    if (a.bind[i].parameter != b.bind[i].parameter || a.bind[i].value != b.bind[i].value) {
      return false;
    }
  }
  return true;
}

constexpr bool has_type(const Schema& schema, std::string_view type) {
  constexpr std::string_view kSum = "accumulator(";
  if (type.starts_with(kSum) && type.ends_with(')')) {
    type = type.substr(kSum.size(), type.size() - kSum.size() - 1);
  }
  return operand_in_expressions(schema, type) != nullptr;
}

// What all steps read or make on one rank alone is on that rank, and only that.
constexpr bool is_where_it_is_used(const Schema& schema, const OperandSchema& operand) {
  std::string_view only;
  bool used = false, alone = true;
  const auto look = [&](const Access& access) {
    if (operand_in_expressions(schema, access.array) != &operand) return;
    const Attribute* rank = schema.attribute(access.at);
    alone &= rank != nullptr && rank->kind == AttributeKind::kRank && (!used || only == access.at);
    only = access.at;
    used = true;
  };
  const size_t count = schema.meaning == nullptr ? 0 : schema.meaning->size();
  for (size_t i = 0; i < count; ++i) {
    look((*schema.meaning)[i].out);
    for (const Access& access : (*schema.meaning)[i].in) look(access);
  }
  return !used || (alone ? only : std::string_view()) == operand.only_on;
}

constexpr std::string_view in_meaning(const Schema& schema) {
  const size_t count = schema.meaning == nullptr ? 0 : schema.meaning->size();
  const auto is_defined = [&](std::string_view name, const Schema& in) {
    for (size_t i = 0; i < count; ++i) {
      if (!names::is_called((*in.meaning)[i].out.array, name)) continue;
      return defining(in, (*in.meaning)[i].out.array, count) != nullptr;
    }
    return false;
  };
  for (const OperandSchema& operand : schema.operands) {
    if ((operand.role == Role::kOut) != is_defined(operand.name, schema)) {
      return "an output is defined by no step or by several, or an input by any";
    }
  }
  for (const InnerArray& inner : schema.arrays) {
    if (!has_type(schema, inner.type)) return "an array's type names none that there is";
    size_t axes = 0;
    bool reads_all = true;
    for_each_axis(inner.shape, [&](std::string_view axis) {
      reads_all &= proofread(axis, names::Known(schema)).ok();
      ++axes;
    });
    if (axes < 1 || axes > kAxesMax) return "an array has neither one axis nor two";
    if (!reads_all) return "an array's shape cannot be read";
    if (!is_defined(inner.name, schema)) return "an array is defined by no step or by several";
  }
  for (size_t i = 0; i < count; ++i) {
    const Step& step = (*schema.meaning)[i];
    const std::string_view flaw = StepReader(schema, step).flaw();
    if (flaw != kFine) return flaw;
    size_t optional = 0;
    for (const Access& access : step.in) {
      const OperandSchema* operand = operand_in_expressions(schema, access.array);
      optional += operand != nullptr && operand->optional;
    }
    // Without it there is a function of one input less, and no other.
    if (optional > 1 || (optional == 1 && (step.function.empty() || step.in.size() == 1))) {
      return "a step cannot do without what may be absent";
    }
    for (const Access& access : step.in) {
      const OperandSchema* operand = operand_in_expressions(schema, access.array);
      if (operand != nullptr && operand->role == Role::kIn) continue;
      const Step* before = defining(schema, access.array, i);
      if (before == nullptr) return "a step reads what no step before it defines";
      if (!step.fold.monoid.empty() && !is_made(step) && !is_made(*before)) {
        return "a step joins what is only moved";
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (alike(step, (*schema.meaning)[j])) return "two steps are alike";
    }
  }
  for (const OperandSchema& operand : schema.operands) {
    if (!is_where_it_is_used(schema, operand))
      return "an operand is on other ranks than the steps that read or make it";
  }
  return kFine;
}

}  // namespace sk::flaws

#endif  // SK_LIB_OP_WELL_MEANT_H_
