// Tiles of the user's own: descriptions by value, functions by their address, which Python's side
// keeps alive.
#include "sk/tile.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "context.h"
#include "text.h"
#include "tile_function.h"

namespace nb = nanobind;

namespace sk::python {
namespace {

// Role, name, types, shape, in place of; and kind, name, least, most. Empty texts are none.
using RegionText = std::tuple<int32_t, std::string, std::string, std::string, std::string>;
using NumberText = std::tuple<int32_t, std::string, std::string, std::string>;

const char* given(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

// A NUL would end a text of C's before its end.
void check_text(const std::string& text) {
  if (text.find('\0') != std::string::npos) throw nb::value_error("a text has a NUL in it");
}

int32_t register_tile(Context& context, const std::string& name, uint32_t version,
                      const std::string& summary, const std::string& effect, int32_t over,
                      bool serial, bool replace, int64_t tile_rows,
                      const std::vector<RegionText>& regions,
                      const std::vector<NumberText>& numbers, uintptr_t function, uintptr_t user) {
  for (const std::string* each : {&name, &summary, &effect}) check_text(*each);
  std::vector<sk_tile_region> region_structs;
  std::vector<sk_tile_parameter> number_structs;
  for (const auto& [role, region, types, shape, in_place] : regions) {
    for (const std::string* each : {&region, &types, &shape, &in_place}) check_text(*each);
    region_structs.push_back({uint32_t(sizeof(sk_tile_region)), role, region.c_str(), types.c_str(),
                              shape.c_str(), given(in_place), nullptr});
  }
  for (const auto& [kind, number, least, most] : numbers) {
    for (const std::string* each : {&number, &least, &most}) check_text(*each);
    number_structs.push_back({uint32_t(sizeof(sk_tile_parameter)), kind, number.c_str(),
                              given(least), given(most), nullptr});
  }
  std::vector<const sk_tile_region*> region_list;
  std::vector<const sk_tile_parameter*> number_list;
  for (const auto& each : region_structs) region_list.push_back(&each);
  for (const auto& each : number_structs) number_list.push_back(&each);
  sk_tile_desc desc = {};
  desc.struct_size = sizeof desc;
  desc.version = version;
  desc.name = name.c_str();
  desc.summary = given(summary);
  desc.effect = given(effect);
  desc.over = over;
  desc.flags = (serial ? SK_TILE_SERIAL : 0) | (replace ? SK_TILE_REPLACE : 0);
  desc.regions = region_list.data();
  desc.parameters = number_list.data();
  desc.region_count = uint32_t(region_list.size());
  desc.parameter_count = uint32_t(number_list.size());
  desc.tile_rows = tile_rows;
  desc.function = std::bit_cast<sk_tile_fn>(function);
  desc.user = pointer(user);
  int32_t op = 0;
  check(sk_tile_register(context.get(), &desc, &op));
  ++context.sharers[op];
  return op;
}

// Takes the operation away with the last tile that has it, unless another one took its place.
void leave_tile(Context& context, int32_t op) {
  const auto found = context.sharers.find(op);
  if (found == context.sharers.end()) return;
  if (found->second > 1) {
    --found->second;
    return;
  }
  const sk_status status = sk_tile_unregister(context.get(), op);
  if (status == SK_OK || status == SK_ERR_INVALID_ARGUMENT) {
    context.sharers.erase(found);
  } else {
    check(status);
  }
}

std::string describe_tile(const Context& context, const std::string& name) {
  return text_of([&](char* buffer, size_t capacity, size_t* size) {
    return sk_tile_describe(context.get(), name.c_str(), buffer, capacity, size);
  });
}

}  // namespace

void bind_tile(nb::module_& module) {
  bind_tile_function(module);
  module.def("register_tile", &register_tile);
  module.def("leave_tile", &leave_tile);
  module.def("describe_tile", &describe_tile);
}

}  // namespace sk::python
