#include "lib/plan/validate.h"

#include <algorithm>

#include "lib/plan/check/footprint.h"
#include "lib/plan/check/judge.h"
#include "lib/plan/check/replay.h"
#include "lib/plan/check/structure.h"
#include "lib/plan/free_rows.h"
#include "lib/plan/lists.h"

namespace sk {
namespace {

const check::Cast kAll;

// Rules a, c and g; what rule e says goes to `contents_status`.
Status run_and_watch(const Plan& world, const check::Footprint& footprint,
                     const effect::Meaning& meaning, check::Telling telling, check::Budget& budget,
                     Status& contents_status) {
  check::Judge judge(world, kAll, footprint, meaning, budget);
  const check::Observer observer{[&](const check::Where& where) { judge.task(where); },
                                 [&](uint32_t rank) { judge.end(rank); }};
  SK_RETURN_IF_ERROR(check::replay(world, footprint, observer, telling, budget));
  contents_status = judge.take_status();
  return Status();
}

// Of all that a plan says, but that its free dimension may be less.
Status validate_as_made(const Plan& world) {
  SK_RETURN_IF_ERROR(check::check_structure(world, kAll));

  check::Budget budget;
  check::Footprint footprint(world, kAll, budget);
  SK_RETURN_IF_ERROR(footprint.build());
  const effect::Meaning meaning(world.op, world.target.world_size);
  // Whether contents are right means something only where no two tasks race for them: rule e comes
  // last, although it is watched on the way.
  Status contents;
  if (world.target.world_size <= check::kPairRanksMax &&
      run_and_watch(world, footprint, meaning, check::Telling::kPair, budget, contents).ok()) {
    return contents;
  }
  SK_RETURN_IF_ERROR(
      run_and_watch(world, footprint, meaning, check::Telling::kAll, budget, contents));
  return contents;
}

// What a run has of a range is cut alike in its tile's parameters and regions, by the tile's own
// record (put_in_effect()), so elements below the cut keep their terms and those above are in no
// task. What the plan could get wrong is which tasks are cut and by what: free_flaw() knows that
// they go over as much as the dimension or its blocks have, which are one number only where there
// is one row at most; where there is none a task that should be cut and is not leaves its operand.
Status validate_free(const Plan& world) {
  if (const std::string flaw = free_flaw(world); !flaw.empty())
    return check::refuse('0', "{}", flaw);
  if (const std::string flaw = list_flaw(world); !flaw.empty())
    return check::refuse('0', "{}", flaw);
  if (world.free.number == 0) return Status();
  const effect::Meaning meaning(world.op, world.target.world_size);
  const auto sums_such = [&](const effect::Function& each) {
    return each.block == world.free.block;
  };
  if (world.free.block != 0 && !std::ranges::any_of(meaning.functions(), sums_such)) {
    return check::refuse('0', "{} sums no blocks of {}", describe(world.op), world.free.block);
  }
  for (const uint64_t extent : {uint64_t(0), free_extent(world) / 2}) {
    if (Status status = validate_as_made(in_effect(world, extent)); !status.ok()) {
      return error(status.code(), "with {} of its free dimension in effect: {}", extent,
                   status.message());
    }
  }
  return Status();
}

}  // namespace

Status validate(const Plan& world) {
  SK_RETURN_IF_ERROR(validate_as_made(world));
  return validate_free(world);
}

}  // namespace sk
