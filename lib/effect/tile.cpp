#include "lib/effect/tile.h"

#include <algorithm>
#include <charconv>

namespace sk::effect {
namespace {

struct ParameterScope {
  std::span<const char* const> names;
  std::span<const int64_t> values;

  bool find(std::string_view name, int64_t* value) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (name != names[i]) continue;
      *value = i < values.size() ? values[i] : 0;
      return true;
    }
    return false;
  }
  bool find_is_float(std::string_view, bool*) const { return false; }
};

int index_of(std::span<const char* const> names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return int(i);
  }
  return -1;
}

}  // namespace

size_t Tile::Form::role(size_t region, size_t count) const {
  const size_t more = count - regions.size();  // Of the one that repeats as regions.
  size_t role = 0;
  for (size_t at = 0; role + 1 < regions.size(); ++role) {
    at += 1 + (regions[role].record->repeats ? more : 0);
    if (region < at) break;
  }
  return role;
}

Tile::Tile(const TileRecord& record) : record_(record) {
  if (record.form_by[0] != '\0') {
    form_by_ = index_of(record.parameters, record.form_by);
    require(form_by_ >= 0, "its forms are those of no parameter");
  }
  for (const FormRecord& form : record.forms) add(form);
}

const Tile::Form* Tile::form(std::span<const int64_t> parameters) const {
  const uint64_t chosen = form_by_ < 0 ? 0 : uint64_t(parameters[size_t(form_by_)]);
  return chosen < forms_.size() ? &forms_[chosen] : nullptr;
}

int64_t Tile::value(const Number& number, std::span<const int64_t> parameters) const {
  if (number.parameter >= 0) return parameters[size_t(number.parameter)];
  if (number.text.empty()) return number.constant;
  return evaluate(number.text, ParameterScope{record_.parameters, parameters}).value;
}

Tile::Number Tile::number(std::string_view text) {
  const int parameter = index_of(record_.parameters, text);
  if (parameter >= 0) return {.parameter = parameter};
  int64_t constant = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), constant);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) {
    return {.constant = constant};
  }
  require(proofread(text, ParameterScope{record_.parameters, {}}).ok(),
          "a number in it cannot be read");
  return {.text = text};
}

int Tile::iterator(std::string_view name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return int(found - names_.begin());
  names_.push_back(name);
  return int(names_.size() - 1);
}

Tile::Place Tile::place(const Access& access, Form& form) {
  Place out;
  for (size_t i = 0; i < form.regions.size(); ++i) {
    if (access.array == form.regions[i].record->name) out.region = int(i);
  }
  require(out.region >= 0, "a step names no region");
  if (!access.at.empty()) {
    const int parameter = index_of(record_.parameters, access.at);
    out.at = parameter >= 0 ? Place::kOwn : Place::kEach;
    if (parameter >= 0) {
      form.own_region = out.region;
      form.own_parameter = parameter;
    }
  }
  const size_t axes = access.index.size();
  for (size_t axis = 0; axis < axes; ++axis) {
    const auto [whose, block] = block_index(access.index[axis]);
    int& index = out.index[axis + kAxesMax - axes];
    index = iterator(whose.empty() ? access.index[axis] : whose);
    if (whose.empty()) continue;
    out.blocks_of = index;
    out.block = number(block);
  }
  return out;
}

