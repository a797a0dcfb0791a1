#include "lib/api/calling.h"
#include "lib/comm/arguments.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "sk/op.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

// What the last run was given is the same call, unless that had options, which are of one run
// alone.
Status run_anew(PlanHandle& plan, Communicator& communicator, const void* in,
                const sk_packed* weights, void* out, const sk_run_options* options) {
  PackedUses packed;
  SK_RETURN_IF_ERROR(packed.pin({weights}));
  SK_ASSIGN_OR_RETURN(const Call call,
                      plan_call(plan.world, plan.plan->op, in, packed.operands()[0], out, options));
  plan.in = in, plan.weights = weights, plan.out = out;
  Status status = communicator.execute(call, {}, &plan.pinned);
  if (options != nullptr || !status.ok()) plan.pinned.places = 0;
  return status;
}

// Weights may have been freed since.
Status run_again(PlanHandle& plan, Communicator& communicator) {
  if (plan.weights == nullptr) [[likely]]
    return communicator.run(plan.pinned.call);
  SK_ASSIGN_OR_RETURN(const auto weights, packed_weights.pin(plan.weights));
  return communicator.run(plan.pinned.call);
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
  const void* const comm = made.comm;
  return plans.add(std::make_unique<PlanHandle>(std::move(made)), /*turn_ns=*/0, comm);
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
    SK_ASSIGN_OR_RETURN(const auto use, use_for_comm(plans, plan, options));
    PlanHandle& mine = *use.second;
    Communicator& communicator = *use.first->communicator;
    const bool same = options == nullptr && in == mine.in && weights == mine.weights &&
                      out == mine.out && communicator.knows(mine.pinned);
    if (same) [[likely]]
      return run_again(mine, communicator);
    if (!takes_part(mine.world, mine.plan->op)) return {};
    return run_anew(mine, communicator, in, weights, out, options);
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
  return guarded([&]() -> Status { return std::move(plans.remove_from(comms, plan).status()); });
}
