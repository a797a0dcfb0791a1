// The I/O thread of a rank, and what it shares with the main thread.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/control/host/clock.h"
#include "lib/control/host/worker.h"
#include "lib/control/rank_set.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

// What waits to be sent is what a cell's end, or its interrupt, comes behind.
constexpr uint64_t kQueueBytesMax = 256 * 1024;
constexpr size_t kCaptureTurnBytes = 64 * 1024;  // Of one pipe, before the rest gets its turn.
constexpr std::chrono::seconds kSpaceWait{60};

thread_local uint64_t cell_of_this_thread = 0;  // As it said; 0: whichever is open.

}  // namespace

// ---- the I/O thread ---------------------------------------------------------------------------

void Worker::run_io() {
  pthread_setname_np(pthread_self(), kIoThreadName);
  while (true) {
    wait_for_io();
    read_link();
    show_stacks();
    const std::lock_guard lock(mutex_);
    const int64_t now = monotonic_ns();
    if (now >= gate_ns_ && link_.queued_bytes() == 0 && drain_capture(kCaptureTurnBytes)) {
      flush_records();
      gate_ns_ = now;  // There is more already: nothing to gather it for.
    }
    if (!pending_.empty() && (now >= gate_ns_ || pending_bytes_ >= kBatchBytes)) flush_records();
    if (now >= end_collectives_at_ns_) {
      end_collectives_at_ns_ = INT64_MAX;
      const bool due = (open_cell_ != 0 && cancelled()) || interrupted_early_ != 0;
      if (due && collectives() != nullptr) collectives()->interrupt();
    }
    if (now >= signal_at_ns_) signal_late(now);
    if (now >= heartbeat_at_ns_) {
      send(sign_of_life());
      heartbeat_at_ns_ = now + kHeartbeatNs;
    }
    if (link_.open() && !link_.flush()) lose_link();
    if (queued() < kQueueBytesMax) space_.notify_all();
    if (leaving_ || lost_) return;
  }
}

Heartbeat Worker::sign_of_life() const {
  Heartbeat sign{open_cell_};
  sign.left = open_cell_ != 0 && cancelled() && code_ended_ns_ != 0;
  if (collectives() == nullptr) return sign;
  Collectives::Wait wait = collectives()->waiting();
  sign.waits_in = utf8_clean(wait.call.substr(0, kWaitsInMax / 4));  // Cleaning may grow it.
  sign.waits_for = std::move(wait.lacking);
  sign.lingers = open_cell_ == 0 && lingers();
  return sign;
}

void Worker::wait_for_io() {
  pollfd fds[6] = {};
  nfds_t count = 0;
  int64_t wake_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    fds[count++] = {io_wakeup_.get(), POLLIN, 0};
    fds[count++] = {watch_.timer(), POLLIN, 0};
    fds[count++] = {watch_.link(), POLLIN, 0};
    if (link_.queued_bytes() > 0) fds[count++] = {link_.fd(), POLLOUT, 0};
    // Between batches, and while the controller is behind, what is captured stays in the kernel,
    // where a killed rank does not lose it.
    const bool batching = monotonic_ns() < gate_ns_ && (watches_capture() || !pending_.empty());
    const bool stays = batching || link_.queued_bytes() > 0;
    wake_ns =
        std::min({batching ? gate_ns_ : heartbeat_at_ns_, end_collectives_at_ns_, signal_at_ns_});
    // A main thread that waits tells of what comes: so the first line of its next cell, which the
    // cell's end takes along, wakes nobody.
    for (const local::Fd& fd : capture_)
      if (fd.open() && welcome_ && !stays && watches_capture())
        fds[count++] = {fd.get(), POLLIN, 0};
  }
  const int64_t left_ms = (wake_ns - monotonic_ns() + 999'999) / 1'000'000;
  ::poll(fds, count, static_cast<int>(std::clamp<int64_t>(left_ms, 0, 1000)));
  if (fds[0].revents != 0) local::clear_wakeup(io_wakeup_.get());
  if (fds[1].revents != 0) watch_.clear_timer();
}

bool Worker::lingers() const {
  return collectives() != nullptr && collectives()->used_beside_cells(threads_ > 0);
}

// By whichever thread was woken for it. Messages are handled in the order in which they came.
void Worker::read_link() {
  const std::lock_guard reading(read_mutex_);
  std::string bytes;
  const local::ReadResult result = link_.read(bytes);
  reader_.feed(bytes);
  while (true) {
    auto message = reader_.next();
    if (!message.ok() || (!message->has_value() && result == local::ReadResult::kClosed)) {
      const std::lock_guard lock(mutex_);
      return lose_link();
    }
    if (!message->has_value()) return;
    handle(std::move(**message));
  }
}

