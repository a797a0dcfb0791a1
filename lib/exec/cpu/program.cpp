#include "lib/exec/cpu/program.h"

#include <algorithm>

#include "lib/exec/cpu/tile/hand_over.h"
#include "lib/op/mismatch.h"
#include "lib/plan/free_rows.h"
#include "transport/absence.h"

namespace sk::cpu {
Status CpuProgram::run(const RunArgs& args) {
  if (!straight_ || !scratch_.empty()) {
    if (Status able = caught([this] { return reserve(); }); !able.ok()) [[unlikely]] {
      SK_RETURN_IF_ERROR(stay_out(args, plan_->op, part_->peers, able.code()));
      refusal_.refused = true;
      return able;
    }
  }
  args_ = &args;
  own_failed_.store(false, std::memory_order_relaxed);
  if (!staged_.empty()) place_staging();
  if (free_extent_ != 0) {
    const uint64_t extent = std::min(args.extent, free_extent_);
    if (extent != extent_) put_in_effect(extent);
  }
  for (const RunValue& each : run_values_) params_[each.param] = args.values[each.number];
  for (const Patch& patch : own_) {
    if (patch.list && args.pieces != nullptr) continue;
    resolve(patch.buffer, static_cast<std::byte*>(args.operands[patch.operand].data));
  }
  if (straight_ && shared_.trace == nullptr) [[likely]] {
    SK_RETURN_IF_ERROR(run_straight());
    grow_signals();
    return take_own_failure();
  }
  Status status = run_queues();
  if (status.ok()) grow_signals();
  if (shared_.trace != nullptr) [[unlikely]]
    record_trace();
  return status.ok() ? take_own_failure() : std::move(status);
}

// Between runs.
void CpuProgram::put_in_effect(uint64_t extent) {
  extent_ = extent;
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    const Task& task = part_->tasks[i];
    const auto params = std::span(params_).subspan(task.first_param, task.param_count);
    const auto regions = std::span(regions_).subspan(task.first_region, task.region_count);
    std::ranges::copy(part_->params_of(task), params.begin());
    std::ranges::copy(part_->regions_of(task), regions.begin());
    const bool left = sk::put_in_effect(*plan_, task, extent, params, regions);
    LoweredTask& lowered = tasks_[i];
    lowered.op = left ? lowered.runs_as : TaskOp::kNop;
  }
}

Status CpuProgram::run_queues() {
  for (Worker& worker : workers_) {
    worker.events.clear();
    worker.events_lost = 0;
    worker.busy_until_ns = 0;
  }
  for (Head& head : heads_) {
    head.next.store(head.begin, std::memory_order_relaxed);
    head.retired.store(head.begin, std::memory_order_relaxed);
    if (head.open) std::ranges::fill(head.finished, uint8_t(0));  // A run that failed leaves some.
    head.satisfied = 0;
    head.waiting_since = 0;
  }
  const uint32_t count = uint32_t(workers_.size());
  if (count == 1) {
    run_worker(0);
  } else {
    shared_.workers.run(
        count,
        [](void* program, uint32_t worker) noexcept {
          static_cast<CpuProgram*>(program)->run_worker(worker);
        },
        this);
    await_workers();
  }
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
    failed_.store(false, std::memory_order_relaxed);
    return std::move(failure_);
  }
  return {};
}

// For as long as they take: they use the caller's memory, and their own waits are bounded. While
// none has failed this thread still looks after the peers, and lets the caller look: what that one
// has to say ends the call also where the workers have come to their end meanwhile.
void CpuProgram::await_workers() noexcept {
  Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
  const auto finished = [this] { return shared_.workers.finished(); };
  Status status;
  bool told = false;
  while (!finished() && status.ok()) {
    status = caught([&] {
      Status waited = waiter.wait(finished, kMismatchLookNs);
      told = ran_out(waited);
      return told ? tell_waiting() : std::move(waited);
    });
  }
  if (!status.ok() && (told || !finished())) fail(std::move(status));
  while (!finished()) nap();
}

void CpuProgram::resolve(uint32_t buffer, std::byte* address) {
  if (buffers_[buffer] == address) return;
  buffers_[buffer] = address;
  for (uint32_t i = first_use_[buffer]; i < first_use_[buffer + 1]; ++i) {
    pointers_[uses_[i].pointer] = address + uses_[i].offset;
  }
}

