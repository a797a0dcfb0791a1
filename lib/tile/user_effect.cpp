#include "lib/tile/user_effect.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "lib/op/names.h"
#include "lib/op/types.h"

namespace sk {
namespace {

using Cut = UserEffect::Cut;

// Ranks, and what a step of an operation has all of beside its own, leave so many to a tile.
constexpr size_t kIteratorsMax = 5;

std::vector<std::string_view> axes_of(std::string_view shape) {
  std::vector<std::string_view> axes;
  for_each_axis(shape, [&](std::string_view axis) { axes.push_back(axis); });
  return axes;
}

Status too_many_axes(const TileText& text) {
  return error(SK_ERR_INVALID_ARGUMENT, "tile {}: it goes over more than {} axes", text.name,
               kIteratorsMax);
}

// A word that no text of the tile has, with `begin` in front.
std::string unused_word(const TileText& text, std::string begin) {
  const auto used = [&](const std::string& word) {
    const auto begins = [&](std::string_view with) { return with.find(word) != with.npos; };
    bool found = begins(text.effect) || begins(text.name);
    for (const auto& each : text.regions) found |= begins(each.name) || begins(each.shape);
    for (const auto& each : text.numbers) found |= begins(each.name);
    return found;
  };
  while (used(begin)) begin += 'q';
  return begin;
}

// Every region written depends on all of every region read: a step each, which has all of all axes.
Result<std::string> opaque_steps(const TileText& text) {
  const std::string letter = unused_word(text, "i");
  std::vector<std::string> known;  // Axes, each as often as one region has it.
  const auto index = [&](const TileText::Array& region) {
    std::vector<size_t> of_region;
    std::string out;
    for (const std::string_view axis : axes_of(region.shape)) {
      size_t at = 0;
      while (at < known.size() &&
             (known[at] != axis || std::count(of_region.begin(), of_region.end(), at) > 0))
        ++at;
      if (at == known.size()) known.emplace_back(axis);
      of_region.push_back(at);
      out += fmt::format("{}{}{}", out.empty() ? "" : ", ", letter, at);
    }
    return fmt::format("{}[{}]", region.name, out);
  };
  std::string inputs;
  for (const auto& region : text.regions) {
    if (region.role == Role::kIn) inputs += (inputs.empty() ? "" : ", ") + index(region);
  }
  std::string steps;
  std::vector<std::string> outputs;
  for (const auto& region : text.regions) {
    if (region.role == Role::kOut) outputs.push_back(index(region));
  }
  if (known.size() > kIteratorsMax) return too_many_axes(text);
  for (const std::string& out : outputs) {
    std::string all;  // That it reads or makes.
    for (size_t i = 0; i < known.size(); ++i) {
      const std::string name = letter + fmt::to_string(i);
      if (!names::has_word(out, name) && !names::has_word(inputs, name)) continue;
      all += (all.empty() ? "" : ", ") + name;
    }
    steps += fmt::format("{}{} = {}_{}[{}]({})", steps.empty() ? "" : "; ", out, text.name,
                         out.substr(0, out.find('[')), all, inputs);
  }
  return steps;
}

class Reader {
 public:
  Reader(const TileText& text, const std::string& effect) : text_(text), effect_(effect) {}

  Result<UserEffect> read() {
    if (!read_steps(effect_, &steps_) || steps_.empty()) {
      return refuse(
          "the effect {} cannot be read; a step is \"y[i, j] = scale(x[i, j])\", and ; "
          "is between two",
          quoted_text(effect_));
    }
    out_.places.resize(text_.regions.size());
    seen_.assign(text_.regions.size(), "");
    for (const Step& step : steps_) SK_RETURN_IF_ERROR(read_step(step));
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (!seen_[i].empty()) continue;
      return refuse("no step {} {}", text_.regions[i].role == Role::kIn ? "reads" : "makes",
                    text_.regions[i].name);
    }
    SK_RETURN_IF_ERROR(cut());
    SK_RETURN_IF_ERROR(check_in_place());
    const std::string rank = unused_word(text_, "r");
    out_.meaning = written("@" + rank);
    out_.form = written("");
    return std::move(out_);
  }

 private:
  template <typename... Args>
  Status refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return error(SK_ERR_INVALID_ARGUMENT, "tile {}: {}", text_.name,
                 fmt::format(format, std::forward<Args>(args)...));
  }

  static std::string shown(const Access& access) {
    std::string out(access.array);
    out += '[';
    for (size_t i = 0; i < access.index.size(); ++i) {
      out += i == 0 ? "" : ", ";
      out += access.index[i];
    }
    return out + ']';
  }

