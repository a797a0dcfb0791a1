#include "lib/comm/gpu_group.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "lib/algo/planner.h"
#include "lib/op/mismatch.h"
#include "lib/op/ops/memory.h"

namespace sk {
namespace {

// Errors of the callers, and of memory that a later call may find, leave a communicator usable.
bool ends_group(int32_t code) { return code >= SK_ERR_PEER_LOST && code != SK_ERR_NO_MEMORY; }

constexpr uint32_t kNobody = UINT32_MAX;

// Of a status for which there is no memory twice, that.
Status copy_of(const Status& status) {
  return caught([&] { return status.clone(); });
}

bool moves_nothing(const OpDesc& op) { return is_of_memory(op.schema()); }

}  // namespace

GpuGroup::GpuGroup(std::shared_ptr<GpuExecutor> executor, const Config& config)
    : executor_(std::move(executor)),
      config_(config),
      at_(config.world_size),
      left_(config.world_size) {
  std::vector<uint32_t> ranks(config.world_size);
  std::iota(ranks.begin(), ranks.end(), 0u);
  all_ = make_meeting(std::move(ranks));
}

bool GpuGroup::Meeting::needs(uint32_t rank) const {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

GpuGroup::Meeting GpuGroup::make_meeting(std::vector<uint32_t> ranks) const {
  Meeting meeting;
  meeting.ranks = std::move(ranks);
  meeting.arrivals.resize(config_.world_size);
  meeting.here.resize(config_.world_size);
  return meeting;
}

GpuGroup::Meeting& GpuGroup::meeting_of(const OpDesc& op) {
  if (!is_pair(op)) return all_;
  const auto [sender, receiver] = ends_of(op);
  const std::pair<uint32_t, uint32_t> pair = std::minmax({sender, receiver});
  auto found = pairs_.find(pair);
  if (found == pairs_.end())
    found = pairs_.emplace(pair, make_meeting({pair.first, pair.second})).first;
  return found->second;
}

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

uint32_t GpuGroup::workers(bool multiply) const {
  const GpuFacts& facts = executor_->facts();
  const uint32_t blocks = multiply ? facts.workers_of_products : facts.workers_of_moves;
  return config_.workers != 0 ? config_.workers : blocks / config_.world_size;
}

Target GpuGroup::target_for(const OpDesc& op) const {
  const bool multiplies = product_of(op, Target()).has_value();
  Target target;
  target.world_size = config_.world_size;
  target.mapped = !config_.put_only;
  target.workers = workers(multiplies);
  executor_->cut_moves(target);
  if (const std::optional<Product> product = product_of(op, target))
    executor_->cut_product(*product, target);
  return target;
}

Status GpuGroup::meet(uint32_t rank, const Arrival& arrival) {
  std::unique_lock lock(mutex_);
  Meeting* found = nullptr;
  Status able = caught([&] {
    found = &meeting_of(arrival.op);
    return check_peers(rank, *found, arrival.op);
  });
  if (!able.ok()) {
    end_for_want(rank, able);
    return able;
  }
  Meeting& meeting = *found;
  meeting.arrivals[rank] = arrival;
  meeting.here[rank] = true;
  if (++meeting.here_count < meeting.ranks.size()) {
    at_[rank] = &meeting;
    Status status = wait_for_others(lock, meeting, rank, arrival);
    at_[rank] = nullptr;
    return status;
  }

  meeting.launcher = rank;
  meeting.launching_since = Clock::now();
  ++launching_;
  lock.unlock();
  Status status = settle(meeting);
  lock.lock();
  --launching_;
  meeting.launcher.reset();
  if (!status.ok() && (torn_ || ends_group(status.code()))) end_for_want(rank, status);
  for (Arrival& each : meeting.arrivals) each.entry.trace.reset();  // The rank's own to keep.
  for (const uint32_t each : meeting.ranks) at_[each] = nullptr;    // Before they have woken up.
  meeting.here.assign(meeting.here.size(), false);
  meeting.here_count = 0;
  ++meeting.ended;
  meeting.outcome = copy_of(status);
  changed_.notify_all();
  return status;
}

// Whether all whom `meeting` needs may still come.
Status GpuGroup::check_peers(uint32_t rank, const Meeting& meeting, const OpDesc& op) {
  for (const uint32_t peer : meeting.ranks) {
    if (left_[peer] && over_.ok())
      end(peer, error(SK_ERR_PEER_LOST, "rank {} has freed the communicator", peer));
    // It waits for this rank elsewhere, and would do so for ever.
    const Meeting* const other = at_[peer];
    if (other == nullptr || other == &meeting || !other->needs(rank) || !over_.ok()) continue;
    end(rank, error(SK_ERR_DESYNC, "rank {} called {} while rank {} called {}", peer,
                    describe(other->arrivals[peer].op), rank, describe(op)));
  }
  return why_over(rank);
}

Status GpuGroup::wait_for_others(std::unique_lock<std::mutex>& lock, Meeting& meeting,
                                 uint32_t rank, const Arrival& arrival) {
  const uint64_t time = meeting.ended;
  const auto met = [&] { return meeting.ended != time; };
  const bool settled =
      changed_.wait_until(lock, Clock::now() + std::chrono::nanoseconds(arrival.timeout_ns),
                          [&] { return met() || (!meeting.launcher && !over_.ok()); });
  // The next time needs this rank, so the outcome is still that of this one.
  if (met()) return copy_of(meeting.outcome);
  Status status =
      caught([&] { return settled ? why_over(rank) : give_up(meeting, rank, arrival); });
  end_for_want(rank, status);
  return status;
}

// Who leaves without having met the others ends the group, also where there was no memory to say
// so: they would wait for it.
void GpuGroup::end_for_want(uint32_t rank, const Status& why) {
  if (over_.ok()) end(rank, copy_of(why));
}

// Once all are here only the driver is waited for. It has this call's memory, and may be about to
// launch: a launch that comes after this begins no task.
Status GpuGroup::give_up(const Meeting& meeting, uint32_t rank, const Arrival& arrival) {
  const double waited_s = double(arrival.timeout_ns) / 1e9;
  if (meeting.launcher) {
    const std::chrono::duration<double> inside = Clock::now() - meeting.launching_since;
    executor_->abort();
    const Status why =
        error(SK_ERR_TIMEOUT,
              "rank {} waited {:.1f} s in {}: rank {} is inside the driver since {:.1f} s; the "
              "memory of the call may still be used",
              rank, waited_s, describe(arrival.op), *meeting.launcher, inside.count());
    if (over_.ok()) end(rank, why.clone());
    return why.clone();
  }
  std::string missing;
  for (const uint32_t each : meeting.ranks)
    if (!meeting.here[each]) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", each);
  end(rank, error(SK_ERR_TIMEOUT, "rank {} waited {:.1f} s for {} {} in {}", rank, waited_s,
                  missing.find(',') == std::string::npos ? "rank" : "ranks", missing,
                  describe(arrival.op)));
  return why_over(rank);
}

Status GpuGroup::why_over(uint32_t rank) {
  if (over_.ok()) {
    if (Status failed = executor_->failure(); !failed.ok()) end(kNobody, std::move(failed));
  }
  if (over_.code() == SK_ERR_TIMEOUT && over_by_ != rank && over_by_ != kNobody)
    return error(SK_ERR_TIMEOUT, "rank {} gave up: {}", over_by_, over_.message());
  if (over_.code() == SK_ERR_DESYNC && over_by_ != rank)
    return error(SK_ERR_ABORTED, "{}", over_.message());
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
  const bool awaited = std::any_of(at_.begin(), at_.end(), [&](const Meeting* at) {
    return at != nullptr && !at->launcher && at->needs(rank);
  });
  if (awaited && over_.ok())
    end(rank, error(SK_ERR_PEER_LOST, "rank {} has freed the communicator", rank));
}

Status GpuGroup::drain(int64_t timeout_ns) {
  const Clock::time_point end_of_wait = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, end_of_wait, [&] { return launching_ == 0; })) {
      return error(SK_ERR_TIMEOUT, "a rank was still inside the driver after {:.1f} s",
                   double(timeout_ns) / 1e9);
    }
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(end_of_wait - Clock::now());
  Status drained = executor_->drain(std::max<int64_t>(left.count(), 0));
  if (drained.code() != SK_ERR_TIMEOUT) return drained;
  return error(SK_ERR_TIMEOUT, "{} after {:.1f} s", drained.message(), double(timeout_ns) / 1e9);
}

