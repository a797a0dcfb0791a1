// What a replay of a scene has to show beyond the rules for worlds: that the part keeps its flows.
#ifndef SK_LIB_PLAN_CHECK_FLOW_WATCH_H_
#define SK_LIB_PLAN_CHECK_FLOW_WATCH_H_

#include <map>
#include <vector>

#include "lib/plan/check/judge.h"
#include "lib/plan/check/scene.h"

namespace sk::check {

class FlowWatch {
 public:
  FlowWatch(const Scene& scene, const effect::Meaning& meaning, Judge& judge, Budget& budget);

  // As Judge's: the first failure is kept, in an order of tasks that the plan allows.
  void task(const Where& where);
  Status take_status();

 private:
  // A chunk, by a signal of it and which post of that one is meant.
  struct Passing {
    const Flow* flow = nullptr;
    uint32_t chunk = 0;
    bool data = false;  // Else its credit.
  };
  // `use` counts from 0. Of what is in no flow `flow` is null.
  Passing find(uint32_t from, uint32_t to, uint32_t signal, uint32_t use) const;
  Passing next(const Where& where, const Post& post);

  Status own_task(const Where& where);
  Status check_put(const Where& where, const Passing& passing);
  Status check_waits(const Where& where);
  Status check_post(const Where& where, const Post& post);
  Result<effect::Stream> stream(const Flow& flow, const Chunk& chunk);
  Result<effect::Term> term(const Content& content);

  const Scene& scene_;
  const effect::Meaning& meaning_;
  Judge& judge_;
  Budget& budget_;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> uses_;  // By ranks and signal: posts so far.
  // By queue of the part, what is the latest that it has waited for: 0 nothing, 1 the entries of
  // others, 2 + a step. An entry waits for nothing of others, and comes before all steps.
  std::vector<uint64_t> steps_;
  uint64_t admitted_ = 0;  // The first queue's at its await, behind which those of others start.
  // The same of what its queues tell each other: by signal, for each post so far, how far that has
  // grown with it.
  struct Told {
    uint64_t reach, step;
  };
  std::map<uint32_t, std::vector<Told>> own_signals_;
  struct Joined {
    Content content;
    effect::Term term;
  };
  std::vector<Joined> joined_;  // Of flows, whose chunks nearly always are of one term.
  Status status_;
};

}  // namespace sk::check

#endif  // SK_LIB_PLAN_CHECK_FLOW_WATCH_H_
