#include "lib/plan/validate.h"

#include "lib/plan/check/contents.h"
#include "lib/plan/check/footprint.h"
#include "lib/plan/check/replay.h"
#include "lib/plan/check/structure.h"

namespace sk {

Status validate(const Plan& world) {
  SK_RETURN_IF_ERROR(check::check_op(world));
  SK_RETURN_IF_ERROR(check::check_parts(world));
  SK_RETURN_IF_ERROR(check::check_buffers(world));
  SK_RETURN_IF_ERROR(check::check_regions(world));
  SK_RETURN_IF_ERROR(check::check_signals(world));

  check::Budget budget;
  check::Footprint footprint(world, budget);
  SK_RETURN_IF_ERROR(footprint.build());
  check::Contents contents(world, footprint, budget);
  const check::Observer observer{[&](const check::Where& where) { contents.task(where); },
                                 [&](uint32_t rank) { contents.end(rank); }};
  // Whether contents are right means something only where no two tasks race for them: rule e comes
  // last, although it is watched on the way.
  SK_RETURN_IF_ERROR(check::replay(world, footprint, observer, budget));
  return contents.take_status();
}

}  // namespace sk