void CpuProgram::place_staging() {
  const uint64_t area = args_->seq % staging_areas_;
  const uint64_t place = args_->seq / staging_areas_ % staging_places_;
  const uint64_t start =
      shared_.endpoint.layout().workspace_offset() + area * area_bytes_ + place * staging_stride_;
  for (const Staged& staged : staged_) {
    offsets_[staged.buffer] = start + plan_->buffers[staged.buffer].offset;
    if (staged.segment != nullptr) {
      resolve(staged.buffer, staged.segment + offsets_[staged.buffer]);
    }
  }
}

void CpuProgram::run_worker(uint32_t index) noexcept {
  Status status = caught([&] { return walk_queues(workers_[index], /*drives=*/index == 0); });
  if (!status.ok()) [[unlikely]]
    fail(std::move(status));
}

Status CpuProgram::walk_queues(Worker& worker, bool drives) {
  Waiter waiter(shared_.endpoint, shared_.spins, drives);
  for (;;) {
    bool finished = false;
    SK_RETURN_IF_ERROR(run_ready(worker, finished));
    if (finished) return {};
    SK_RETURN_IF_ERROR(wait_for(waiter, worker, [&] {
      return any_ready(worker) || has_started_all(worker) ||
             failed_.load(std::memory_order_relaxed);
    }));
    if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
      return {};
  }
}

// Runs every queue as far as its waits are met, and tasks of other workers' queues: behind each of
// those the own ones come first again.
Status CpuProgram::run_ready(Worker& worker, bool& finished) {
  for (bool helped = true; helped;) {
    helped = false;
    finished = true;
    for (Head* head : worker.heads) {
      bool any = false;
      SK_RETURN_IF_ERROR(head->open ? run_claimed(worker, *head, /*is_own=*/true, any)
                                    : run_queue(worker, *head));
      finished = finished && head->started_all();
    }
    for (Head* head : worker.others) {
      if (helped) break;
      SK_RETURN_IF_ERROR(run_claimed(worker, *head, /*is_own=*/false, helped));
      finished = finished && head->started_all();
    }
    if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
      return {};
  }
  return {};
}

Status CpuProgram::run_queue(Worker& worker, Head& head) {
  uint32_t next = head.next.load(std::memory_order_relaxed);
  for (; next != head.end && ready(head); ++next) {
    SK_RETURN_IF_ERROR(execute(worker, head));
    head.next.store(next + 1, std::memory_order_relaxed);
  }
  return {};
}

// Of the own queues and of those of others that it may run.
bool CpuProgram::has_started_all(const Worker& worker) {
  const auto started = [](const Head* head) { return head->started_all(); };
  return std::ranges::all_of(worker.heads, started) && std::ranges::all_of(worker.others, started);
}

bool CpuProgram::any_ready(Worker& worker) {
  return std::ranges::any_of(worker.heads,
                             [&](Head* head) {
                               if (head->open) return any_claimable(*head, /*is_own=*/true);
                               return !head->started_all() && ready(*head);
                             }) ||
         std::ranges::any_of(worker.others,
                             [&](Head* head) { return any_claimable(*head, /*is_own=*/false); });
}

bool CpuProgram::ready(Head& head) {
  const LoweredTask& task = tasks_[head.next.load(std::memory_order_relaxed)];
  if (shared_.trace != nullptr && head.waiting_since == 0) head.waiting_since = now_ns();
  if (task.op == TaskOp::kAwait) {
    if (head.queue == 0) return all_entered(head.satisfied);
    return admitted_.load(std::memory_order_acquire) == args_->seq + 1;
  }
  for (; head.satisfied < task.wait_count; ++head.satisfied) {
    const LoweredWait& wait = task.waits[head.satisfied];
    if (wait.word->load(std::memory_order_acquire) < *wait.base + wait.target) return false;
  }
  return true;
}

// `arrived`: of so many it is known already.
bool CpuProgram::entries_arrived(std::span<const uint32_t> peers, uint32_t& arrived) const {
  for (; arrived < peers.size(); ++arrived) {
    const EntrySlot& entry = shared_.endpoint.entry(peers[arrived], args_->lane, args_->seq);
    if (entry.seq.load(std::memory_order_acquire) != args_->seq) return false;
  }
  return true;
}