  Status read_step(const Step& step) {
    SK_RETURN_IF_ERROR(read_access(step, step.out, Role::kOut));
    for (const Access& access : step.in) SK_RETURN_IF_ERROR(read_access(step, access, Role::kIn));
    if (!step.bind.empty()) {
      return refuse("the step of {} binds {}: every parameter is bound to every function by itself",
                    step.out.array, step.bind[0].parameter);
    }
    if (step.function.empty() && !text_.numbers.empty()) {
      return refuse("the step of {} has no function that the parameter {} could be bound to",
                    step.out.array, text_.numbers[0].name);
    }
    if (!step.function.empty() && !names::is_name(step.function)) {
      return refuse("the step of {} has a function named {}", step.out.array,
                    quoted_text(step.function));
    }
    if (!step.fold.monoid.empty() && step.fold.order != OrderKind::kUncut) {
      return refuse("the step of {} joins over {}: write {}({} uncut), for one tile joins all",
                    step.out.array, step.fold.over, step.fold.monoid, step.fold.over);
    }
    for (const std::string_view name : step.inside) {
      if (find(name) < 0)
        return refuse("the step of {} is inside of {}, which is no iterator", step.out.array, name);
    }
    if (!step.fold.over.empty() && find(step.fold.over) < 0) {
      return refuse("the step of {} joins over {}, which is no iterator", step.out.array,
                    step.fold.over);
    }
    return {};
  }