Tile::Do Tile::lowered(const Step& step, Form& form) {
  Do out;
  out.function = step.function;
  out.out = place(step.out, form);
  for (const Access& access : step.in) out.in.push_back(place(access, form));
  out.joins = !step.fold.monoid.empty();
  if (out.joins) {
    out.uncut = step.fold.order == OrderKind::kUncut;
    out.monoid = {.constant = 0};
    for (int32_t each = SK_SUM; each <= SK_AVG; ++each) {
      if (step.fold.monoid == redop_name(RedOp(each))) out.monoid.constant = each;
    }
    if (out.monoid.constant == 0) out.monoid = number(step.fold.monoid);
    if (out.uncut) out.over = iterator(step.fold.over);
  }
  bool of_entries = false;
  for (const Access& access : step.in) {
    of_entries |= access.at == step.fold.over;
    require(access.at.empty() || access.at == step.fold.over,
            "a step reads entries that it does not join");
  }
  require(!out.joins || out.uncut || (of_entries && step.in.size() == 1),
          "a step joins other things than a region's entries");
  const bool in_blocks = out.out.blocks_of >= 0;
  require(!in_blocks || (out.uncut && out.over == out.out.blocks_of),
          "a step makes blocks of what it does not sum");
  for (const Place& each : out.in) require(each.blocks_of < 0, "a step reads blocks");
  for (const std::string_view name : step.inside) out.inside.push_back(iterator(name));
  for (const Binding& each : step.bind) out.bind.push_back({each.parameter, number(each.value)});
  return out;
}

// Forms without ranges have one output, the last region.
bool Tile::makes_each_output_once(const Form& form) {
  for (size_t region = 0; region < form.regions.size(); ++region) {
    const bool written = form.regions[region].record->written;
    if (form.ranges.empty()) {
      if (written != (region + 1 == form.regions.size())) return false;
      continue;
    }
    size_t makes = 0;
    for (const Do& step : form.steps) {
      makes += step.out.region == int(region) && step.out.at != Place::kOwn;
    }
    if (makes != (written ? 1 : 0)) return false;
  }
  return true;
}

// What goes element by element reads and leaves one place, and its inputs are its regions.
std::string_view Tile::elements_flaw(const Form& form) {
  if (form.steps.size() != 1) return "element by element there is one step";
  const Do& step = form.steps[0];
  if (step.in.size() + 1 != form.regions.size()) {
    return "element by element every region is read once or written";
  }
  for (size_t i = 0; i < step.in.size(); ++i) {
    if (step.in[i].region != int(i)) return "element by element inputs are in the order of regions";
    if (step.in[i].index != step.out.index) return "element by element all indices are the same";
  }
  if (!step.inside.empty()) return "element by element a function has one element of each";
  const bool moves = step.function.empty() && !step.joins;
  for (const RegionOf& region : form.regions) {
    if ((region.type < 0) != (form.regions.back().type < 0) || (region.type < 0 && !moves)) {
      return "element by element every region has a type, unless bytes are moved";
    }
  }
  return "";
}

void Tile::add(const FormRecord& record) {
  Form form;
  names_.clear();
  for (const RegionRecord& region : record.regions) {
    constexpr std::string_view kSum = "accumulator(";
    std::string_view type = region.type;
    RegionOf of{.record = &region};
    of.sums = type.starts_with(kSum);
    if (of.sums) type = type.substr(kSum.size(), type.size() - kSum.size() - 1);
    of.type = index_of(record_.parameters, type);
    of.turned_by = index_of(record_.parameters, region.turned_by);
    require(of.type >= 0 || type.empty(), "a region's type is no parameter");
    require(of.turned_by >= 0 || region.turned_by[0] == '\0', "a region is turned by no parameter");
    form.regions.push_back(of);
  }
  for (const RangeRecord& range : record.ranges) {
    iterator(range.iterator);
    form.ranges.push_back(
        {range.iterator, number(range.first), number(range.count), number(range.whole)});
  }
  Steps steps;
  require(read_steps(record.steps, &steps), "its steps cannot be read");
  for (const Step& step : steps) form.steps.push_back(lowered(step, form));
  require(form.ranges.empty() || form.ranges.size() == names_.size(),
          "an iterator has no range, or a range none");
  require(form.ranges.size() <= kRangesMax, "it has too many ranges");
  require(makes_each_output_once(form), "an output is made by no step or by several");
  if (form.ranges.empty()) require(elements_flaw(form).empty(), elements_flaw(form));
  forms_.push_back(std::move(form));
}

}  // namespace sk::effect
