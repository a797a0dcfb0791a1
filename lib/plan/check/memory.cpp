#include <algorithm>

#include "lib/op/schema.h"
#include "lib/plan/check/operands.h"
#include "lib/plan/check/refuse.h"
#include "lib/plan/check/structure.h"

namespace sk::check {
namespace {

constexpr uint64_t kPlacesMax = 1 << 25;
constexpr uint64_t kBytesMax = uint64_t(1) << 48;  // An address space: sums of two cannot wrap.

const char* access_name(BufferAccess access) {
  switch (access) {
    case BufferAccess::kLocal:
      return "local";
    case BufferAccess::kMapped:
      return "mapped";
    case BufferAccess::kPutOnly:
      return "put-only";
  }
  return "unknown";
}

Status check_workspace(const Buffer& buffer, size_t id) {
  if (buffer.generations < 1 || buffer.generations > 2) {
    return refuse('0', "buffer {} has {} generations, allowed are 1 and 2", id, buffer.generations);
  }
  if (buffer.operand != 0) {
    return refuse('0', "buffer {} is workspace, and operand {}", id, buffer.operand);
  }
  if (buffer.offset >= kBytesMax || buffer.offset % kWorkspaceAlign != 0) {
    return refuse('d', "buffer {}: offset {} is no multiple of {} below 2^48", id, buffer.offset,
                  kWorkspaceAlign);
  }
  return Status();
}

Status check_callers(const Plan& plan, const Buffer& buffer, size_t id) {
  if (buffer.generations != 1 || buffer.offset != 0 ||
      buffer.operand >= plan.op.schema().operands.size()) {
    return refuse('0', "buffer {}: a caller's has generation 1, offset 0, an operand of {}", id,
                  plan.op.schema().name);
  }
  // In place any name of the memory says so by which calls pass it.
  const Operands operands = operands_of(plan);
  bool symmetric = false;
  for (uint32_t i = 0; i < operands.count(); ++i) {
    if (operands.home(i) == operands.home(buffer.operand) && operands.passed(i)) {
      symmetric |= plan.op.symmetric(i);
    }
  }
  if (buffer.access != BufferAccess::kLocal && !symmetric) {
    return refuse('f', "buffer {} is {}, but that operand is not symmetric", id,
                  access_name(buffer.access));
  }
  return Status();
}

Status check_overlap(const Plan& plan) {
  std::vector<uint32_t> order;
  for (uint32_t id = 0; id < plan.buffers.size(); ++id) {
    if (plan.buffers[id].kind == BufferKind::kWorkspace) order.push_back(id);
  }
  const auto key = [&](uint32_t id) {
    const Buffer& b = plan.buffers[id];
    return std::tuple(b.owner, b.generations, b.offset, b.bytes, id);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const Buffer &a = plan.buffers[order[i - 1]], &b = plan.buffers[order[i]];
    if (a.owner != b.owner || a.generations != b.generations || a.bytes == 0) continue;
    if (b.offset < a.offset + a.bytes && b.bytes > 0 && !same_memory(a, b)) {
      return refuse('d', "buffers {} and {} of rank {} overlap in its workspace at byte {}",
                    order[i - 1], order[i], a.owner, b.offset);
    }
  }
  return Status();
}

Status check_bounds(const Plan& plan, const Region& region, const Where& where, uint32_t index) {
  if (region.rows == 0) return refuse('d', "{}: region {} has no rows", where, index);
  if (region.row_bytes == 0) return Status();  // Touches nothing, wherever it lies.
  if (region.rows == 1 ? region.pitch != region.row_bytes && region.pitch > kBytesMax
                       : region.pitch < region.row_bytes) {
    return refuse('d', "{}: region {} has pitch {} for rows of {} bytes", where, index,
                  region.pitch, region.row_bytes);
  }
  uint64_t end = 0;
  const bool overflow = __builtin_mul_overflow(region.pitch, uint64_t(region.rows - 1), &end) ||
                        __builtin_add_overflow(end, region.offset, &end) ||
                        __builtin_add_overflow(end, region.row_bytes, &end);
  for (uint32_t j = 0; j < region.buffer_count; ++j) {
    const uint64_t bytes = plan.buffers[region.buffer + j].bytes;
    if (overflow || end > bytes) {
      return refuse(
          'd', "{}: region {} at byte {}, {} rows of {} bytes, leaves buffer {} of {} bytes", where,
          index, region.offset, region.rows, region.row_bytes, region.buffer + j, bytes);
    }
  }
  return Status();
}

// Rule f for one buffer of one region.
Status check_reach(const Plan& plan, const Cast& cast, const RankPlan& part, const Task& task,
                   uint32_t id, bool write, const Where& where) {
  const Buffer& buffer = plan.buffers[id];
  if (buffer.kind != BufferKind::kWorkspace && buffer.bytes > 0 &&
      !has_operand(plan.op, buffer.operand, cast.rank(buffer.owner))) {
    return refuse('f', "{} touches buffer {}, but rank {} has no {}", where, id, buffer.owner,
                  operand_name(plan.op, buffer.operand));
  }
  if (write && buffer.kind == BufferKind::kInput) {
    return refuse('f', "{} writes buffer {}, an input", where, id);
  }
  if (task.op == TaskOp::kPut) {
    if (write == (buffer.owner == part.rank)) {
      return refuse('f', "{}: a put goes from the own rank to another, buffer {} is rank {}'s",
                    where, id, buffer.owner);
    }
    if (write && buffer.access == BufferAccess::kLocal) {
      return refuse('f', "{} puts into buffer {} of rank {}, which is local", where, id,
                    buffer.owner);
    }
  }
  if (buffer.owner == part.rank) return Status();
  if (task.op != TaskOp::kPut) {
    if (!plan.target.mapped || buffer.access != BufferAccess::kMapped) {
      return refuse('f', "{} touches buffer {} of rank {}, which is {}{}", where, id, buffer.owner,
                    access_name(buffer.access),
                    plan.target.mapped ? "" : ", and nothing is mapped");
    }
    if (!signature_of(task.op)->touches_peers) {
      return refuse('f', "{} touches buffer {} of another rank, {}", where, id, buffer.owner);
    }
  }
  if (!std::binary_search(part.peers.begin(), part.peers.end(), buffer.owner)) {
    return refuse('f', "{} touches buffer {} of rank {}, which is no peer", where, id,
                  buffer.owner);
  }
  return Status();
}

Status check_put(const Plan& plan, const RankPlan& part, const Task& task, const Where& where) {
  const std::span<const Region> regions = part.regions_of(task);
  if (regions[0].rows != 1 || regions[1].rows != 1) {
    return refuse('f', "{}: a put moves one row, not {} to {}", where, regions[0].rows,
                  regions[1].rows);
  }
  if (regions[0].row_bytes > plan.target.put_bytes_max) {
    return refuse('f', "{} moves {} bytes, a put can {}", where, regions[0].row_bytes,
                  plan.target.put_bytes_max);
  }
  const uint32_t to = plan.buffers[regions[1].buffer].owner;
  if (task.post_count != 1 || part.posts_of(task)[0].rank != to) {
    return refuse('f', "{} needs one post, to rank {}, to travel with the bytes", where, to);
  }
  return Status();
}

Status check_task_regions(const Plan& plan, const Cast& cast, const RankPlan& part,
                          const Task& task, const Where& where) {
  const std::span<const Region> regions = part.regions_of(task);
  const std::span<const int64_t> params = part.params_of(task);
  const Signature& signature = *signature_of(task.op);
  for (uint32_t i = 0; i < regions.size(); ++i) {
    SK_RETURN_IF_ERROR(check_bounds(plan, regions[i], where, i));
    const std::optional<uint64_t> own = signature.own_entry(params, i, task.region_count);
    for (uint32_t j = 0; j < regions[i].buffer_count; ++j) {
      if (own == j) continue;
      SK_RETURN_IF_ERROR(check_reach(plan, cast, part, task, regions[i].buffer + j,
                                     regions[i].access == kWrite, where));
    }
  }
  for (const Post& post : part.posts_of(task)) {
    if (post.rank != part.rank &&
        !std::binary_search(part.peers.begin(), part.peers.end(), post.rank)) {
      return refuse('f', "{} posts to rank {}, which is no peer", where, post.rank);
    }
  }
  return task.op == TaskOp::kPut ? check_put(plan, part, task, where) : Status();
}

}  // namespace

bool same_memory(const Buffer& a, const Buffer& b) {
  const bool workspace = a.kind == BufferKind::kWorkspace;
  if (a.owner != b.owner || workspace != (b.kind == BufferKind::kWorkspace)) return false;
  if (!workspace) return a.operand == b.operand;
  return a.offset == b.offset && a.bytes == b.bytes && a.generations == b.generations;
}

Status check_buffers(const Plan& plan) {
  for (size_t id = 0; id < plan.buffers.size(); ++id) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.owner >= plan.ranks.size()) {
      return refuse('0', "buffer {} has owner {}", id, buffer.owner);
    }
    if (buffer.kind > BufferKind::kWorkspace || buffer.access > BufferAccess::kPutOnly) {
      return refuse('0', "buffer {} has unknown kind {} or access {}", id, int(buffer.kind),
                    int(buffer.access));
    }
    if (buffer.bytes >= kBytesMax) return refuse('d', "buffer {} has {} bytes", id, buffer.bytes);
    SK_RETURN_IF_ERROR(buffer.kind == BufferKind::kWorkspace ? check_workspace(buffer, id)
                                                             : check_callers(plan, buffer, id));
  }
  return check_overlap(plan);
}

Status check_regions(const Plan& plan, const Cast& cast) {
  uint64_t places = 0;  // Each is looked at by itself.
  for (const RankPlan& part : plan.ranks) {
    for (const Region& region : part.regions) places += region.buffer_count;
    if (places > kPlacesMax) {
      return refuse('h', "regions in {} buffers in all, at most {} can be judged", places,
                    kPlacesMax);
    }
    for (uint32_t q = 0; q < part.queues.size(); ++q) {
      for (uint32_t i = 0; i < part.queues[q].task_count; ++i) {
        const Task& task = part.tasks[part.queues[q].first_task + i];
        if (task.region_count == 0 && task.post_count == 0) continue;
        SK_RETURN_IF_ERROR(check_task_regions(plan, cast, part, task, Where{part, q, i}));
      }
    }
  }
  return Status();
}

}  // namespace sk::check