bool CpuProgram::all_entered(uint32_t& arrived) {
  if (along_tree()) {
    if (!shared_.tree.step()) return false;
    if (!tells_each_) return true;
  }
  return entries_arrived(part_->peers, arrived);
}

Status CpuProgram::execute(Worker& worker, Head& head) {
  const uint32_t index = head.next.load(std::memory_order_relaxed);
  const LoweredTask& task = tasks_[index];
  const int64_t start = shared_.trace != nullptr ? now_ns() : 0;
  SK_RETURN_IF_ERROR(perform(index, task, /*admits=*/head.queue == 0));
  if (shared_.trace != nullptr) {
    note_event(worker, {index, head.queue, task.op,
                        head.waiting_since == 0 ? start : head.waiting_since, start, now_ns()});
  }
  head.satisfied = 0;
  head.waiting_since = 0;
  return {};
}

Status CpuProgram::run_put(uint32_t index, const LoweredTask& task) {
  const TileArgs& tile = tiles_[index];
  const Region &src = tile.regions[0], &dst = tile.regions[1];
  const LoweredPost& post = task.posts[0];
  if (buffers_[dst.buffer] != nullptr) {
    void* to = *tile.pointers[1];
    copy_handed_over(to, *tile.pointers[0], src.row_bytes);
    return this->post(task);
  }
  *post.posted += post.add;
  Session& session = shared_.endpoint.session(post.rank);
  const auto put = [&] {
    return session.put({offsets_[dst.buffer] + dst.offset}, *tile.pointers[0], src.row_bytes,
                       post.index, post.add);
  };
  SK_ASSIGN_OR_RETURN(const Sent sent, put());
  return sent == Sent::kNow ? Status() : await_put(post.rank, session, sent, put);
}

// For room, and then until the source is free: what this worker does next may write it.
template <typename Put>
Status CpuProgram::await_put(uint32_t peer, const Session& session, Sent sent, const Put& put) {
  Status refused;
  if (sent == Sent::kAgain) {
    SK_RETURN_IF_ERROR(wait_for_peer(peer, [&] {
      Result<Sent> again = put();
      if (again.ok()) sent = *again;
      if (!again.ok()) refused = std::move(again.status());
      return !refused.ok() || sent != Sent::kAgain;
    }));
    SK_RETURN_IF_ERROR(std::move(refused));
  }
  if (sent != Sent::kLater) return {};
  return wait_for_peer(peer, [&, number = session.taken()] { return session.sent() >= number; });
}

Status CpuProgram::post(const LoweredTask& task) {
  for (uint32_t i = 0; i < task.post_count; ++i) {
    const LoweredPost& post = task.posts[i];
    *post.posted += post.add;
    if (post.word == nullptr) {
      SK_RETURN_IF_ERROR(shared_.endpoint.session(post.rank).post(post.index, post.add));
      continue;
    }
    // The word has one producer, so a store of its running count needs no read of the peer's line.
    post.word->store(*post.posted, std::memory_order_release);
    if (post.sleeping->load(std::memory_order_relaxed) != 0) [[unlikely]] {
      shared_.endpoint.ring(post.rank);
    }
  }
  return {};
}

Status CpuProgram::enter() {
  // Bytes stored a moment ago and loaded with another width would wait here for all stores before
  // them, staged lines that the peer still holds among them: so only what has changed is written.
  for (uint32_t i = 0; i < told_operands_; ++i) {
    const uint64_t offset = args_->operands[i].segment_offset;
    if (entry_.words[i] != offset) entry_.words[i] = offset;
  }
  if (!along_tree()) return send(entry_, args_->seq, part_->peers);
  told_late_ = false;
  if (tells_each_) SK_RETURN_IF_ERROR(tell_each(entry_, part_->peers));
  return shared_.tree.begin(args_->seq, fingerprint_);
}

// Between hosts, where a wait lasts: who has entered tells each that there is a way to, so that all
// know for whom they wait.
Status CpuProgram::tell_late() {
  if (!shared_.tree.begun(args_->seq) || told_late_) return {};
  told_late_ = true;
  for (const uint32_t peer : part_->peers) {
    const Session& session = shared_.endpoint.session(peer);
    if (session.connected()) SK_RETURN_IF_ERROR(tell_once(entry_, peer));
  }
  return {};
}

