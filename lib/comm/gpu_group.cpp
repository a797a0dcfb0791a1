#include "lib/comm/gpu_group.h"

#include <algorithm>
#include <chrono>
#include <new>

namespace sk {
namespace {

// Errors of the callers, and of memory that a later call may find, leave a communicator usable.
bool ends_group(int32_t code) { return code >= SK_ERR_PEER_LOST && code != SK_ERR_NO_MEMORY; }

constexpr uint32_t kNobody = UINT32_MAX;

bool moves_nothing(const OpDesc& op) { return op.kind >= OpKind::kAlloc; }

}  // namespace

GpuGroup::GpuGroup(std::shared_ptr<GpuExecutor> executor, const Config& config)
    : executor_(std::move(executor)),
      config_(config),
      arrivals_(config.world_size),
      here_(config.world_size),
      left_(config.world_size) {}

Result<std::shared_ptr<GpuGroup>> GpuGroup::make(std::shared_ptr<GpuExecutor> executor,
                                                 const Config& config) {
  const GpuFacts& facts = executor->facts();
  if (config.world_size > facts.ranks_max) {
    return error(SK_ERR_UNSUPPORTED, "{} ranks on one GPU; at most {} can share it",
                 config.world_size, facts.ranks_max);
  }
  const uint32_t blocks = std::min(facts.workers_of_moves, facts.workers_of_products);
  const uint32_t workers = std::max(config.workers, 1u);
  if (uint64_t(workers) * config.world_size > blocks) {
    return error(SK_ERR_UNSUPPORTED,
                 "{} ranks with {} workers each; on GPU {} ({}) {} workers can be resident at once",
                 config.world_size, workers, facts.ordinal, facts.name, blocks);
  }
  return std::shared_ptr<GpuGroup>(new GpuGroup(std::move(executor), config));
}

Target GpuGroup::target_for(const OpDesc& op) const {
  const bool multiplies = op.kind == OpKind::kAllreduceGemm;
  const GpuFacts& facts = executor_->facts();
  const uint32_t blocks = multiplies ? facts.workers_of_products : facts.workers_of_moves;
  Target target;
  target.world_size = config_.world_size;
  target.mapped = !config_.put_only;
  target.workers = config_.workers != 0 ? config_.workers : blocks / config_.world_size;
  if (multiplies) {
    executor_->gemm_tiles(op.dtype, op.m, op.n, op.k, target.world_size * target.workers)
        .apply(target);
  }
  return target;
}

Status GpuGroup::meet(uint32_t rank, const Arrival& arrival) {
  std::unique_lock lock(mutex_);
  const auto gone = std::find(left_.begin(), left_.end(), true);
  if (gone != left_.end() && over_.ok()) {
    const auto peer = uint32_t(gone - left_.begin());
    end(peer, error(SK_ERR_PEER_LOST, "rank {} has freed the communicator", peer));
  }
  SK_RETURN_IF_ERROR(why_over(rank));
  arrivals_[rank] = arrival;
  here_[rank] = true;
  if (++here_count_ < config_.world_size) return wait_for_others(lock, rank, arrival);

  launching_ = true;
  lock.unlock();
  Status status = settle();
  lock.lock();
  launching_ = false;
  if (ends_group(status.code()) && over_.ok()) end(rank, status.clone());
  for (Arrival& each : arrivals_) each.entry.trace.reset();  // The rank's own to keep.
  here_.assign(here_.size(), false);
  here_count_ = 0;
  plan_count_ = ready_.size();
  ++meetings_;
  outcome_ = status.clone();
  changed_.notify_all();
  return status;
}

// Once all are here no time runs: the one that launches waits for nobody but the driver, and the
// callers' memory is in its hands.
Status GpuGroup::wait_for_others(std::unique_lock<std::mutex>& lock, uint32_t rank,
                                 const Arrival& arrival) {
  const uint64_t meeting = meetings_;
  const auto met = [&] { return meetings_ != meeting; };
  const auto end_of_wait =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(arrival.timeout_ns);
  const bool settled =
      changed_.wait_until(lock, end_of_wait, [&] { return met() || (!launching_ && !over_.ok()); });
  if (!settled && !launching_) {
    end(rank, error(SK_ERR_TIMEOUT, "rank {} waited {:.1f} s for {} in {}", rank,
                    double(arrival.timeout_ns) / 1e9, missing(), describe(arrival.op)));
  }
  changed_.wait(lock, [&] { return met() || !launching_; });
  // The next meeting needs this rank, so the outcome is still that of this one.
  return met() ? outcome_.clone() : why_over(rank);
}

std::string GpuGroup::missing() const {
  std::string list;
  for (uint32_t rank = 0; rank < config_.world_size; ++rank)
    if (!here_[rank]) list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
  return (list.find(',') == std::string::npos ? "rank " : "ranks ") + list;
}

Status GpuGroup::why_over(uint32_t rank) {
  if (over_.ok()) {
    if (Status failed = executor_->failure(); !failed.ok()) end(kNobody, std::move(failed));
  }
  if (over_.code() == SK_ERR_TIMEOUT && over_by_ != rank && over_by_ != kNobody)
    return error(SK_ERR_TIMEOUT, "rank {} gave up: {}", over_by_, over_.message());
  return over_.clone();
}

void GpuGroup::end(uint32_t rank, Status why) {
  over_ = std::move(why);
  over_by_ = rank;
  changed_.notify_all();
}

Status GpuGroup::over(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return why_over(rank);
}

uint64_t GpuGroup::plan_count() {
  const std::lock_guard lock(mutex_);
  return plan_count_;
}

void GpuGroup::abort(uint32_t rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!over_.ok()) return;
  executor_->abort();
  end(rank,
      error(SK_ERR_ABORTED, "rank {} has aborted{}{}", rank, reason.empty() ? "" : ": ", reason));
}