Status GpuGroup::settle(const Meeting& meeting) {
  return caught([&]() -> Status {  // The others must not wait for ever.
    SK_RETURN_IF_ERROR(compare(meeting));
    return moves_nothing(meeting.arrivals[meeting.ranks[0]].op) ? Status() : launch(meeting);
  });
}

Status GpuGroup::compare(const Meeting& meeting) const {
  const OpDesc& op = meeting.arrivals[meeting.ranks[0]].op;
  const bool same = std::all_of(meeting.ranks.begin(), meeting.ranks.end(),
                                [&](uint32_t rank) { return meeting.arrivals[rank].op == op; });
  if (!same) {
    std::vector<RankCall> calls;
    for (const uint32_t rank : meeting.ranks) {
      const OpDesc& called = meeting.arrivals[rank].op;
      calls.push_back({rank, called.hash(), call_text(called)});
    }
    return {SK_ERR_DESYNC, explain_mismatch(std::move(calls))};
  }
  for (const uint32_t rank : meeting.ranks) {
    if (meeting.arrivals[rank].able) continue;
    return error(SK_ERR_NO_MEMORY, "rank {} has no memory to take part in {}", rank, describe(op));
  }
  return {};
}

Status GpuGroup::launch(const Meeting& meeting) {
  const Arrival& first = meeting.arrivals[meeting.ranks[0]];
  // Who has no part in a pair has no stream to be joined either.
  std::vector<GpuEntry> entries(config_.world_size, GpuEntry{{}, first.entry.stream, nullptr});
  int64_t timeout_ns = 0;
  for (const uint32_t rank : meeting.ranks) {
    entries[rank] = meeting.arrivals[rank].entry;
    // In one launch nobody is late.
    timeout_ns = std::max(timeout_ns, meeting.arrivals[rank].timeout_ns);
  }
  if (!begin_launching(timeout_ns)) {
    return error(SK_ERR_TIMEOUT, "another pair of ranks was still inside the driver after {:.1f} s",
                 double(timeout_ns) / 1e9);
  }
  const struct Turn {
    GpuGroup& group;
    ~Turn() { group.end_launching(); }
  } turn{*this};
  SK_ASSIGN_OR_RETURN(GpuPlan * plan, ready_for(first.op, timeout_ns));
  try {
    return plan->launch(entries, timeout_ns);
  } catch (...) {  // How far it came, nobody knows.
    executor_->abort();
    torn_ = true;
    throw;
  }
}

