// Lowering: what of a plan can be looked up before a run is looked up here, once.
#include <algorithm>

#include "lib/exec/cpu/program.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {

Result<std::unique_ptr<Program>> CpuProgram::lower(std::shared_ptr<const Plan> plan,
                                                   Shared& shared) {
  const uint32_t rank = shared.endpoint.rank();
  std::unique_ptr<CpuProgram> program(new CpuProgram(shared));
  program->part_ = plan->part(rank);
  if (program->part_ == nullptr) {
    return error(SK_ERR_INTERNAL, "the plan has no part for rank {}", rank);
  }
  if (workspace_bytes(*plan, rank, 2) > kStagingBytes) {
    return error(SK_ERR_UNSUPPORTED, "the plan stages {} bytes, at most {} are there",
                 workspace_bytes(*plan, rank, 2), kStagingBytes);
  }
  program->plan_ = std::move(plan);
  program->fingerprint_ = fingerprint(program->plan_->op);
  program->call_ = pack_call(program->plan_->op);
  SK_RETURN_IF_ERROR(program->lower_signals());
  program->lower_tasks();
  program->lower_addresses();
  return std::unique_ptr<Program>(std::move(program));
}

Status CpuProgram::lower_signals() {
  Ledger& ledger = shared_.ledger;
  Endpoint& endpoint = shared_.endpoint;
  const uint32_t limit = ledger.signals_per_producer();
  if (part_->signal_count > limit) {
    return error(SK_ERR_UNSUPPORTED, "the plan has {} signals per rank, at most {} are there",
                 part_->signal_count, limit);
  }
  for (const Wait& wait : part_->waits) {
    const uint32_t producer = part_->signal_producers[wait.signal];
    const uint32_t index = ledger.index(producer, wait.signal);
    waits_.push_back(
        {&endpoint.signals()[index].value, &ledger.base()[index], wait.target, producer});
  }
  for (const Post& post : part_->posts) {
    if (post.signal >= limit) {
      return error(SK_ERR_UNSUPPORTED, "the plan posts signal {}, at most {} are there",
                   post.signal, limit);
    }
    LoweredPost lowered{};
    lowered.rank = post.rank;
    lowered.index = ledger.index(endpoint.rank(), post.signal);
    lowered.add = post.add;
    lowered.posted = &ledger.posted()[ledger.index(post.rank, post.signal)];
    std::byte* segment =
        post.rank == endpoint.rank() ? endpoint.segment() : endpoint.session(post.rank).mapped();
    if (segment != nullptr) {
      lowered.word =
          &reinterpret_cast<SignalWord*>(segment + endpoint.layout().signal_offset())[lowered.index]
               .value;
      lowered.sleeping = &reinterpret_cast<SegmentHeader*>(segment)->sleeping;
    }
    posts_.push_back(lowered);
  }
  for (uint32_t signal = 0; signal < part_->signal_count; ++signal) {
    if (part_->posts_per_run[signal] == 0) continue;
    const uint32_t index = ledger.index(part_->signal_producers[signal], signal);
    growth_.emplace_back(&ledger.base()[index], part_->posts_per_run[signal]);
  }
  return {};
}

void CpuProgram::lower_tasks() {
  uint32_t pointers_max = 1;
  for (const Task& task : part_->tasks) {
    LoweredTask lowered{};
    lowered.op = task.op;
    multiplies_ |= task.op == TaskOp::kGemm;
    lowered.region_count = task.region_count;
    lowered.wait_count = task.wait_count;
    lowered.post_count = task.post_count;
    lowered.fn = tile_function(task.op);
    lowered.regions = part_->regions.data() + task.first_region;
    lowered.params = part_->params.data() + task.first_param;
    lowered.waits = waits_.data() + task.first_wait;
    lowered.posts = posts_.data() + task.first_post;
    tasks_.push_back(lowered);
    uint32_t pointers = 0;
    for (const Region& region : part_->regions_of(task)) pointers += region.buffer_count;
    pointers_max = std::max(pointers_max, pointers);
  }
  const uint32_t queues = uint32_t(part_->queues.size());
  workers_.resize(std::clamp(shared_.workers.count(), 1u, std::max(1u, queues)));
  for (Worker& worker : workers_) worker.pointers.resize(pointers_max);
}

void CpuProgram::lower_addresses() {
  Endpoint& endpoint = shared_.endpoint;
  const uint32_t rank = endpoint.rank();
  const uint64_t workspace = endpoint.layout().workspace_offset();
  for (int parity = 0; parity < 2; ++parity) {
    Addresses& table = addresses_[parity];
    for (const Buffer& buffer : plan_->buffers) {
      const uint64_t area = buffer.generations == 2 ? workspace + parity * kStagingBytes
                                                    : workspace + 2 * kStagingBytes;
      std::byte* segment =
          buffer.owner == rank ? endpoint.segment() : endpoint.session(buffer.owner).mapped();
      const bool fixed = buffer.kind == BufferKind::kWorkspace;
      table.offsets.push_back(fixed ? area + buffer.offset : 0);
      table.pointers.push_back(fixed && segment != nullptr ? segment + area + buffer.offset
                                                           : nullptr);
    }
  }
  for (uint32_t id = 0; id < plan_->buffers.size(); ++id) {
    const Buffer& buffer = plan_->buffers[id];
    if (buffer.kind == BufferKind::kWorkspace) continue;
    if (buffer.owner == rank) {
      own_.push_back({id, rank, buffer.operand});
    } else if (buffer.access != BufferAccess::kLocal) {
      peers_.push_back({id, buffer.owner, buffer.operand});
    }
  }
}

}  // namespace sk::cpu
