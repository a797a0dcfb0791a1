#include "tests/multi/derived/changed_schema.h"

#include <fmt/format.h>

#include "lib/op/expr.h"
#include "lib/op/types.h"
#include "tests/multi/derived/changed_steps.h"

namespace sk::derived {
namespace {

std::vector<std::string> axes_of(const OperandSchema& operand) {
  std::vector<std::string> axes;
  for_each_axis(operand.shape, [&](std::string_view axis) { axes.emplace_back(axis); });
  return axes;
}

std::string shape_of(const std::vector<std::string>& axes) {
  std::string shape;
  for (const std::string& each : axes) shape += (shape.empty() ? "" : ", ") + each;
  return shape;
}

class Rules {
 public:
  explicit Rules(const Schema& right) : right_(right) {}

  ChangedSchemas take() {
    for (size_t i = 0; i < right_.operands.size(); ++i) {
      shape(i);
      types(i);
      place(i);
    }
    for (const Condition& each : right_.conditions) {
      std::vector<Condition>& all = change(fmt::format("no condition {}", each.holds)).conditions;
      // A schema's tables are where they were: what always holds is no condition.
      for (Condition& other : all) {
        if (other.holds == each.holds) other.holds = "1";
      }
    }
    for (size_t i = 0; i < right_.attributes.size(); ++i) bounds(i);
    return std::move(out_);
  }

 private:
  ChangedSchema& change(std::string what) {
    return *out_.emplace_back(std::make_unique<ChangedSchema>(right_, std::move(what)));
  }
  void shape(size_t i) {
    const std::vector<std::string> axes = axes_of(right_.operands[i]);
    const auto to = [&](const std::vector<std::string>& other) {
      if (other == axes) return;
      ChangedSchema& is = change(fmt::format("{} is \"{}\", not \"{}\"", right_.operands[i].name,
                                             shape_of(other), right_.operands[i].shape));
      is.operands[i].shape = is.keep(shape_of(other));
    };
    to({axes.rbegin(), axes.rend()});
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      std::vector<std::string> other = axes;
      other[axis] = axes[axis] + " + 1";
      to(other);
      other[axis] = "2 * " + axes[axis];
      if (axes[axis].find(' ') == std::string::npos) to(other);
      for (const Dimension& dimension : right_.dimensions) {
        other[axis] = dimension.name;
        to(other);
      }
      if (axes[axis].starts_with("world * ")) {
        other[axis] = axes[axis].substr(8);
        to(other);
      }
    }
  }
  void types(size_t i) {
    const OperandSchema& right = right_.operands[i];
    const auto to = [&](const std::string& other) {
      if (other == right.types) return;
      ChangedSchema& is =
          change(fmt::format("{} has types {}, not {}", right.name, other, right.types));
      is.operands[i].types = is.keep(other);
    };
    for (const char* other : {"any", "float", "f32"}) to(other);
    for (size_t j = 0; j < i; ++j) {
      to(right_.operands[j].name);
      to(fmt::format("accumulator({})", right_.operands[j].name));
    }
  }
  void place(size_t i) {
    const OperandSchema& right = right_.operands[i];
    if (right.alias[0] != '\0') {
      change(fmt::format("{} in place begins one further", right.name)).operands[i].alias_at =
          out_.back()->keep(fmt::format("{} + 1", right.alias_at));
      if (std::string_view(right.alias_at) != "0")
        change(fmt::format("{} in place begins with 0", right.name)).operands[i].alias_at = "0";
    }
    if (right.turned_by[0] != '\0')
      change(fmt::format("{} is never turned", right.name)).operands[i].turned_by = "";
    if (right.only_on[0] != '\0') {
      change(fmt::format("{} is on all ranks", right.name)).operands[i].only_on = "";
      for (const Attribute& each : right_.attributes) {
        if (each.kind != AttributeKind::kRank || std::string_view(each.name) == right.only_on)
          continue;
        change(fmt::format("{} is on {}", right.name, each.name)).operands[i].only_on = each.name;
      }
    }
    change(fmt::format("{} is {}", right.name, right.role == Role::kIn ? "written" : "read"))
        .operands[i]
        .role = right.role == Role::kIn ? Role::kOut : Role::kIn;
  }
  void bounds(size_t i) {
    const Attribute& right = right_.attributes[i];
    for (const bool least : {true, false}) {
      const char* const is = least ? right.least : right.most;
      if (is[0] == '\0') continue;
      ChangedSchema& none =
          change(fmt::format("{} has no {}", right.name, least ? "least" : "most"));
      (least ? none.attributes[i].least : none.attributes[i].most) = "";
      ChangedSchema& more = change(
          fmt::format("{} is {} by 1", least ? "least" : "most", least ? "higher" : "lower"));
      (least ? more.attributes[i].least : more.attributes[i].most) =
          more.keep(fmt::format("{} {} 1", is, least ? "+" : "-"));
    }
  }

  const Schema& right_;
  ChangedSchemas out_;
};

}  // namespace

ChangedSchema::ChangedSchema(const Schema& right, std::string what)
    : operands(right.operands.begin(), right.operands.end()),
      attributes(right.attributes.begin(), right.attributes.end()),
      conditions(right.conditions.begin(), right.conditions.end()),
      meaning(right.meaning == nullptr ? Steps() : *right.meaning),
      what_(std::move(what)),
      schema_(right) {
  schema_.operands = operands;
  schema_.attributes = attributes;
  schema_.conditions = conditions;
  if (right.meaning != nullptr) schema_.meaning = &meaning;
}

OpDesc ChangedSchema::called(const OpDesc& op, const Schema& as) {
  const Schema& is = op.schema();
  OpDesc out(as);
  const auto take = [&](Field field) {
    if (field) out.set(field, op[field]);
  };
  for (uint32_t i = 0; i < is.operands.size(); ++i) {
    for (const Field field :
         {OpDesc::type_field(i), OpDesc::storage_field(i), OpDesc::symmetric_field(i),
          OpDesc::aliased_field(i), OpDesc::absent_field(i), is.stride_field(i)})
      take(field);
  }
  for (size_t i = 0; i < is.dimensions.size(); ++i) take(is.dimension_field(i));
  for (size_t i = 0; i < is.attributes.size(); ++i) take(is.attribute_field(i));
  return out;
}

ChangedSchemas changed_rules(const Schema& right) { return Rules(right).take(); }

ChangedSchemas changed_meanings(const Schema& right) {
  ChangedSchemas out;
  if (right.meaning == nullptr) return out;
  for (const ChangedSteps& each : changed_steps(*right.meaning)) {
    out.push_back(std::make_unique<ChangedSchema>(right, each.what));
    out.back()->meaning = each.steps;
  }
  return out;
}

}  // namespace sk::derived