bool GpuGroup::begin_launching(int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  const Clock::time_point end_of_wait = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  if (!changed_.wait_until(lock, end_of_wait, [&] { return !has_launcher_; })) return false;
  return has_launcher_ = true;
}

void GpuGroup::end_launching() {
  const std::lock_guard lock(mutex_);
  has_launcher_ = false;
  changed_.notify_all();
}

Result<GpuPlan*> GpuGroup::ready_for(const OpDesc& op, int64_t timeout_ns) {
  auto found = ready_.find(op);
  if (found == ready_.end()) {
    SK_ASSIGN_OR_RETURN(std::unique_ptr<GpuPlan> plan, prepare(op, timeout_ns));
    found = ready_.emplace(op, Ready{std::move(plan)}).first;
  }
  found->second.last_use = ++launches_;
  {
    const std::lock_guard lock(mutex_);
    plan_count_ = ready_.size();
  }
  return found->second.plan.get();
}

// Waits for no more than half of the call's time: the other ranks wait for this one meanwhile.
Result<std::unique_ptr<GpuPlan>> GpuGroup::prepare(const OpDesc& op, int64_t timeout_ns) {
  SK_ASSIGN_OR_RETURN(const auto plan, plans_.get(op, target_for(op)));
  evict(kCachedPlansMax - 1, ready_.size() < 2 * kCachedPlansMax ? 0 : timeout_ns / 2);
  Result<std::unique_ptr<GpuPlan>> ready = executor_->prepare(plan);
  if (ready.status().code() != SK_ERR_NO_MEMORY) return ready;
  evict(0, timeout_ns / 2);  // Plans in the cache may hold what this one lacks.
  return executor_->prepare(plan);
}

// Until so many are left, those first that were not used for longest. Freeing waits for all
// launches without a limit, so none go before these have ended; graphs may replay those that were
// captured.
void GpuGroup::evict(size_t count_max, int64_t timeout_ns) {
  if (ready_.size() <= count_max || !executor_->drain(timeout_ns).ok()) return;
  while (ready_.size() > count_max) {
    auto oldest = ready_.end();
    for (auto each = ready_.begin(); each != ready_.end(); ++each) {
      if (each->second.plan->captured()) continue;
      if (oldest == ready_.end() || each->second.last_use < oldest->second.last_use) oldest = each;
    }
    if (oldest == ready_.end()) return;
    ready_.erase(oldest);
  }
}

}  // namespace sk
