#include "tests/multi/planted.h"

#include <algorithm>
#include <utility>

#include "lib/tile/tile_op.h"

namespace sk::testing_ops {
namespace {

bool works(const Task& task) { return tile_op(task.op) != nullptr; }

// Each chosen task becomes two: one with its waits and posts, then its work with neither. The post
// that must travel with a put still does, but adds nothing.
void post_before(RankPlan& part, bool puts) {
  std::vector<Task> tasks;
  for (Queue& queue : part.queues) {
    const Queue old = std::exchange(queue, {uint32_t(tasks.size()), 0});
    for (uint32_t i = 0; i < old.task_count; ++i) {
      Task task = part.tasks[old.first_task + i];
      if (task.post_count > 0 && (puts ? task.op == TaskOp::kPut : works(task))) {
        Task early = task;
        early.op = TaskOp::kNop;
        early.region_count = 0;
        early.param_count = 0;
        tasks.push_back(early);
        task.wait_count = 0;
        task.first_post = uint32_t(part.posts.size());
        task.post_count = puts ? 1 : 0;
        if (puts) part.posts.push_back({part.posts[early.first_post]});
        if (puts) part.posts.back().add = 0;
      }
      tasks.push_back(task);
    }
    queue.task_count = uint32_t(tasks.size()) - queue.first_task;
  }
  part.tasks = std::move(tasks);
}

// Behind what the plan has of the general area; fault_backend.cc commits so much more.
void stage_in_one_area(Plan& plan) {
  uint64_t general = 0;
  for (uint32_t rank = 0; rank < plan.world_size(); ++rank) {
    general = std::max(general, workspace_bytes(plan, rank, 1));
  }
  for (Buffer& buffer : plan.buffers) {
    if (buffer.kind != BufferKind::kWorkspace || buffer.generations != 2) continue;
    buffer.offset += align_up(general, kWorkspaceAlign);
    buffer.generations = 1;
  }
}

void forget_last_tile(RankPlan& part) {
  const auto last = std::find_if(part.tasks.rbegin(), part.tasks.rend(), works);
  if (last != part.tasks.rend()) last->op = TaskOp::kNop;
}

Plan broken(Plan plan, Bug bug) {
  for (RankPlan& part : plan.ranks) {
    if (bug == Bug::kIgnoresWaits) {
      for (Task& task : part.tasks) task.wait_count = 0;
    }
    if (bug == Bug::kPostsBeforeTile) post_before(part, /*puts=*/false);
    if (bug == Bug::kSignalsPutApart) post_before(part, /*puts=*/true);
    if (bug == Bug::kForgetsItsOwnWork) forget_last_tile(part);
  }
  if (bug == Bug::kOneStagingArea) stage_in_one_area(plan);
  return plan;
}

class PlantedProgram final : public Program {
 public:
  PlantedProgram(Bug bug, std::unique_ptr<Program> sound, Ledger& ledger)
      : bug_(bug), sound_(std::move(sound)), ledger_(ledger) {}
  const Plan& plan() const override { return sound_->plan(); }
  Status run(const RunArgs& args) override {
    Status status = sound_->run(args);
    if (bug_ == Bug::kIgnoresBase) std::fill(ledger_.base().begin(), ledger_.base().end(), 0);
    return status;
  }
  Status decline(const RunArgs& args, const OpDesc& op, int32_t code) override {
    return sound_->decline(args, op, code);
  }
  Refusal take_refusal() override { return sound_->take_refusal(); }

 private:
  Bug bug_;
  std::unique_ptr<Program> sound_;
  Ledger& ledger_;
};

class PlantedExecutor final : public Executor {
 public:
  PlantedExecutor(Bug bug, std::unique_ptr<Executor> sound, Ledger& ledger)
      : bug_(bug), sound_(std::move(sound)), ledger_(ledger) {}
  const char* name() const override { return "planted"; }
  Result<std::unique_ptr<Program>> prepare(std::shared_ptr<const Plan> plan,
                                           uint64_t fingerprint) override {
    SK_ASSIGN_OR_RETURN(
        std::unique_ptr<Program> program,
        sound_->prepare(std::make_shared<const Plan>(broken(*plan, bug_)), fingerprint));
    return std::unique_ptr<Program>(
        std::make_unique<PlantedProgram>(bug_, std::move(program), ledger_));
  }
  void set_trace(TraceBuffer* trace) override { sound_->set_trace(trace); }
  void set_hosts(std::span<const uint32_t> host_of) override { sound_->set_hosts(host_of); }
  void set_waiting(const Waiting& waiting) override { sound_->set_waiting(waiting); }

 private:
  Bug bug_;
  std::unique_ptr<Executor> sound_;
  Ledger& ledger_;
};

}  // namespace

std::unique_ptr<Executor> plant(Bug bug, std::unique_ptr<Executor> sound, Ledger& ledger) {
  return std::make_unique<PlantedExecutor>(bug, std::move(sound), ledger);
}

}  // namespace sk::testing_ops
