#include "lib/plan/validate.h"

#include "lib/plan/check/footprint.h"
#include "lib/plan/check/judge.h"
#include "lib/plan/check/replay.h"
#include "lib/plan/check/structure.h"

namespace sk {
namespace {

// Rules a, c and g; what rule e says goes to `contents_status`.
Status run_and_watch(const Plan& world, const check::Footprint& footprint,
                     const effect::Meaning& meaning, check::Telling telling, check::Budget& budget,
                     Status& contents_status) {
  check::Judge judge(world, footprint, meaning, budget);
  const check::Observer observer{[&](const check::Where& where) { judge.task(where); },
                                 [&](uint32_t rank) { judge.end(rank); }};
  SK_RETURN_IF_ERROR(check::replay(world, footprint, observer, telling, budget));
  contents_status = judge.take_status();
  return Status();
}

}  // namespace

Status validate(const Plan& world) {
  SK_RETURN_IF_ERROR(check::check_op(world));
  SK_RETURN_IF_ERROR(check::check_parts(world));
  SK_RETURN_IF_ERROR(check::check_buffers(world));
  SK_RETURN_IF_ERROR(check::check_regions(world));
  SK_RETURN_IF_ERROR(check::check_signals(world));

  check::Budget budget;
  check::Footprint footprint(world, budget);
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

}  // namespace sk
