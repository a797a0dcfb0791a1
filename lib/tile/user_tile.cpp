#include "lib/tile/user_tile.h"

#include <limits>

#include "lib/op/names.h"
#include "lib/op/well_formed.h"
#include "lib/tile/parameters.h"
#include "lib/tile/well_formed.h"

namespace sk {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

size_t axes_of(std::string_view shape) {
  size_t axes = 0;
  for_each_axis(shape, [&](std::string_view) { ++axes; });
  return axes;
}

}  // namespace

Result<std::unique_ptr<UserTile>> UserTile::make(TileText text, TileFunction function, OpKind id,
                                                 TaskOp number) {
  SK_RETURN_IF_ERROR(check_tile_text(text));
  if (function.call == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT, "tile {}: function is null", text.name);
  }
  std::unique_ptr<UserTile> out(new UserTile(std::move(text), function));
  SK_ASSIGN_OR_RETURN(out->places_, UserEffect::read(out->text_));
  out->describe(id, number);
  // What is left has no name to it; none is known that comes as far as this.
  const auto refuse = [&](std::string_view flaw) {
    return error(SK_ERR_INVALID_ARGUMENT, "tile {}: {} (the effect is read as \"{}\")",
                 out->text_.name, flaw, out->places_.meaning);
  };
  if (const std::string_view flaw = flaw_in(out->schema_); flaw != kNoFlaw) return refuse(flaw);
  out->layout_ = ArgLayout(out->schema_);
  out->sign();
  if (const std::string_view flaw = flaw_in(out->signature); !flaw.empty()) return refuse(flaw);
  out->effect_ = std::make_unique<const SignatureEffect>(out->signature);
  if (const std::string_view flaw = out->effect().flaw(); !flaw.empty()) return refuse(flaw);
  return out;
}

// The operation.
void UserTile::describe(OpKind id, TaskOp number) {
  for (const TileText::Array& region : text_.regions) {
    for_each_axis(region.shape, [&](std::string_view axis) {
      const bool known = named(std::span<const Dimension>(dimensions_), axis) != nullptr;
      if (names::is_name(axis) && !known) dimensions_.push_back({keep(std::string(axis))});
    });
    operands_.push_back({.name = region.name.c_str(),
                         .role = region.role,
                         .types = region.types.c_str(),
                         .shape = region.shape.c_str(),
                         .storage = axes_of(region.shape) == 2 ? Storage::kRows : Storage::kDense,
                         .alias = region.in_place.c_str(),
                         .doc = region.doc.c_str()});
  }
  std::string brief = fmt::format("{{{}.dtype}}", text_.regions[0].name), extents;
  for (const Dimension& each : dimensions_) {
    extents += fmt::format("{}{{{}}}", extents.empty() ? ", " : " x ", each.name);
  }
  brief += extents;
  for (const TileText::Number& number : text_.numbers) {
    Attribute attribute{.name = number.name.c_str(), .kind = number.kind};
    if (number.kind == AttributeKind::kInt) {
      attribute.least = number.least.c_str();
      attribute.most = number.most.c_str();
    } else {
      if (!number.least.empty()) read_float(number.least, &attribute.lowest);
      if (!number.most.empty()) read_float(number.most, &attribute.highest);
    }
    attribute.doc = number.doc.c_str();
    attributes_.push_back(attribute);
    brief += fmt::format(", {0} {{{0}}}", number.name);
  }
  read_steps(places_.meaning, &meaning_);
  schema_ = {.id = id,
             .name = text_.name.c_str(),
             .brief = keep(brief),
             .scope = Scope::kLocal,
             .dimensions = dimensions_,
             .operands = operands_,
             .attributes = attributes_,
             .meaning = &meaning_,
             .free = free_dimension(),
             .summary = text_.summary.c_str(),
             .tile = number,
             .digest = text_.digest()};
}

// What is cut first, where it is one dimension that nothing else depends on and rows, wherever they
// have it, lie one after the other along it. None where calls of the function were promised rows
// that a run would have less of.
const char* UserTile::free_dimension() const {
  const UserEffect::Iterator& first = places_.iterators[0];
  if (first.cut != UserEffect::Cut::kFirst || text_.tile_rows > 1) return "";
  const Dimension* found = named(std::span<const Dimension>(dimensions_), first.extent);
  if (found == nullptr) return "";
  for (const UserEffect::Iterator& each : places_.iterators) {
    if (&each != &first && names::has_word(each.extent, found->name)) return "";
  }
  for (const TileText::Number& each : text_.numbers) {
    for (const std::string* bound : {&each.least, &each.most}) {
      if (names::has_word(*bound, found->name)) return "";
    }
  }
  for (const UserEffect::Place& place : places_.places) {
    if (place.iterator[0] >= 0 && place.iterator[1] == 0) return "";
  }
  return found->name;
}