void Worker::handle(Message message) {
  const std::lock_guard lock(mutex_);
  if (std::holds_alternative<Welcome>(message)) {
    welcome_ = true;
    local::wake(io_wakeup_.get());  // It may take what is captured.
  }
  if (auto* group = std::get_if<RankGroup>(&message)) take_group(std::move(*group));
  if (auto* absent = std::get_if<Absent>(&message)) {
    absent_ = std::move(*absent);
    apply_absent();
  }
  if (const auto* request = std::get_if<Interrupt>(&message)) interrupt(*request);
  if (auto* execute = std::get_if<Execute>(&message)) {
    // A short cell's end takes its output along: this thread is not woken for the first line.
    gate_ns_ = std::max(gate_ns_, monotonic_ns() + kFlushNs);
    requests_.push_back(std::move(*execute));
  }
  if (auto* ask = std::get_if<Ask>(&message)) {
    if (ask->kind == kAskStack) {
      stacks_asked_.push_back(ask->request);
      return local::wake(io_wakeup_.get());
    }
    if (ask->snapshot) return send(snapshot_.answer(*ask));
    requests_.push_back(std::move(*ask));
  }
  if (auto* comm = std::get_if<Comm>(&message)) requests_.push_back(std::move(*comm));
  if (auto* input = std::get_if<InputReply>(&message)) take_input_reply(std::move(*input));
  if (std::holds_alternative<Shutdown>(message)) requests_.push_back(Shutdown{});
  if (!requests_.empty() && !is_main()) local::wake(request_wakeup_.get());
}

// Nobody waits any longer for a rank that is gone: a creation that waits for it ends.
void Worker::take_group(RankGroup group) {
  group_ = std::move(group);
  group_changed_ = true;
  local::wake(request_wakeup_.get());
  group_news_.notify_all();
  if (group_.missing.empty() || collectives() == nullptr) return;
  collectives()->lose_ranks(
      error(SK_ERR_PEER_LOST, "{} not there any more",
            name_ranks(group_.missing) + (group_.missing.size() == 1 ? " is" : " are")));
}

// What the open cell's calls wait for in vain; when none is open, nobody does.
void Worker::apply_absent() {
  if (collectives() == nullptr) return;
  std::vector<AbsentPeers> groups;
  if (open_cell_ != 0 && open_cell_ == absent_.cell)
    for (const Absent::Group& group : absent_.groups) groups.push_back({group.ranks, group.why});
  collectives()->set_absent(std::move(groups));
}

// Without either mutex: the main thread may hold it, or wait for it, while it is looked at.
void Worker::show_stacks() {
  while (true) {
    uint64_t request = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stacks_asked_.empty() || lost_) return;
      request = stacks_asked_.front();
      stacks_asked_.pop_front();
    }
    show_stack(request);
  }
}

void Worker::show_stack(uint64_t request) {
  bool idle = false;
  {
    const std::lock_guard lock(mutex_);
    // Between cells it may be kept by what those have left behind.
    const bool kept = !waits_ && !requests_.empty();
    const bool in_call = collectives() != nullptr && !collectives()->waiting().call.empty();
    idle = open_cell_ == 0 && !kept && !in_call;
  }
  Reply reply;
  reply.request = request;
  reply.answer = idle ? 1 : 0;
  if (!idle) reply.strings = {probe_.native(), probe_.language()};
  const std::lock_guard lock(mutex_);
  send(reply);
}

void Worker::lose_link() {
  lost_ = true;
  space_.notify_all();
  group_news_.notify_all();
  local::wake(input_wakeup_.get());
  local::wake(request_wakeup_.get());
  local::wake(io_wakeup_.get());
}

// ---- what both threads do, under the mutex ----------------------------------------------------

// For the next send(), in front of what that has.
void Worker::queue(const Message& message) {
  if (lost_ || !link_.open()) return;
  // Records are held under the limit where they come in; see kDisplayBytesMax.
  if (!append_frames(message, link_.outbox()).ok()) lose_link();
}

void Worker::send(const Message& message) {
  queue(message);
  if (lost_ || !link_.open()) return;
  if (!link_.flush()) lose_link();
  if (link_.queued_bytes() > 0) local::wake(io_wakeup_.get());
}

void Worker::queue_records() {
  if (pending_.empty()) return;
  gate_ns_ = monotonic_ns() + kFlushNs;
  Output output{last_cell_, seq_ + 1, std::exchange(pending_, {})};
  seq_ += output.records.size();
  pending_bytes_ = 0;
  queue(output);
}

void Worker::flush_records() {
  if (pending_.empty()) return;
  queue_records();
  if (lost_ || !link_.open()) return;
  if (!link_.flush()) lose_link();
  if (link_.queued_bytes() > 0) local::wake(io_wakeup_.get());
}

