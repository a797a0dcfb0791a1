// Judges one part with its flows. Why it is enough that every rank's part passes:
//
// A scene has the part itself and all that it can see of others, so what the rules for worlds find
// in it holds for the part in any world whose other parts keep their flows too. That they do is
// what their own scenes show, each resting on the others only for what has happened before: the
// first thing that any part did against a flow would have been done by one whose neighbours had
// kept all of theirs. Nobody waits for ever: see flow.h. And of what two ranks say of the flows
// between them both are asked here.
#include "lib/op/schema.h"
#include "lib/plan/check/flow_watch.h"
#include "lib/plan/check/replay.h"
#include "lib/plan/check/structure.h"
#include "lib/plan/validate.h"

namespace sk {
namespace {

Status judge(const check::Scene& scene, const check::Cast& cast, check::Telling telling,
             check::Budget& budget, Status& contents) {
  check::Footprint footprint(scene.plan, cast, budget);
  SK_RETURN_IF_ERROR(footprint.build());
  const effect::Meaning meaning(scene.plan.op, scene.plan.target.world_size);
  check::Judge judge(scene.plan, cast, footprint, meaning, budget);
  check::FlowWatch watch(scene, meaning, judge, budget);
  const check::Observer observer{[&](const check::Where& where) { watch.task(where); },
                                 [&](uint32_t rank) {
                                   if (rank == scene.self) judge.end(rank);
                                 }};
  SK_RETURN_IF_ERROR(check::replay(scene.plan, footprint, observer, telling, budget));
  contents = watch.take_status();
  return Status();
}

Status judge(const check::Scene& scene) {
  const check::Cast cast(scene.ranks);
  SK_RETURN_IF_ERROR(check::check_structure(scene.plan, cast));
  check::Budget budget;
  Status contents;
  if (judge(scene, cast, check::Telling::kPair, budget, contents).ok()) return contents;
  SK_RETURN_IF_ERROR(judge(scene, cast, check::Telling::kAll, budget, contents));
  return contents;
}

}  // namespace

Status validate_part(const Plan& part, const FlowsOf& flows_of) {
  SK_ASSIGN_OR_RETURN(const check::Scene scene, check::make_scene(part, flows_of));
  const Status status = judge(scene);
  if (status.ok()) return Status();
  const auto numbers = [](const std::vector<uint32_t>& of_plan) {
    std::string text;
    for (size_t i = 0; i < of_plan.size(); ++i) {
      text += fmt::format("{}{} is {}", i == 0 ? "" : ", ", i, of_plan[i]);
    }
    return text;
  };
  return error(status.code(),
               "{} (judged with its neighbours alone: of the ranks here {} in the plan, of the "
               "buffers {})",
               status.message(), numbers(scene.ranks), numbers(scene.buffers));
}

}  // namespace sk