void GpuGroup::leave(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  left_[rank] = true;
  // Launches under way have all their ranks, and end by themselves.
  if (here_count_ > 0 && over_.ok())
    end(rank, error(SK_ERR_PEER_LOST, "rank {} has freed the communicator", rank));
}

Status GpuGroup::settle() {
  try {
    SK_RETURN_IF_ERROR(compare());
    return moves_nothing(arrivals_[0].op) ? Status() : launch();
  } catch (const std::bad_alloc&) {  // The others must not wait for ever.
    return {SK_ERR_NO_MEMORY, "memory ran out"};
  }
}

Status GpuGroup::compare() const {
  for (uint32_t rank = 1; rank < config_.world_size; ++rank) {
    if (arrivals_[rank].op == arrivals_[0].op) continue;
    return error(SK_ERR_DESYNC, "rank 0 called {} while rank {} called {}",
                 describe(arrivals_[0].op), rank, describe(arrivals_[rank].op));
  }
  for (uint32_t rank = 0; rank < config_.world_size; ++rank) {
    if (arrivals_[rank].able) continue;
    return error(SK_ERR_NO_MEMORY, "rank {} has no memory to take part in {}", rank,
                 describe(arrivals_[rank].op));
  }
  return {};
}

Status GpuGroup::launch() {
  SK_ASSIGN_OR_RETURN(GpuPlan * plan, ready_for(arrivals_[0].op));
  std::vector<GpuEntry> entries;
  int64_t timeout_ns = 0;
  for (const Arrival& arrival : arrivals_) {
    entries.push_back(arrival.entry);
    timeout_ns = std::max(timeout_ns, arrival.timeout_ns);  // In one launch nobody is late.
  }
  return plan->launch(entries, timeout_ns);
}

Result<GpuPlan*> GpuGroup::ready_for(const OpDesc& op) {
  auto found = ready_.find(op);
  if (found == ready_.end()) {
    SK_ASSIGN_OR_RETURN(std::unique_ptr<GpuPlan> plan, prepare(op));
    found = ready_.emplace(op, Ready{std::move(plan)}).first;
  }
  found->second.last_use = meetings_;
  return found->second.plan.get();
}

Result<std::unique_ptr<GpuPlan>> GpuGroup::prepare(const OpDesc& op) {
  SK_ASSIGN_OR_RETURN(const auto plan, plans_.get(op, target_for(op)));
  if (ready_.size() >= kCachedPlansMax) evict();
  Result<std::unique_ptr<GpuPlan>> ready = executor_->prepare(plan);
  if (ready.status().code() != SK_ERR_NO_MEMORY) return ready;
  while (!ready_.empty()) {  // Plans in the cache may hold what this one lacks.
    const size_t before = ready_.size();
    evict();
    if (ready_.size() == before) break;
  }
  return executor_->prepare(plan);
}

// The one that was not used for longest; graphs may replay those that were captured.
void GpuGroup::evict() {
  auto oldest = ready_.end();
  for (auto each = ready_.begin(); each != ready_.end(); ++each) {
    if (each->second.plan->captured()) continue;
    if (oldest == ready_.end() || each->second.last_use < oldest->second.last_use) oldest = each;
  }
  if (oldest != ready_.end()) ready_.erase(oldest);
}

}  // namespace sk