// Once in a run, of all that meet along a tree.
Status CpuProgram::tell_each(EntrySlot& entry, std::span<const uint32_t> peers) {
  for (const uint32_t peer : peers) SK_RETURN_IF_ERROR(tell_once(entry, peer));
  return {};
}

Status CpuProgram::tell_once(EntrySlot& entry, uint32_t peer) {
  const bool told = shared_.endpoint.session(peer).entered(args_->lane) >= args_->seq;
  return told ? Status() : send(entry, args_->seq, {&peer, 1});
}

Status CpuProgram::send(EntrySlot& entry, uint64_t seq, std::span<const uint32_t> peers) {
  for (const uint32_t peer : peers) {
    Session& session = shared_.endpoint.session(peer);
    const uint64_t other = last_entry(session, other_lane());
    if (entry.other_lane != other) entry.other_lane = other;
    SK_RETURN_IF_ERROR(session.enter(entry, args_->lane, seq));
  }
  return {};
}

Status CpuProgram::admit() {
  Endpoint& endpoint = shared_.endpoint;
  const bool along = along_tree();
  if (along) {
    SK_RETURN_IF_ERROR(shared_.tree.take_status());
    if (!shared_.tree.alike()) return desync();
  }
  for (const uint32_t peer : along ? std::span<const uint32_t>() : part_->peers) {
    const EntrySlot& entry = endpoint.entry(peer, args_->lane, args_->seq);
    if (entry.fingerprint != fingerprint_) [[unlikely]]
      return desync();
  }
  for (const Patch& patch : peers_) {
    const uint64_t offset =
        endpoint.entry(patch.rank, args_->lane, args_->seq).words[patch.operand];
    offsets_[patch.buffer] = offset;
    if (patch.segment != nullptr) resolve(patch.buffer, patch.segment + offset);
  }
  admitted_.store(args_->seq + 1, std::memory_order_release);
  return {};
}

Status CpuProgram::tell_waiting() {
  Status status = shared_.waiting.look();
  if (status.code() == SK_ERR_FORKED) {
    shared_.workers.forget();
  } else if (!status.ok()) {
    Endpoint& endpoint = shared_.endpoint;
    endpoint.abort(AbortCause::kAborted, endpoint.rank(), status.message());
  }
  return status;
}

// It is beyond that where the ranks already tell each other that they differ.
bool CpuProgram::has_entered(uint32_t peer) const {
  const Endpoint& endpoint = shared_.endpoint;
  if (along_tree()) {
    const EntryTree& tree = shared_.tree;
    const bool all_have = tree.begun(args_->seq) && tree.over();
    return all_have || endpoint.entered_by(peer) >= args_->seq;
  }
  const EntrySlot& entry = endpoint.entry(peer, args_->lane, args_->seq);
  return entry.seq.load(std::memory_order_acquire) >= args_->seq;
}

// Those that have not entered this call, in order.
std::vector<uint32_t> CpuProgram::lacking_peers() const {
  std::vector<uint32_t> lacking;
  for (const uint32_t peer : part_->peers) {
    if (!has_entered(peer)) lacking.push_back(peer);
  }
  std::sort(lacking.begin(), lacking.end());
  return lacking;
}

// A peer that somebody knows to be elsewhere, and that has not entered this call, never will.
Status CpuProgram::find_absent() {
  Endpoint& endpoint = shared_.endpoint;
  if (endpoint.absence() == nullptr) return {};
  auto absent = endpoint.absence()->among(describe(plan_->op), lacking_peers());
  if (!absent) return {};
  if (along_tree()) {
    std::erase_if(absent->ranks, [&](uint32_t peer) { return !shared_.tree.hears_first_of(peer); });
    if (absent->ranks.empty()) return {};
  }
  Status status = error(SK_ERR_PEER_LOST, "{} will not come to {}: {}", name_ranks(absent->ranks),
                        describe(plan_->op), absent->why);
  endpoint.abort(AbortCause::kAbsent, endpoint.rank(), status.message());
  return status;
}

