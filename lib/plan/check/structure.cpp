#include "lib/plan/check/structure.h"

#include <algorithm>

#include "lib/op/schema.h"
#include "lib/plan/check/refuse.h"
#include "lib/plan/text_words.h"

namespace sk::check {
namespace {

bool inside(uint64_t first, uint64_t count, size_t size) { return first + count <= size; }

Status check_params(const RankPlan& part, const Task& task, const Signature& signature,
                    const Where& where) {
  if (task.param_count != signature.parameters.size()) {
    return refuse('0', "{} has {} parameters, not {}", where, task.param_count,
                  signature.parameters.size());
  }
  const std::span<const int64_t> values = part.params_of(task);
  for (size_t i = 0; i < values.size(); ++i) {
    const Parameter& param = signature.parameters[i];
    if (values[i] < param.min || values[i] > param.max) {
      return refuse('0', "{}: {} is {}, allowed are {} to {}", where, param.name,
                    text::value_text(param, values[i]), text::value_text(param, param.min),
                    text::value_text(param, param.max));
    }
  }
  return Status();
}

Status refuse_count(const Task& task, const Signature& signature, const Where& where) {
  const uint32_t least = signature.region_count_min(), most = signature.region_count_max();
  if (task.region_count >= least && task.region_count <= most) {
    return refuse('0', "{} has {} regions, which its {} does not take", where, task.region_count,
                  signature.parameters[signature.form_parameter].name);
  }
  return refuse('0', "{} has {} regions, allowed are {} to {}", where, task.region_count, least,
                most);
}

Status check_roles(const Plan& plan, const RankPlan& part, const Task& task,
                   const Signature& signature, const Where& where) {
  const Form& form = *signature.form(part.params_of(task));
  if (!form.takes(task.region_count)) return refuse_count(task, signature, where);
  for (uint32_t i = 0; i < task.region_count; ++i) {
    const Region& region = part.regions_of(task)[i];
    const RegionRole* role = form.role(i, task.region_count);
    if (region.access != role->access) {
      return refuse('0', "{}: region {} ({}) must be {}", where, i, role->name,
                    role->access == kRead ? "read" : "written");
    }
    if (region.buffer_count == 0 || (region.buffer_count > 1 && !role->many_buffers)) {
      return refuse('0', "{}: region {} ({}) is in {} buffers", where, i, role->name,
                    region.buffer_count);
    }
    if (!inside(region.buffer, region.buffer_count, plan.buffers.size())) {
      return refuse('0', "{}: region {} names buffers {} to {}, there are {}", where, i,
                    region.buffer, uint64_t(region.buffer) + region.buffer_count - 1,
                    plan.buffers.size());
    }
  }
  return Status();
}

// What has no order to keep is not said to keep one: a plan has one text.
Status check_order(const Task& task, const Where& where) {
  if ((task.flags & kPostsInOrder) == 0) return Status();
  const char* why = task.post_count == 0            ? "it has none"
                    : task.op == TaskOp::kPut       ? "a put's travel with its bytes"
                    : (task.flags & kAfterAll) != 0 ? "those of a task that is after_all are so"
                                                    : nullptr;
  return why == nullptr ? Status() : refuse('0', "{} has its posts in order: {}", where, why);
}

Status check_task(const Plan& plan, const RankPlan& part, const Task& task, const Where& where) {
  const Signature* signature = signature_of(task.op);
  if (signature == nullptr) return refuse('0', "{}: there is no operation {}", where, int(task.op));
  if (task.op >= TaskOp::kUserFirst && task.op != plan.op.schema().tile) {
    return refuse('0', "{}: a user's tile is in plans of its own operation alone", where);
  }
  const int known =
      kAfterAll | kPostsInOrder | (plan.free.number != 0 ? kFreeRows | kFreeBlocks : 0);
  if ((task.flags & ~known) != 0) {
    return refuse('0', "{} has unknown flags {}", where, task.flags);
  }
  SK_RETURN_IF_ERROR(check_order(task, where));
  if (!inside(task.first_region, task.region_count, part.regions.size()) ||
      !inside(task.first_param, task.param_count, part.params.size()) ||
      !inside(task.first_wait, task.wait_count, part.waits.size()) ||
      !inside(task.first_post, task.post_count, part.posts.size())) {
    return refuse('0', "{} points outside the side tables", where);
  }
  SK_RETURN_IF_ERROR(check_params(part, task, *signature, where));
  return check_roles(plan, part, task, *signature, where);
}

// One kEnter per rank with peers, and an await: or a run would go on before its peers agree. The
// first queue enters and awaits: its worker alone has to do with entries, which are all that an
// await waits for. (That it awaits first is a circle: rule a.)
Status check_entry(const RankPlan& part) {
  uint32_t enters = 0, awaits = 0, first_awaits = 0;
  for (uint32_t i = 0; i < part.tasks.size(); ++i) {
    const Task& task = part.tasks[i];
    const bool in_first = !part.queues.empty() && i < part.queues[0].task_count;
    if (task.op == TaskOp::kEnter) {
      ++enters;
      if (!in_first) return refuse('0', "rank {} enters, but not in its first queue", part.rank);
    }
    if (task.op != TaskOp::kAwait) continue;
    ++awaits;
    first_awaits += in_first ? 1 : 0;
    if (task.wait_count == 0) continue;
    return refuse('0', "rank {}: an await waits for peers' entries, not for signals", part.rank);
  }
  if (awaits > 0 && first_awaits == 0) {
    return refuse('0', "rank {} awaits its peers, but not in its first queue", part.rank);
  }
  if (part.peers.empty() ? enters > 1 : enters != 1) {
    return refuse('0', "rank {} has {} enter tasks and {} peers", part.rank, enters,
                  part.peers.size());
  }
  if (!part.peers.empty() && awaits == 0) {
    return refuse('0', "rank {} has peers but never awaits them", part.rank);
  }
  return Status();
}

Status check_peers(const Plan& plan, const RankPlan& part) {
  for (size_t i = 0; i < part.peers.size(); ++i) {
    const uint32_t peer = part.peers[i];
    if (peer >= plan.ranks.size() || peer == part.rank) {
      return refuse('0', "rank {} cannot have peer {}", part.rank, peer);
    }
    if (i > 0 && part.peers[i - 1] >= peer) {
      return refuse('0', "rank {}: peers are not ascending at {}", part.rank, peer);
    }
    const std::vector<uint32_t>& back = plan.ranks[peer].peers;
    if (!std::binary_search(back.begin(), back.end(), part.rank)) {
      return refuse('0', "rank {} has peer {}, which does not have it", part.rank, peer);
    }
  }
  return Status();
}

// Of a call between two ranks the others run no part.
Status check_pair(const Plan& plan) {
  if (!is_pair(plan.op)) return Status();
  const std::array<uint32_t, 2> ends = ends_of(plan.op);
  const auto is_end = [&](uint32_t rank) { return rank == ends[0] || rank == ends[1]; };
  for (const RankPlan& part : plan.ranks) {
    for (const uint32_t peer : part.peers) {
      if (is_end(part.rank) && is_end(peer)) continue;
      return refuse('0', "rank {} has peer {}: {} is of two ranks", part.rank, peer,
                    describe(plan.op));
    }
  }
  return Status();
}

Status check_part(const Plan& plan, const RankPlan& part) {
  SK_RETURN_IF_ERROR(check_peers(plan, part));
  if (part.queues.size() > plan.target.workers) {
    return refuse('b', "rank {} has {} queues, but {} workers", part.rank, part.queues.size(),
                  plan.target.workers);
  }
  uint64_t next = 0;
  for (uint32_t q = 0; q < part.queues.size(); ++q) {
    const Queue queue = part.queues[q];
    if (queue.first_task != next || !inside(next, queue.task_count, part.tasks.size())) {
      return refuse('0', "rank {} queue {} does not follow the queue before it", part.rank, q);
    }
    next += queue.task_count;
    for (uint32_t i = 0; i < queue.task_count; ++i) {
      SK_RETURN_IF_ERROR(
          check_task(plan, part, part.tasks[queue.first_task + i], Where{part, q, i}));
    }
  }
  if (next != part.tasks.size()) {
    return refuse('0', "rank {} has {} tasks in no queue", part.rank, part.tasks.size() - next);
  }
  return check_entry(part);
}

}  // namespace

Status check_parts(const Plan& plan, const Cast& cast) {
  if (plan.ranks.size() != cast.size(plan)) {
    return refuse('0', "{} ranks' parts, world size {}", plan.ranks.size(), plan.target.world_size);
  }
  for (uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (plan.ranks[rank].rank != rank) {
      return refuse('0', "part {} is that of rank {}", rank, plan.ranks[rank].rank);
    }
  }
  SK_RETURN_IF_ERROR(check_pair(plan));
  uint64_t tasks = 0;
  for (const RankPlan& part : plan.ranks) {
    SK_RETURN_IF_ERROR(check_part(plan, part));
    tasks += part.tasks.size();
  }
  if (tasks > (1u << 24)) return refuse('h', "{} tasks, at most {} can be judged", tasks, 1u << 24);
  return Status();
}

Status check_structure(const Plan& plan, const Cast& cast) {
  SK_RETURN_IF_ERROR(check_op(plan));
  SK_RETURN_IF_ERROR(check_parts(plan, cast));
  SK_RETURN_IF_ERROR(check_buffers(plan));
  SK_RETURN_IF_ERROR(check_regions(plan, cast));
  return check_signals(plan);
}

}  // namespace sk::check
