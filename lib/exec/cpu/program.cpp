#include "lib/exec/cpu/program.h"

#include <time.h>

#include <algorithm>

#include "lib/exec/cpu/tile/hand_over.h"
#include "lib/op/mismatch.h"
#include "transport/absence.h"

namespace sk::cpu {
namespace {

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Status CpuProgram::run(const RunArgs& args) {
  if (!straight_ || multiplies_) {
    if (Status able = reserve(); !able.ok()) [[unlikely]]
      return stay_out(args, std::move(able));
  }
  args_ = &args;
  if (!staged_.empty()) place_staging();
  for (const Patch& patch : own_) {
    resolve(patch.buffer, static_cast<std::byte*>(args.operands[patch.operand].data));
  }
  if (straight_ && shared_.trace == nullptr) [[likely]] {
    SK_RETURN_IF_ERROR(run_straight());
  } else {
    SK_RETURN_IF_ERROR(run_queues());
  }
  for (const auto& [base, posts] : growth_) *base += posts;
  return {};
}

Status CpuProgram::run_queues() {
  for (Worker& worker : workers_) {
    worker.events.clear();
    for (Head& head : worker.heads) {
      head.next = head.begin;
      head.satisfied = 0;
    }
  }
  const uint32_t count = uint32_t(workers_.size());
  if (count == 1) {
    run_worker(0);
  } else {
    shared_.workers.run(
        count,
        [](void* program, uint32_t worker) {
          static_cast<CpuProgram*>(program)->run_worker(worker);
        },
        this);
    Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
    // The others' own waits are bounded; this one only ends with them.
    while (!shared_.workers.finished()) {
      Status status = waiter.wait([this] { return shared_.workers.finished(); }, args_->timeout_ns);
      if (!status.ok()) fail(std::move(status));
    }
  }
  if (shared_.trace != nullptr) [[unlikely]]
    record_trace();
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] {
    failed_.store(false, std::memory_order_relaxed);
    return std::move(failure_);
  }
  return {};
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
      shared_.endpoint.layout().workspace_offset() + area * kStagingBytes + place * staging_stride_;
  for (const Staged& staged : staged_) {
    offsets_[staged.buffer] = start + plan_->buffers[staged.buffer].offset;
    if (staged.segment != nullptr) {
      resolve(staged.buffer, staged.segment + offsets_[staged.buffer]);
    }
  }
}

void CpuProgram::run_worker(uint32_t index) {
  Worker& worker = workers_[index];
  Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/index == 0);
  for (;;) {
    bool finished = false;
    Status status = run_ready(worker, finished);
    if (!status.ok()) [[unlikely]]
      return fail(std::move(status));
    if (finished) return;
    status = wait_for(waiter,
                      [&] { return any_ready(worker) || failed_.load(std::memory_order_relaxed); });
    if (!status.ok()) [[unlikely]]
      return fail(explain(std::move(status), worker));
    if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
      return;
  }
}

// Runs every queue as far as its waits are met.
Status CpuProgram::run_ready(Worker& worker, bool& finished) {
  finished = true;
  for (Head& head : worker.heads) {
    for (; head.next != head.end; ++head.next) {
      if (!ready(head)) {
        finished = false;
        break;
      }
      SK_RETURN_IF_ERROR(execute(worker, head));
    }
  }
  return {};
}

bool CpuProgram::any_ready(Worker& worker) {
  for (Head& head : worker.heads) {
    if (head.next != head.end && ready(head)) return true;
  }
  return false;
}

bool CpuProgram::ready(Head& head) {
  const LoweredTask& task = tasks_[head.next];
  if (shared_.trace != nullptr && head.waiting_since == 0) head.waiting_since = now_ns();
  if (task.op == TaskOp::kAwait) {
    if (head.queue == 0) return entries_arrived(head);
    return admitted_.load(std::memory_order_acquire) == args_->seq + 1;
  }
  for (; head.satisfied < task.wait_count; ++head.satisfied) {
    const LoweredWait& wait = task.waits[head.satisfied];
    if (wait.word->load(std::memory_order_acquire) < *wait.base + wait.target) return false;
  }
  return true;
}

bool CpuProgram::entries_arrived(Head& head) {
  for (; head.satisfied < part_->peers.size(); ++head.satisfied) {
    const EntrySlot& entry =
        shared_.endpoint.entry(part_->peers[head.satisfied], args_->lane, args_->seq);
    if (entry.seq.load(std::memory_order_acquire) != args_->seq) return false;
  }
  return true;
}

