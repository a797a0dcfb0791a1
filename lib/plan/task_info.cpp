#include "lib/plan/task_info.h"

#include <iterator>
#include <memory>
#include <vector>

#include "lib/tile/signature_effect.h"
#include "lib/tile/user_table.h"

namespace sk {
namespace {

constexpr Form kNoRegions[] = {{}};
constexpr RegionRole kPutRegions[] = {{"src", kRead}, {"dst", kWrite}};
constexpr Form kPutForms[] = {{kPutRegions, "dst[y, x] = src[y, x]"}};

constexpr Signature kKinds[] = {
    {.name = "nop", .forms = kNoRegions},
    {.name = "enter", .forms = kNoRegions},
    {.name = "await", .forms = kNoRegions},
    {.name = "put", .forms = kPutForms, .touches_peers = true},
};
static_assert(std::size(kKinds) == size_t(TaskOp::kPut) + 1);

using Effects = std::vector<std::unique_ptr<const SignatureEffect>>;

Effects all_effects() {
  Effects all;
  for (uint32_t op = 0; op < kTaskOpCount; ++op) {
    all.push_back(moves_bytes(TaskOp(op))
                      ? std::make_unique<const SignatureEffect>(*signature_of(TaskOp(op)))
                      : nullptr);
  }
  return all;
}

}  // namespace

const Signature* signature_of(TaskOp op) {
  if (size_t(op) < std::size(kKinds)) return &kKinds[size_t(op)];
  const TileOp* tile = tile_op(op);
  return tile == nullptr ? nullptr : &tile->signature;
}

std::string_view task_op_name(TaskOp op) {
  const Signature* signature = signature_of(op);
  return signature ? signature->name : "unknown operation";
}

bool moves_bytes(TaskOp op) {
  const Signature* signature = signature_of(op);
  return signature != nullptr && signature->region_count_max() > 0;
}

const effect::Tile* effect_of(TaskOp op) {
  if (op >= TaskOp::kUserFirst) {
    const UserTile* tile = user_tile(op);
    return tile != nullptr ? &tile->effect() : nullptr;
  }
  static const Effects all = all_effects();
  return size_t(op) < all.size() && all[size_t(op)] ? &all[size_t(op)]->tile() : nullptr;
}

std::optional<ChosenForm> chosen_form(const RankPlan& part, const Task& task) {
  const Signature* signature = signature_of(task.op);
  if (signature == nullptr || signature->form_parameter == kNoParameter) return std::nullopt;
  return ChosenForm{signature->parameters[signature->form_parameter],
                    part.params_of(task)[signature->form_parameter]};
}

}  // namespace sk