// The tile.
void UserTile::sign() {
  for (const TileText::Array& region : text_.regions) {
    parameters_.push_back(tiles::dtype_parameter(keep(region.name + ".type")));
  }
  for (const UserEffect::Iterator& each : places_.iterators) {
    ranges_at_.push_back(parameters_.size());
    const char* whole = keep(each.name + ".whole");
    parameters_.push_back(tiles::extent_parameter(whole));
    const char *first = "0", *count = whole;
    if (each.cut != UserEffect::Cut::kNot) {
      first = keep(each.name + ".first");
      count = keep(each.name + ".count");
      parameters_.push_back(tiles::place_parameter(first));
      parameters_.push_back(tiles::place_parameter(count));
    }
    ranges_.push_back({each.name.c_str(), first, count, whole});
  }
  numbers_at_ = parameters_.size();
  for (const TileText::Number& number : text_.numbers) {
    const bool is_float = number.kind == AttributeKind::kFloat;
    parameters_.push_back({number.name.c_str(), is_float ? ParamKind::kFloat : ParamKind::kInteger,
                           ParamUse::kMeaning, kLeast, kMost});
  }
  for (size_t i = 0; i < text_.regions.size(); ++i) {
    roles_.push_back({.name = text_.regions[i].name.c_str(),
                      .access = text_.regions[i].role == Role::kIn ? kRead : kWrite,
                      .type = parameters_[type_parameter(i)].name});
    in_place |= !text_.regions[i].in_place.empty();
  }
  form_ = {roles_, places_.form.c_str(), ranges_};
  id = schema_.tile;
  version = text_.version;
  signature = {.name = text_.name.c_str(), .parameters = parameters_, .forms = {&form_, 1}};
  reference = nullptr;
  own = [](const TileOp& tile, const TileArgs& args) {
    return static_cast<const UserTile&>(tile).run(args);
  };
}

int64_t UserTile::extent(const TileArgs& args, size_t number, size_t axis) const {
  const UserEffect::Place& place = places_.places[number];
  if (place.iterator[axis] < 0) return 1;
  const auto iterator = size_t(place.iterator[axis]);
  const bool cut = places_.iterators[iterator].cut != UserEffect::Cut::kNot;
  const int64_t block = int64_t(place.block[axis]);
  const int64_t count = args.params[cut ? count_parameter(iterator) : whole_parameter(iterator)];
  return (count + block - 1) / block;
}

sk_tile_view UserTile::view(const TileArgs& args, size_t number) const {
  const Region& region = args.regions[number];
  const auto dtype = DType(args.params[type_parameter(number)]);
  const auto element = int64_t(dtype_bytes(dtype));
  const UserEffect::Place& place = places_.places[number];
  const auto first = [&](size_t axis) -> int64_t {
    const int iterator = place.iterator[axis];
    if (iterator < 0 || places_.iterators[size_t(iterator)].cut == UserEffect::Cut::kNot) return 0;
    return args.params[first_parameter(size_t(iterator))] / int64_t(place.block[axis]);
  };
  const int64_t cols = extent(args, number, 1);
  return {.rows = extent(args, number, 0),
          .cols = cols,
          .stride = region.rows > 1 ? int64_t(region.pitch) / element : cols,
          .row = first(0),
          .col = first(1),
          .dtype = int64_t(dtype)};
}

bool UserTile::run(const TileArgs& args) const {
  // Of what has no elements there may be rows without end, and nothing is to be done.
  bool writes = false;
  for (size_t i = 0; i < text_.regions.size(); ++i) {
    writes |= text_.regions[i].role == Role::kOut && args.regions[i].row_bytes > 0;
  }
  if (!writes) return true;
  void* data[kTileRegionsMax];
  sk_tile_view views[kTileRegionsMax];
  sk_tile_value values[kTileNumbersMax];
  for (size_t i = 0; i < text_.regions.size(); ++i) {
    data[i] = args.pointers[i][0];
    views[i] = view(args, i);
  }
  for (size_t i = 0; i < text_.numbers.size(); ++i) {
    values[i].i = args.params[number_parameter(i)];
  }
  std::unique_lock<std::mutex> alone;
  if (text_.serial) alone = std::unique_lock(serial_);
  return function_.call(data, views, values, function_.user) == 1;
}

}  // namespace sk