Status CpuProgram::execute(Worker& worker, Head& head) {
  const LoweredTask& task = tasks_[head.next];
  const int64_t start = shared_.trace != nullptr ? now_ns() : 0;
  SK_RETURN_IF_ERROR(perform(head.next, task, /*admits=*/head.queue == 0));
  if (shared_.trace != nullptr) {
    worker.events.push_back({head.next, head.queue, task.op,
                             head.waiting_since == 0 ? start : head.waiting_since, start,
                             now_ns()});
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
  return shared_.endpoint.session(post.rank).put(
      {offsets_[dst.buffer] + dst.offset}, *tile.pointers[0], src.row_bytes, post.index, post.add);
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
  const uint64_t known_as = args_->decline ? 0 : fingerprint_;
  if (entry_.fingerprint != known_as) entry_.fingerprint = known_as;
  for (uint32_t i = 0; i < kEntryOperandMax; ++i) {
    const uint64_t offset = args_->operands[i].segment_offset;
    if (entry_.operand[i] != offset) entry_.operand[i] = offset;
  }
  for (const uint32_t peer : part_->peers) {
    Session& session = shared_.endpoint.session(peer);
    const uint64_t word = with_progress(entry_.call[0], session.entered(other_lane()));
    if (entry_.call[0] != word) entry_.call[0] = word;
    SK_RETURN_IF_ERROR(session.enter(entry_, args_->lane, args_->seq));
  }
  return {};
}

Status CpuProgram::admit() {
  Endpoint& endpoint = shared_.endpoint;
  if (!args_->decline) {
    for (const uint32_t peer : part_->peers) {
      const EntrySlot& entry = endpoint.entry(peer, args_->lane, args_->seq);
      if (entry.fingerprint != fingerprint_) [[unlikely]]
        return desync();
    }
  }
  for (const Patch& patch : peers_) {
    const uint64_t offset =
        endpoint.entry(patch.rank, args_->lane, args_->seq).operand[patch.operand];
    offsets_[patch.buffer] = offset;
    if (patch.segment != nullptr) resolve(patch.buffer, patch.segment + offset);
  }
  admitted_.store(args_->seq + 1, std::memory_order_release);
  return {};
}

// Why the entries differ; the same sentence at all ranks, for all of them have all entries.
Status CpuProgram::desync() const {
  const Endpoint& endpoint = shared_.endpoint;
  std::vector<RankCall> calls = {{endpoint.rank(), fingerprint_, plan_->op}};
  for (const uint32_t peer : part_->peers) {
    const EntrySlot& entry = endpoint.entry(peer, args_->lane, args_->seq);
    if (entry.fingerprint == 0) {
      return error(SK_ERR_NO_MEMORY, "rank {} has no memory to take part in {}", peer,
                   describe(plan_->op));
    }
    calls.push_back({peer, entry.fingerprint, unpack_call(entry)});
  }
  return Status(SK_ERR_DESYNC, explain_mismatch(std::move(calls)));
}

// A peer that has entered a call of the other lane, and not this one before, waits for this rank
// there, and this rank for the peer here: neither will ever come. That the entry awaited is not
// here says nothing by itself: it may still be under way while a later one has arrived.
Status CpuProgram::find_mismatch() {
  Endpoint& endpoint = shared_.endpoint;
  const EntryLane other = other_lane();
  for (const uint32_t peer : part_->peers) {
    const uint64_t next = endpoint.session(peer).entered(other) + 1;
    const EntrySlot& theirs = endpoint.entry(peer, other, next);
    const EntrySlot& awaited = endpoint.entry(peer, args_->lane, args_->seq);
    if (theirs.seq.load(std::memory_order_acquire) != next) continue;
    if (awaited.seq.load(std::memory_order_acquire) == args_->seq) continue;
    if (had_entered(theirs.call, args_->seq)) continue;
    Status mismatch =
        error(SK_ERR_DESYNC, "rank {} called {} while rank {} called {}", endpoint.rank(),
              describe(plan_->op), peer, describe(unpack_call(theirs)));
    endpoint.abort(AbortCause::kAborted, endpoint.rank(), mismatch.message());
    return mismatch;
  }
  return {};
}

// A peer that somebody knows to be elsewhere, and that has not entered this call, never will.
Status CpuProgram::find_absent() {
  Endpoint& endpoint = shared_.endpoint;
  if (endpoint.absence() == nullptr) return {};
  std::vector<uint32_t> lacking;
  for (const uint32_t peer : part_->peers) {
    const EntrySlot& awaited = endpoint.entry(peer, args_->lane, args_->seq);
    if (awaited.seq.load(std::memory_order_acquire) != args_->seq) lacking.push_back(peer);
  }
  std::sort(lacking.begin(), lacking.end());
  const auto absent = endpoint.absence()->among(describe(plan_->op), lacking);
  if (!absent) return {};
  Status status = error(SK_ERR_PEER_LOST, "{} will not come to {}: {}", name_ranks(absent->ranks),
                        describe(plan_->op), absent->why);
  endpoint.abort(AbortCause::kAbsent, endpoint.rank(), status.message());
  return status;
}

// Names the rank that a timed-out wait was for.
Status CpuProgram::explain(Status status, const Worker& worker) const {
  if (!ran_out(status)) return status;
  const auto waiting = std::find_if(worker.heads.begin(), worker.heads.end(),
                                    [](const Head& head) { return head.next != head.end; });
  if (waiting == worker.heads.end()) return status;
  const Head& head = *waiting;
  const LoweredTask& task = tasks_[head.next];
  uint32_t peer = shared_.endpoint.rank();
  if (task.op == TaskOp::kAwait && head.satisfied < part_->peers.size()) {
    peer = part_->peers[head.satisfied];
  } else if (head.satisfied < task.wait_count) {
    peer = task.waits[head.satisfied].producer;
  }
  Status named =
      error(SK_ERR_TIMEOUT, "rank {} waited {:.1f} s for rank {} in {}", shared_.endpoint.rank(),
            double(args_->timeout_ns) * 1e-9, peer, describe(plan_->op));
  shared_.endpoint.abort(AbortCause::kTimeout, peer, named.message());
  return named;
}

void CpuProgram::fail(Status status) {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;  // Later failures are no news.
  failure_ = std::move(status);
  failed_.store(true, std::memory_order_release);
}

void CpuProgram::record_trace() {
  TraceBuffer& trace = *shared_.trace;
  uint64_t held = 0;
  for (const TraceBuffer::Run& run : trace.runs) held += run.events.size();
  TraceBuffer::Run run{plan_, {}};
  for (const Worker& worker : workers_) {
    for (const TaskEvent& event : worker.events) {
      if (held + run.events.size() < trace.event_count_max) {
        run.events.push_back(event);
      } else {
        ++trace.dropped;
      }
    }
  }
  trace.runs.push_back(std::move(run));
}

}  // namespace sk::cpu