void Worker::append_stream(uint32_t stream, std::string_view text) {
  pending_bytes_ += text.size();
  if (!pending_.empty()) {
    auto* last = std::get_if<StreamRecord>(&pending_.back().body);
    if (last != nullptr && last->stream == stream && last->text.size() < kBatchBytes) {
      last->text += text;
      return;
    }
  }
  pending_.push_back({monotonic_ns(), StreamRecord{stream, std::string(text)}});
}

// What C code and children wrote comes before what is appended next: all that is there now, since
// a child that floods its pipe fills it again meanwhile, and at most `limit` bytes of each. Whether
// there is more.
bool Worker::drain_capture(size_t limit) {
  bool more = false;
  if (!welcome_) return more;
  for (uint32_t i = 0; i < 2; ++i) {
    if (!capture_[i].open()) continue;
    const size_t there = local::readable_bytes(capture_[i].get());
    if (there == 0 && limit == SIZE_MAX) continue;  // The I/O thread looks for the end.
    std::string text;
    // One byte at least, to see the end.
    const local::ReadResult result =
        local::read_some(capture_[i].get(), text, std::max<size_t>(1, std::min(there, limit)));
    if (!text.empty()) append_stream(i == 0 ? SK_STREAM_STDOUT : SK_STREAM_STDERR, text);
    if (result == local::ReadResult::kClosed) capture_[i].reset();
    more = more || there > limit;
  }
  return more;
}

// Sent, not gathered: what has left the pipe must not be lost with this process.
Status Worker::send_captured() {
  std::unique_lock lock(mutex_);
  SK_RETURN_IF_ERROR(wait_for_room(lock));
  drain_capture();
  flush_records();
  // What does not fit into the socket is still ours: the I/O thread sends on and tells.
  const auto sent = [&] { return lost_ || cancelled() || link_.queued_bytes() == 0; };
  if (!space_.wait_for(lock, kSpaceWait, sent))
    return error(SK_ERR_TIMEOUT, "worker: the controller took no output for 60 s");
  return check_open();
}

Status Worker::check_open() const {
  if (lost_) return error(SK_ERR_PEER_LOST, "worker: the controller is gone");
  return {};
}

// Until there is room for more output.
Status Worker::wait_for_room(std::unique_lock<std::mutex>& lock) {
  const auto room = [&] { return lost_ || refuses_output_ || queued() < kQueueBytesMax; };
  if (!space_.wait_for(lock, kSpaceWait, room))
    return error(SK_ERR_TIMEOUT, "worker: the controller took no output for 60 s");
  SK_RETURN_IF_ERROR(check_open());
  return queued() < kQueueBytesMax ? Status() : refuse_output();
}

// What the cell prints about an interrupt it has heard of waits again.
Status Worker::refuse_output() {
  if (!config_.event_loop && is_main()) refuses_output_ = false;  // It hears of it by this.
  return error(SK_ERR_ABORTED, "worker: interrupted while {} bytes of output were on the way",
               queued());
}

Status Worker::output_cell(uint64_t cell) {
  const std::lock_guard lock(mutex_);
  if (cell > last_cell_)
    return error(SK_ERR_INVALID_ARGUMENT,
                 "sk_worker_output_cell: cell {} is none that this rank was given; the last is {}",
                 cell, last_cell_);
  cell_of_this_thread = cell;
  return {};
}

// The cell that the calling thread's output is of.
uint64_t Worker::cell_of_output() const {
  return cell_of_this_thread != 0 ? cell_of_this_thread : last_cell_;
}

// Records are gathered for the open cell, and this may be of another: it goes behind them, at once.
void Worker::send_alone(Record record) {
  flush_records();
  send(Output{cell_of_output(), ++seq_, {std::move(record)}});
}

Status Worker::emit(Record record, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  // An error is let in over the limit: after an interrupt it is what the cell ends with.
  if (std::holds_alternative<ErrorRecord>(record.body))
    SK_RETURN_IF_ERROR(check_open());
  else
    SK_RETURN_IF_ERROR(wait_for_room(lock));
  drain_capture();
  if (cell_of_this_thread != 0) {
    send_alone(std::move(record));
    return check_open();
  }
  const bool first = pending_.empty();
  if (auto* stream = std::get_if<StreamRecord>(&record.body)) {
    append_stream(stream->stream, stream->text);
  } else {
    pending_bytes_ += bytes;
    pending_.push_back(std::move(record));
  }
  if (pending_bytes_ >= kBatchBytes || monotonic_ns() >= gate_ns_)
    flush_records();
  else if (first)
    local::wake(io_wakeup_.get());
  return check_open();
}

}  // namespace sk::control
