#include "lib/comm/plan_fits.h"

namespace sk {
namespace {

Status differs(const char* field, uint64_t plan, const char* relation, uint64_t here) {
  return error(SK_ERR_INVALID_ARGUMENT,
               "the plan's target has {}={}, this communicator runs plans with {}{}", field, plan,
               relation, here);
}

}  // namespace

Status check_fits(const Plan& plan, const Target& here) {
  const Target& target = plan.target;
  const struct {
    const char* field;
    uint64_t plan, here;
  } same[] = {
      {"world_size", target.world_size, here.world_size},
      {"mapped", target.mapped, here.mapped},
      // How packed weights lie, which are made without a plan.
      {"packed_bytes", target.packed_bytes, here.packed_bytes},
      {"packed_pitch", target.packed_pitch, here.packed_pitch},
      {"raw_b", target.raw_b, here.raw_b},
  };
  for (const auto& [field, its, ours] : same) {
    if (its != ours) return differs(field, its, "", ours);
  }
  if (target.workers > here.workers)
    return differs("workers", target.workers, "at most ", here.workers);
  if (target.put_bytes_max > here.put_bytes_max)
    return differs("put_bytes_max", target.put_bytes_max, "at most ", here.put_bytes_max);
  if (target.edge_signals_max > here.edge_signals_max)
    return differs("edge_signals_max", target.edge_signals_max, "at most ", here.edge_signals_max);
  return {};
}

}  // namespace sk
