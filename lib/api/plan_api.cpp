#include "lib/api/objects.h"
#include "lib/comm/arguments.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "sk/op.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

// The caller gave a plan, and no handle that a sentence about communicators could show.
auto comm_of(const PlanHandle& plan) {
  using Found = decltype(comms.use(plan.comm));
  Found found = comms.use(plan.comm);
  return found.status().code() != SK_ERR_BAD_HANDLE
             ? std::move(found)
             : Found(error(SK_ERR_BAD_HANDLE, "the plan's communicator was freed"));
}

}  // namespace

sk_status sk_plan_create(sk_comm* comm, const sk_plan_desc* desc, sk_plan** out_plan) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    SK_RETURN_IF_ERROR(require("out_plan", out_plan));
    const World world = world_of(communicator);
    SK_ASSIGN_OR_RETURN(const OpDesc op, plan_op(world, desc));
    SK_ASSIGN_OR_RETURN(auto plan, communicator.plan_for(op));
    SK_ASSIGN_OR_RETURN(
        void* handle,
        plans.add(std::make_unique<PlanHandle>(PlanHandle{comm, world, std::move(plan)})));
    *out_plan = static_cast<sk_plan*>(handle);
    return {};
  });
}

sk_status sk_plan_run(sk_plan* plan, const void* in, const sk_packed* weights, void* out,
                      const sk_run_options* options) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto use, plans.use(plan));
    SK_ASSIGN_OR_RETURN(const auto comm, comm_of(*use));
    if (!takes_part(use->world, use->plan->op)) return {};
    std::optional<decltype(packed_weights)::Use> packed;
    if (weights != nullptr) {
      SK_ASSIGN_OR_RETURN(auto pinned, packed_weights.pin(weights));
      packed.emplace(std::move(pinned));
    }
    SK_ASSIGN_OR_RETURN(const Call call, plan_call(use->world, use->plan->op, in,
                                                   packed ? &**packed : nullptr, out, options));
    return comm->communicator->execute(call, {});
  });
}

sk_status sk_plan_dump(const sk_plan* plan, char* buffer, size_t capacity,
                       size_t* out_size) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto use, plans.use(plan));
    return copy_out(dump(*use->plan), buffer, capacity, out_size);
  });
}

sk_status sk_plan_check(const char* text, size_t length) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(require("text", text));
    SK_RETURN_IF_ERROR(check_text("text", text, length));
    SK_ASSIGN_OR_RETURN(const Plan plan, parse({text, length}));
    return validate(plan);
  });
}

sk_status sk_plan_free(sk_plan* plan) noexcept {
  return guarded([&]() -> Status { return std::move(plans.remove(plan).status()); });
}
