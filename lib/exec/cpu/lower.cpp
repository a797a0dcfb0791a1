// Lowering: what of a plan can be looked up before a run is looked up here, once.
#include <algorithm>

#include "lib/exec/cpu/program.h"
#include "lib/op/schema.h"
#include "lib/plan/free_rows.h"

namespace sk::cpu {
namespace {

// Of the rank that stages most: all ranks must come to the same areas.
uint64_t staged_bytes(const Plan& plan) {
  uint64_t bytes = 0;
  for (uint32_t rank = 0; rank < plan.world_size(); ++rank) {
    bytes = std::max(bytes, workspace_bytes(plan, rank, 2));
  }
  return bytes;
}

// Null where only puts reach the rank.
const MappedView* mapped(Endpoint& endpoint, uint32_t rank) {
  return rank == endpoint.rank() ? &endpoint.own() : endpoint.session(rank).mapped();
}

}  // namespace

Result<std::unique_ptr<Program>> CpuProgram::lower(std::shared_ptr<const Plan> plan,
                                                   uint64_t fingerprint, Shared& shared) {
  const uint32_t rank = shared.endpoint.rank();
  std::unique_ptr<CpuProgram> program(new CpuProgram(shared));
  program->part_ = plan->part(rank);
  if (program->part_ == nullptr) {
    return error(SK_ERR_INTERNAL, "the plan has no part for rank {}", rank);
  }
  program->area_bytes_ = staging_in(shared.endpoint.world_size(), kStagingBytes);
  const uint64_t staged = staged_bytes(*plan);
  if (staged > program->area_bytes_) {
    return error(SK_ERR_UNSUPPORTED, "the plan stages {} bytes, at most {} are there", staged,
                 program->area_bytes_);
  }
  if (staged > 0 && is_pair(plan->op)) {
    return error(SK_ERR_UNSUPPORTED,
                 "a call between two ranks cannot stage: its seq is not shared");
  }
  program->plan_ = std::move(plan);
  program->fingerprint_ = fingerprint;
  program->entry_.fingerprint = fingerprint;
  program->told_operands_ =
      uint32_t(std::min<size_t>(program->plan_->op.schema().operands.size(), OpDesc::kReachedMax));
  SK_RETURN_IF_ERROR(program->lower_signals());
  SK_RETURN_IF_ERROR(program->lower_tasks());
  program->lower_queues();
  program->lower_uses();
  program->lower_addresses();
  return std::unique_ptr<Program>(std::move(program));
}

Status CpuProgram::lower_signals() {
  Ledger& ledger = shared_.ledger;
  Endpoint& endpoint = shared_.endpoint;
  const uint32_t limit = ledger.signals_per_edge();
  for (const Signal& signal : part_->signals) {
    if (signal.number >= limit) {
      return error(SK_ERR_UNSUPPORTED,
                   "the plan has a signal {} from rank {}; at most {} are there from each rank",
                   signal.number, signal.producer, limit);
    }
    growth_.emplace_back(&ledger.base()[ledger.index(signal.producer, signal.number)],
                         signal.posts_per_run);
  }
  for (const Wait& wait : part_->waits) {
    const uint32_t index = ledger.index(wait.producer, wait.signal);
    waits_.push_back(
        {&endpoint.signals()[index].value, &ledger.base()[index], wait.target, wait.producer});
  }
  for (const Post& post : part_->posts) {
    if (post.signal >= limit) {
      return error(SK_ERR_UNSUPPORTED,
                   "the plan posts signal {} to rank {}; at most {} are there to each rank",
                   post.signal, post.rank, limit);
    }
    LoweredPost lowered{};
    lowered.rank = post.rank;
    lowered.index = ledger.index(endpoint.rank(), post.signal);
    lowered.add = post.add;
    lowered.posted = &ledger.posted()[ledger.index(post.rank, post.signal)];
    if (const MappedView* view = mapped(endpoint, post.rank)) {
      lowered.word = &view->control.signals[lowered.index].value;
      lowered.sleeping = &view->control.header->sleeping;
    }
    posts_.push_back(lowered);
  }
  return {};
}

Status CpuProgram::lower_tasks() {
  for (const Task& task : part_->tasks) {
    SK_ASSIGN_OR_RETURN(const PreparedTile tile, prepare_tile(*part_, task));
    LoweredTask lowered{};
    lowered.runs_as = tile.own != nullptr ? TaskOp::kUserFirst : task.op;
    if (plan_->op.schema().has_lists() && task.region_count > 0) {
      along_.resize(part_->tasks.size());
      if (task.param_count > kPieceParamsMax)
        return error(SK_ERR_UNSUPPORTED,
                     "a task over lists has {} parameters, at most {} are there", task.param_count,
                     kPieceParamsMax);
      if (const std::optional<Along> along = along_first_range(*part_, task)) {
        along_[tasks_.size()] = *along;
        lowered.runs_as = kInPieces;
      }
    }
    lowered.op = lowered.runs_as;
    lowered.own = tile.own;
    const bool known = std::find(scratch_.begin(), scratch_.end(), tile.reserve) != scratch_.end();
    if (tile.reserve != nullptr && !known) scratch_.push_back(tile.reserve);
    lowered.wait_count = task.wait_count;
    lowered.post_count = task.post_count;
    lowered.fn = tile.function;
    lowered.least_ns = tile.least_ns;
    lowered.after_all = (task.flags & kAfterAll) != 0;
    lowered.waits = waits_.data() + task.first_wait;
    lowered.posts = posts_.data() + task.first_post;
    tasks_.push_back(lowered);
  }
  return {};
}

void CpuProgram::lower_queues() {
  const uint32_t queues = uint32_t(part_->queues.size());
  const uint32_t count = std::clamp(shared_.workers.count(), 1u, std::max(1u, queues));
  straight_ = queues == 1;
  workers_.resize(count);
  for (uint32_t queue = 0; queue < queues; ++queue) {
    const Queue& tasks = part_->queues[queue];
    Head& head = heads_.emplace_back(queue, tasks.first_task, tasks.first_task + tasks.task_count);
    workers_[queue % count].heads.push_back(&head);
  }
  if (count > 1) open_queues();
}

void CpuProgram::lower_uses() {
  std::vector<std::vector<Use>> by_buffer(plan_->buffers.size());
  uint32_t pointer = 0;
  for (const Task& task : part_->tasks) {
    for (const Region& region : part_->regions_of(task)) {
      for (uint32_t j = 0; j < region.buffer_count; ++j) {
        by_buffer[region.buffer + j].push_back({pointer++, region.offset});
      }
    }
  }
  for (const std::vector<Use>& uses : by_buffer) {
    first_use_.push_back(uint32_t(uses_.size()));
    uses_.insert(uses_.end(), uses.begin(), uses.end());
  }
  first_use_.push_back(uint32_t(uses_.size()));
}

void CpuProgram::lower_addresses() {
  Endpoint& endpoint = shared_.endpoint;
  const auto segment_of = [&](uint32_t owner) -> std::byte* {
    const MappedView* view = mapped(endpoint, owner);
    return view != nullptr ? view->segment : nullptr;
  };
  buffers_.resize(plan_->buffers.size());
  offsets_.resize(plan_->buffers.size());
  pointers_.resize(uses_.size());
  free_extent_ = extent_ = free_extent(*plan_);
  run_values_ = run_values(*part_);
  const bool own_params = free_extent_ != 0 || !run_values_.empty();
  if (free_extent_ != 0) regions_ = part_->regions;
  if (own_params) params_ = part_->params;
  const std::vector<Region>& regions = free_extent_ != 0 ? regions_ : part_->regions;
  const std::vector<int64_t>& params = own_params ? params_ : part_->params;
  std::byte* const* next = pointers_.data();
  for (const Task& task : part_->tasks) {
    TileArgs tile{.regions = regions.data() + task.first_region,
                  .pointers = {},
                  .params = params.data() + task.first_param,
                  .region_count = task.region_count};
    for (uint32_t i = 0; i < task.region_count; ++i) {
      tile.pointers[i] = next;
      next += tile.regions[i].buffer_count;
    }
    tiles_.push_back(tile);
  }
  const uint64_t general = endpoint.layout().workspace_offset() + kStagingAreas * area_bytes_;
  for (uint32_t id = 0; id < plan_->buffers.size(); ++id) {
    const Buffer& buffer = plan_->buffers[id];
    if (buffer.kind != BufferKind::kWorkspace) continue;
    std::byte* segment = segment_of(buffer.owner);
    if (buffer.generations == 2) {
      staged_.push_back({id, segment});
      continue;
    }
    offsets_[id] = general + buffer.offset;
    if (segment != nullptr) resolve(id, segment + offsets_[id]);
  }
  if (const uint64_t bytes = staged_bytes(*plan_); bytes >= kStagingRotateMin) {
    staging_areas_ = kStagingAreas;
    staging_stride_ = align_up(bytes, kWorkspaceAlign);
    staging_places_ = uint32_t(std::max<uint64_t>(1, area_bytes_ / staging_stride_));
  }
  for (uint32_t id = 0; id < plan_->buffers.size(); ++id) {
    const Buffer& buffer = plan_->buffers[id];
    if (buffer.kind == BufferKind::kWorkspace) continue;
    tells_each_ = tells_each_ || buffer.access != BufferAccess::kLocal;
    const Patch patch{id, buffer.owner, buffer.operand, is_list(plan_->op, buffer),
                      segment_of(buffer.owner)};
    if (buffer.owner == endpoint.rank()) {
      own_.push_back(patch);
    } else if (buffer.access != BufferAccess::kLocal) {
      peers_.push_back(patch);
    }
  }
}

}  // namespace sk::cpu