  Status read_access(const Step& step, const Access& access, Role role) {
    const TileText::Array* region = text_.region(access.array);
    if (region == nullptr || region->role != role) {
      return refuse("the step of {} {} {}, which is no region that is {}", step.out.array,
                    role == Role::kIn ? "reads" : "makes", quoted_text(access.array),
                    role == Role::kIn ? "read" : "written");
    }
    if (!access.at.empty()) return refuse("{}@{}: a tile knows no ranks", access.array, access.at);
    const std::vector<std::string_view> axes = axes_of(region->shape);
    if (axes.size() != access.index.size()) {
      return refuse("{} has {} indices, and the shape \"{}\"", shown(access), access.index.size(),
                    region->shape);
    }
    const size_t number = size_t(region - text_.regions.data());
    UserEffect::Place place;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      const size_t at = axis + kAxesMax - axes.size();
      SK_RETURN_IF_ERROR(read_index(step, access, axis, axes[axis], &place, at));
    }
    const std::string now = shown(access);
    if (role == Role::kOut && !seen_[number].empty()) {
      return refuse("two steps make {}", region->name);
    }
    if (!seen_[number].empty() && seen_[number] != now) {
      return refuse(
          "it reads {} and {}: give it as two regions, which a call may pass one array for",
          seen_[number], now);
    }
    seen_[number] = now;
    out_.places[number] = place;
    return {};
  }

  Status read_index(const Step& step, const Access& access, size_t axis, std::string_view extent,
                    UserEffect::Place* place, size_t at) {
    const std::string_view index = access.index[axis];
    const auto [of, block] = block_index(index);
    if (!of.empty() && &access == &step.out && of == step.fold.over && names::is_positive(block)) {
      const std::string_view whole = block_extent(step, of);
      if (extent != fmt::format("cdiv({}, {})", whole, block)) {
        return refuse("{}: the axis of {} must be \"cdiv({}, {})\"", shown(access), index, whole,
                      block);
      }
      SK_ASSIGN_OR_RETURN(place->iterator[at], note(of, whole, access));
      uint64_t size = 1;
      std::from_chars(block.data(), block.data() + block.size(), size);
      place->block[at] = size;
      return {};
    }
    const bool taken = index == "world" || index == "rank" || text_.region(index) != nullptr ||
                       has_dimension(index) || has_number(index);
    if (!names::is_name(index) || expr::is_function(index) || expr::is_keyword(index) || taken) {
      return refuse("{}: an index is an iterator alone, a name that nothing else has, not {}",
                    shown(access), quoted_text(index));
    }
    SK_ASSIGN_OR_RETURN(place->iterator[at], note(index, extent, access));
    return {};
  }

  // Of what a step joins, as what it reads says.
  std::string_view block_extent(const Step& step, std::string_view iterator) const {
    for (const Access& access : step.in) {
      const TileText::Array* region = text_.region(access.array);
      if (region == nullptr) continue;
      const std::vector<std::string_view> axes = axes_of(region->shape);
      for (size_t i = 0; i < std::min(axes.size(), access.index.size()); ++i) {
        if (access.index[i] == iterator) return axes[i];
      }
    }
    return "?";
  }
  bool has_dimension(std::string_view name) const {
    for (const auto& region : text_.regions) {
      for (const std::string_view axis : axes_of(region.shape)) {
        if (names::has_word(axis, name)) return true;
      }
    }
    return false;
  }
  bool has_number(std::string_view name) const {
    return std::any_of(text_.numbers.begin(), text_.numbers.end(),
                       [&](const auto& each) { return each.name == name; });
  }

  int find(std::string_view name) const {
    for (size_t i = 0; i < out_.iterators.size(); ++i) {
      if (out_.iterators[i].name == name) return int(i);
    }
    return -1;
  }
  Result<int> note(std::string_view name, std::string_view extent, const Access& access) {
    const int known = find(name);
    if (known >= 0) {
      const std::string& before = out_.iterators[size_t(known)].extent;
      if (before == extent) return known;
      return refuse("{}: {} goes over \"{}\" here and over \"{}\" elsewhere", shown(access), name,
                    extent, before);
    }
    if (out_.iterators.size() == kIteratorsMax) return too_many_axes(text_);
    out_.iterators.push_back({std::string(name), std::string(extent)});
    return int(out_.iterators.size() - 1);
  }

  // Every region written is cut along its first axis, or along both.
  Status cut() {
    if (text_.over == TileOver::kAll) return {};
    SK_RETURN_IF_ERROR(cut_along(0, Cut::kFirst));
    return text_.over == TileOver::kBlocks ? cut_along(1, Cut::kSecond) : Status();
  }
  Status cut_along(size_t axis, Cut which) {
    int iterator = -1;
    for (const Step& step : steps_) {
      if (step.out.index.size() <= axis) {
        return refuse("over {} every region written has two axes, {} has one",
                      tile_over_name(text_.over), step.out.array);
      }
      const auto& place = out_.places[size_t(text_.region(step.out.array) - text_.regions.data())];
      const size_t at = axis + kAxesMax - step.out.index.size();
      const int here = place.iterator[at];
      const std::string& name = out_.iterators[size_t(here)].name;
      if (iterator >= 0 && here != iterator) {
        return refuse(
            "over {} all regions written have one iterator along axis {}, {} has {}, not {}",
            tile_over_name(text_.over), axis, step.out.array, name,
            out_.iterators[size_t(iterator)].name);
      }
      iterator = here;
      if (std::find(step.inside.begin(), step.inside.end(), name) != step.inside.end()) {
        return refuse("the step of {} has all of {} at once, which is not cut over {} then",
                      step.out.array, name, tile_over_name(text_.over));
      }
      uint64_t& unit = out_.unit[axis];
      unit = std::lcm(unit, place.block[at]);
      if (unit > kUnitMax)
        return refuse("blocks of {} and of others have no common cut", place.block[at]);
    }
    const std::string& name = out_.iterators[size_t(iterator)].name;
    for (const Step& step : steps_) {
      if (step.fold.over != name) continue;
      const auto& place = out_.places[size_t(text_.region(step.out.array) - text_.regions.data())];
      if (std::any_of(place.block.begin(), place.block.end(), [](uint64_t b) { return b > 1; }))
        continue;
      return refuse("the step of {} joins over {}, which is not cut over {} then", step.out.array,
                    name, tile_over_name(text_.over));
    }
    if (out_.iterators[size_t(iterator)].cut != Cut::kNot) {
      return refuse("{} goes along both axes", name);
    }
    out_.iterators[size_t(iterator)].cut = which;
    return {};
  }

  // Then a tile reads what it writes, and nothing that another one writes.
  Status check_in_place() const {
    for (size_t i = 0; i < text_.regions.size(); ++i) {
      const TileText::Array& region = text_.regions[i];
      if (region.in_place.empty()) continue;
      const size_t home = size_t(text_.region(region.in_place) - text_.regions.data());
      if (out_.places[home].iterator == out_.places[i].iterator) continue;
      return refuse("{} may be in the memory of {}, and has other indices: {} and {}", region.name,
                    region.in_place, seen_[i], seen_[home]);
    }
    return {};
  }

  std::string written(const std::string& at) const {
    std::string text;
    const auto access_text = [&](const Access& access) {
      std::string out = shown(access);
      return out.insert(access.array.size(), at);
    };
    for (const Step& step : steps_) {
      text += (text.empty() ? "" : "; ") + access_text(step.out) + " = ";
      if (!step.fold.monoid.empty()) {
        text += fmt::format("{}({} uncut) ", step.fold.monoid, step.fold.over);
      }
      if (step.function.empty()) {
        text += access_text(step.in[0]);
        continue;
      }
      text += step.function;
      std::string list;
      for (const std::string_view name : step.inside)
        list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
      if (!list.empty()) text += "[" + list + "]";
      list.clear();
      for (const Access& access : step.in) list += (list.empty() ? "" : ", ") + access_text(access);
      for (const auto& number : text_.numbers) list += fmt::format(", {0} = {0}", number.name);
      text += "(" + list + ")";
    }
    return text;
  }

  static constexpr uint64_t kUnitMax = 1 << 20;

  const TileText& text_;
  const std::string& effect_;
  Steps steps_;
  std::vector<std::string> seen_;  // By region: how it was read or made.
  UserEffect out_;
};

}  // namespace

Result<UserEffect> UserEffect::read(const TileText& text) {
  std::string effect = text.effect;
  if (effect.empty()) {
    SK_ASSIGN_OR_RETURN(effect, opaque_steps(text));
  }
  return Reader(text, effect).read();
}

}  // namespace sk
