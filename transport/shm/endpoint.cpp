#include "transport/shm/endpoint.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

#include "transport/shm/control.h"
#include "transport/shm/process_name.h"

namespace sk::shm {

ShmSession::ShmSession(const MappedView& peer, const SegmentLayout& layout, uint32_t own_rank,
                       bool mapped)
    : peer_(peer),
      entries_(peer.control.entries == nullptr
                   ? nullptr
                   : peer.control.entries + own_rank * kEntryLaneCount * 2),
      segment_bytes_(layout.bytes()),
      signal_count_max_(layout.signal_count_max) {
  caps_.mapped = mapped;
  caps_.ordered = true;
}

Result<Sent> ShmSession::put(PutTarget dst, const void* src, size_t bytes, uint32_t signal,
                             uint32_t add) {
  if (bytes > segment_bytes_ || dst.offset > segment_bytes_ - bytes) [[unlikely]] {
    return error(SK_ERR_INTERNAL, "put of {} bytes at {} into a segment of {}", bytes, dst.offset,
                 segment_bytes_);
  }
  if (signal >= signal_count_max_) [[unlikely]]
    return no_such_signal(signal);
  // A size beyond the caches makes memcpy() store past them, and it fences those stores itself.
  if (bytes != 0) memcpy(peer_.segment + dst.offset, src, bytes);
  add_to(signal, add);
  return Sent::kNow;
}

Status ShmSession::no_such_signal(uint32_t signal) const {
  return error(SK_ERR_INTERNAL, "signal {} of {}", signal, signal_count_max_);
}

Status ShmSession::post(uint32_t signal, uint32_t add) {
  if (signal >= signal_count_max_) [[unlikely]]
    return no_such_signal(signal);
  add_to(signal, add);
  return {};
}

Status ShmSession::enter(const EntrySlot& entry, EntryLane lane, uint64_t seq) {
  EntrySlot& slot = entries_[lane * 2 + (seq & 1)];
  slot.fingerprint = entry.fingerprint;
  slot.other_lane = entry.other_lane;
  memcpy(slot.words, entry.words, sizeof(slot.words));
  slot.seq.store(seq, std::memory_order_release);
  __atomic_store_n(&entered_[lane], seq, __ATOMIC_RELAXED);
  ring_sleeper();
  return {};
}

void ShmSession::ring() {
  std::atomic<uint32_t>& doorbell = header().doorbell;
  doorbell.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &doorbell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

ShmEndpoint::ShmEndpoint(uint32_t rank, std::vector<uint32_t> ranks, const SegmentLayout& layout,
                         Joined joined, const ShmConfig& config)
    : mapped_(!config.hide_mapped),
      use_pidfd_(!config.hide_pidfd),
      process_(getpid()),
      ranks_(std::move(ranks)),
      joined_(std::move(joined)) {
  rank_ = rank;
  layout_ = layout;
  sessions_.reserve(joined_.segments.size());
  for (uint32_t peer = 0; peer < joined_.segments.size(); ++peer) {
    MappedView view;
    if (joined_.segments[peer] != nullptr) {
      view = {.segment = joined_.segments[peer]->base(),
              .control = control_block(*joined_.control, peer, layout_)};
    }
    if (peer == rank) own_ = view;
    sessions_.emplace_back(view, layout_, rank_, mapped_);
  }
}

ShmEndpoint::~ShmEndpoint() {
  if (process_ != getpid()) return;  // A forked child's copy: the rank itself goes on.
  header().left.store(host().left.fetch_add(1) + 1, std::memory_order_release);
}

Status ShmEndpoint::commit(uint64_t offset, uint64_t bytes) {
  return joined_.segments[rank_]->commit(offset, bytes);
}

Status ShmEndpoint::release(uint64_t offset, uint64_t bytes) {
  return joined_.segments[rank_]->release(offset, bytes);
}

Status ShmEndpoint::check() {
  look_after_peers();
  return header().abort_word.load(std::memory_order_acquire) == 0 ? Status() : abort_status();
}

void ShmEndpoint::look_after_peers() {
  const std::unique_lock lock(check_mutex_, std::try_to_lock);
  if (lock && header().abort_word.load(std::memory_order_acquire) == 0) {
    keep_watch();
    find_dead_processes();
    find_peers_that_left();
  }
}

uint32_t ShmEndpoint::left(uint32_t rank) const {
  return header_of(rank).left.load(std::memory_order_acquire);
}

bool ShmEndpoint::same_process(uint32_t rank) const {
  return shm::same_process(header().process, header_of(rank).process);
}

// Asked of the process itself: what the watcher held goes with it. Where PIDs cannot be seen its
// connections tell, for as long as there is a watcher, and what ended the calls.
bool ShmEndpoint::gone(uint32_t peer) {
  if (peer == rank_) return false;
  if (left(peer) != 0) return true;
  if (same_process(peer)) return false;
  Fd fd;
  const Result<Seen> seen = use_pidfd_ ? open_pidfd(header_of(peer).process, fd) : Seen::kInvisible;
  if (seen.ok() && seen.value() != Seen::kInvisible) return seen.value() == Seen::kEnded;
  if (header().abort_word.load(std::memory_order_acquire) ==
      abort_word(AbortCause::kPeerLost, peer))
    return true;
  const std::lock_guard lock(check_mutex_);
  const std::span<const uint32_t> ended = joined_.watch.ended();
  return std::find(ended.begin(), ended.end(), peer) != ended.end();
}

// Where the watcher has freed its endpoint, whoever sees it first takes its place: its process may
// end now, and what it held goes with it.
void ShmEndpoint::keep_watch() {
  if (!joined_.watch.looks() || !use_pidfd_) return;
  uint32_t watcher = host().watcher.load(std::memory_order_acquire);
  while (watcher != rank_ && left(watcher) != 0) {
    if (!host().watcher.compare_exchange_strong(watcher, rank_, std::memory_order_acq_rel))
      continue;
    watcher = rank_;
    unwatched_.assign(ranks_.rbegin(), ranks_.rend());
  }
  watch_others();
  if (watcher == joined_.watch.watcher()) return;
  Fd of_watcher;
  if (watcher != rank_ && !same_process(watcher)) {
    Result<Seen> seen = open_pidfd(header_of(watcher).process, of_watcher);
    if (!seen.ok()) return;  // For want of a descriptor: the next look may find one.
    if (*seen == Seen::kEnded && left(watcher) == 0) abort(AbortCause::kPeerLost, watcher, "");
  }
  joined_.watch.follow(watcher, std::move(of_watcher));
}

// What cannot be watched for want of descriptors is tried again at the next look; where PIDs cannot
// be seen, waits end by their limits.
void ShmEndpoint::watch_others() {
  while (!unwatched_.empty()) {
    const uint32_t rank = unwatched_.back();
    if (rank != rank_ && !same_process(rank) && left(rank) == 0) {
      Fd fd;
      Result<Seen> seen = open_pidfd(header_of(rank).process, fd);
      if (!seen.ok()) return;
      if (*seen == Seen::kAlive && !joined_.watch.add(rank, std::move(fd)).ok()) return;
      if (*seen == Seen::kEnded && left(rank) == 0) abort(AbortCause::kPeerLost, rank, "");
    }
    unwatched_.pop_back();
  }
}

// Of a peer that has left: its entry was stored before its `left`, so what is not there by now will
// never come. Along a tree most ranks have no entry of each other.
bool ShmEndpoint::will_not_enter(uint32_t peer) const {
  const uint64_t met = entered_by(rank_);
  if (entered_by(peer) < met) return true;
  for (const EntryLane lane : {kCollectiveLane, kPairLane}) {
    const uint64_t seq = sessions_[peer].entered(lane);
    if (lane == kCollectiveLane && seq <= met) continue;
    if (entry(peer, lane, seq).seq.load(std::memory_order_acquire) < seq) return true;
  }
  return false;
}

// In the order in which they ended, so that the first one is named and not who followed it. One
// that had left before is missed only by who waits for it.
void ShmEndpoint::find_dead_processes() {
  for (const uint32_t rank : joined_.watch.ended()) {
    if (rank == rank_) continue;
    if (left(rank) == 0) {
      abort(AbortCause::kPeerLost, rank, "");
    } else if (will_not_enter(rank)) {
      abort(AbortCause::kPeerLeft, rank, "");
    }
  }
}

// The first one that left.
void ShmEndpoint::find_peers_that_left() {
  uint32_t first = rank_, when = UINT32_MAX;
  for (const uint32_t rank : ranks_) {
    const uint32_t left_as = rank == rank_ ? 0 : left(rank);
    if (left_as == 0 || left_as >= when || !will_not_enter(rank)) continue;
    first = rank;
    when = left_as;
  }
  if (first != rank_) abort(AbortCause::kPeerLeft, first, "");
}

void ShmEndpoint::abort(AbortCause cause, uint32_t rank, const std::string& reason) {
  if (process_ != getpid()) return;  // A forked child's copy.
  if (cause != AbortCause::kPeerLost && cause != AbortCause::kPeerLeft) {
    rank = rank_;  // Whose reason it is.
    const std::lock_guard lock(reason_mutex_);
    if (!std::exchange(reason_written_, true)) header().set_reason(reason);
  }
  end_waits(abort_word(cause, rank));
}

void ShmEndpoint::end_waits(uint32_t mine) {
  if (process_ != getpid()) return;  // A forked child's copy.
  // Which of several causes is the first one.
  uint32_t word = 0;
  if (host().cause.compare_exchange_strong(word, mine, std::memory_order_acq_rel)) word = mine;
  for (const uint32_t peer : ranks_) {
    ShmSession& session = sessions_[peer];
    uint32_t none = 0;
    session.header().abort_word.compare_exchange_strong(none, word, std::memory_order_acq_rel);
    session.ring();
  }
}

std::string ShmEndpoint::reason_of_end(uint32_t word) const {
  const bool is_here = std::ranges::find(ranks_, abort_rank(word)) != ranks_.end();
  if (gives_reason(abort_cause(word)) && is_here) return reason_of(abort_rank(word));
  for (const uint32_t rank : ranks_)
    if (std::string heard = header_of(rank).heard(word); !heard.empty()) return heard;
  return "";
}

Status ShmEndpoint::abort_status() const {
  const uint32_t word = header().abort_word.load(std::memory_order_acquire);
  const uint32_t rank = abort_rank(word);
  if (rank >= world_size()) {
    return error(SK_ERR_INTERNAL, "the abort word {:#x} names no rank", word);
  }
  switch (abort_cause(word)) {
    case AbortCause::kPeerLost: {
      const ProcessName &own = header().process, &lost = header_of(rank).process;
      if (lost.space == 0 || lost.space != own.space || lost.pid == own.pid)
        return error(SK_ERR_PEER_LOST, "rank {} died", rank);
      return error(SK_ERR_PEER_LOST, "rank {} died (process {})", rank, lost.pid);
    }
    case AbortCause::kLinkLost:
      return error(SK_ERR_TRANSPORT, "the connection to rank {} was lost", rank);
    case AbortCause::kPeerLeft:
      return error(SK_ERR_PEER_LOST, "rank {} has freed the communicator", rank);
    case AbortCause::kTimeout:
      if (rank == rank_) return Status(SK_ERR_TIMEOUT, reason_of(rank));
      return error(SK_ERR_TIMEOUT, "rank {} gave up: {}", rank, reason_of(rank));
    case AbortCause::kAbsent:
      return Status(SK_ERR_PEER_LOST, reason_of(rank));
    case AbortCause::kAborted: {
      const std::string reason = reason_of(rank);
      return error(SK_ERR_ABORTED, "rank {} has aborted{}{}", rank, reason.empty() ? "" : ": ",
                   reason);
    }
  }
  return error(SK_ERR_INTERNAL, "the abort word {:#x} has no known cause", word);
}

void ShmEndpoint::sleep(uint32_t doorbell_seen, int64_t timeout_ns) {
  const timespec timeout = {.tv_sec = timeout_ns / 1'000'000'000,
                            .tv_nsec = timeout_ns % 1'000'000'000};
  // Not FUTEX_PRIVATE: peers ring from other processes. Whatever ends the wait is a wake.
  syscall(SYS_futex, &header().doorbell, FUTEX_WAIT, doorbell_seen, &timeout, nullptr, 0);
}

}  // namespace sk::shm
