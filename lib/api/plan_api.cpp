#include "lib/api/calling.h"
#include "lib/comm/arguments.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "sk/op.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

// The caller gave a plan, and no handle that a sentence about communicators could show.
auto comm_of(const PlanHandle& plan, const sk_run_options* options) {
  using Found = decltype(use_comm(plan.comm, options));
  Found found = use_comm(plan.comm, options);
  return found.status().code() != SK_ERR_BAD_HANDLE
             ? std::move(found)
             : Found(error(SK_ERR_BAD_HANDLE, "the plan's communicator was freed"));
}

// `again`: with the same memory it is the same call; options are of one run alone.
Status run_anew(PlanHandle& plan, Communicator& communicator, const Call& call, bool again) {
  Status status = communicator.execute(call, {}, &plan.pinned);
  if (!again || !status.ok()) plan.pinned.places = 0;
  return status;
}

// Ready to be run: what cannot be is said now, and not to peers that wait in its first run. A rank
// that takes no part in it has nothing to make.
Result<void*> add_prepared(Communicator& communicator, PlanHandle made) {
  if (takes_part(made.world, made.plan->op)) {
    Call call;
    call.op = made.plan->op;
    call.planned = true;
    SK_RETURN_IF_ERROR(communicator.prepare(call, made.pinned));
  }
  return plans.add(std::make_unique<PlanHandle>(std::move(made)));
}

}  // namespace

sk_status sk_plan_create(sk_comm* comm, const sk_plan_desc* desc, sk_plan** out_plan) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    SK_RETURN_IF_ERROR(require("out_plan", out_plan));
    const World world = world_of(communicator);
    SK_ASSIGN_OR_RETURN(const OpDesc op, plan_op(world, desc));
    SK_ASSIGN_OR_RETURN(auto plan, communicator.plan_for(op));
    SK_ASSIGN_OR_RETURN(void* handle, add_prepared(communicator, {comm, world, std::move(plan)}));
    *out_plan = static_cast<sk_plan*>(handle);
    return {};
  });
}

sk_status sk_plan_run(sk_plan* plan, const void* in, const sk_packed* weights, void* out,
                      const sk_run_options* options) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto use, plans.use(plan));
    SK_ASSIGN_OR_RETURN(const auto comm, comm_of(*use, options));
    if (!takes_part(use->world, use->plan->op)) return {};
    PackedUses packed;
    SK_RETURN_IF_ERROR(packed.pin({weights}));
    const bool same = options == nullptr && in == use->in && weights == use->weights &&
                      out == use->out && comm->communicator->knows(use->pinned);
    if (same) [[likely]]
      return comm->communicator->run(use->pinned.call);
    SK_ASSIGN_OR_RETURN(const Call call, plan_call(use->world, use->plan->op, in,
                                                   packed.operands()[0], out, options));
    use->in = in, use->weights = weights, use->out = out;
    return run_anew(*use, *comm->communicator, call, options == nullptr);
  });
}

sk_status sk_plan_parse(sk_comm* comm, const char* text, size_t length,
                        sk_plan** out_plan) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    SK_RETURN_IF_ERROR(require("text", text));
    SK_RETURN_IF_ERROR(require("out_plan", out_plan));
    SK_RETURN_IF_ERROR(check_text("text", text, length));
    SK_ASSIGN_OR_RETURN(Plan parsed, parse({text, length}));
    SK_RETURN_IF_ERROR(validate(parsed));
    SK_RETURN_IF_ERROR(communicator.check_fits(parsed));
    auto plan = std::make_shared<const Plan>(std::move(parsed));
    PlanHandle made{comm, world_of(communicator), plan};
    made.pinned.plan = std::move(plan);
    SK_ASSIGN_OR_RETURN(void* handle, add_prepared(communicator, std::move(made)));
    *out_plan = static_cast<sk_plan*>(handle);
    return {};
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
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(check_outside_tiles());
    return std::move(plans.remove(plan).status());
  });
}