// None where an own worker is waited for.
std::optional<uint32_t> CpuProgram::awaited_peer(const Head& head) const {
  const std::lock_guard lock(head.lock);
  const uint32_t next = head.next.load(std::memory_order_relaxed);
  if (next == head.end) return std::nullopt;
  const LoweredTask& task = tasks_[next];
  // Nobody has looked yet at what it waits for.
  if (head.open && task.after_all && head.retired.load(std::memory_order_relaxed) != next)
    return std::nullopt;
  if (task.op == TaskOp::kAwait) {
    if (head.queue != 0 || part_->peers.empty()) return std::nullopt;
    if (along_tree() && !shared_.tree.over()) return shared_.tree.awaited();
    if (head.satisfied >= part_->peers.size()) return std::nullopt;
    return part_->peers[head.satisfied];
  }
  if (head.satisfied >= task.wait_count) return std::nullopt;
  const uint32_t producer = task.waits[head.satisfied].producer;
  if (producer == shared_.endpoint.rank()) return std::nullopt;
  return producer;
}

std::optional<uint32_t> CpuProgram::awaited_peer(const Worker& worker) const {
  for (const Head* head : worker.heads) {
    if (const std::optional<uint32_t> peer = awaited_peer(*head)) return peer;
  }
  return std::nullopt;
}

// "rank 0, which waits for rank 2": who is waited for in the end, as far as ranks have told. Where
// they seem to wait for each other one of them has stopped behind its word: none says who is late.
std::string CpuProgram::name_awaited(uint32_t peer) const {
  std::vector<uint32_t> chain = {peer};
  std::string text = fmt::format("rank {}", peer);
  while (const std::optional<uint32_t> next = shared_.endpoint.awaited_by(chain.back())) {
    if (*next == shared_.endpoint.rank() || std::ranges::find(chain, *next) != chain.end())
      return fmt::format("rank {}", peer);
    chain.push_back(*next);
    text += fmt::format(", which waits for rank {}", *next);
  }
  return chain.size() == 1 ? text : text + ",";
}

// For whom, as far as this rank knows: those that have not come, or where all have who is late.
std::string CpuProgram::still_waits(uint32_t peer, int64_t waited_ns) const {
  const std::vector<uint32_t> lacking = lacking_peers();
  const int64_t left_ns = std::max<int64_t>(args_->timeout_ns - waited_ns, 0);
  return fmt::format("waits for {} in {} for {} s by now; at most {} s more",
                     lacking.empty() ? name_awaited(peer) : name_ranks(lacking),
                     describe(plan_->op), waited_ns / 1'000'000'000, left_ns / 1'000'000'000);
}

// A wait has lasted its time: names the rank that it was for.
Status CpuProgram::give_up(uint32_t peer, const OpDesc& op) const {
  Status named =
      error(SK_ERR_TIMEOUT, "rank {} waited {:.1f} s for {} in {}", shared_.endpoint.rank(),
            double(args_->timeout_ns) * 1e-9, name_awaited(peer), describe(op));
  shared_.endpoint.abort(AbortCause::kTimeout, peer, named.message());
  return named;
}

void CpuProgram::fail(Status status) {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;  // Later failures are no news.
  failure_ = std::move(status);
  failed_.store(true, std::memory_order_release);
  wake_driver(shared_.endpoint);
}

// No call fails for want of a trace.
void CpuProgram::note_event(Worker& worker, const TaskEvent& event) noexcept {
  try {
    worker.events.push_back(event);
  } catch (const std::bad_alloc&) {
    ++worker.events_lost;
  }
}

void CpuProgram::record_trace() noexcept {
  TraceBuffer& trace = *shared_.trace;
  uint64_t seen = 0, noted = 0;
  for (const Worker& worker : workers_) {
    seen += worker.events.size() + worker.events_lost;
    noted += worker.events.size();
  }
  uint64_t room = std::min(noted, trace.event_count_max - trace.event_count);
  if (room > 0) {
    const Status kept = caught([&]() -> Status {
      std::vector<TaskEvent> events;
      events.reserve(room);
      for (const Worker& worker : workers_) {
        const size_t count = std::min<size_t>(worker.events.size(), room - events.size());
        events.insert(events.end(), worker.events.begin(), worker.events.begin() + count);
      }
      trace.runs.push_back({plan_, std::move(events)});
      return {};
    });
    if (!kept.ok()) room = 0;
  }
  trace.event_count += room;
  trace.dropped += seen - room;
}

}  // namespace sk::cpu
