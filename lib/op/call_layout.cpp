#include "lib/op/call_layout.h"

#include <array>

#include "lib/op/ops/all.h"

namespace sk {
namespace {

#define SK_LIST_LAYOUT(name) ArgLayout(ops::name),
constexpr ArgLayout kLayouts[] = {SK_ALL_SCHEMAS(SK_LIST_LAYOUT)};
#undef SK_LIST_LAYOUT

}  // namespace

const ArgLayout& arg_layout(const Schema& schema) {
  const std::span<const Schema* const> all = all_schemas();
  size_t index = 0;
  while (all[index] != &schema) ++index;
  return kLayouts[index];
}

}  // namespace sk
