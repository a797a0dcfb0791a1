#include "transport/stream/endpoint.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "transport/stream/peer.h"

namespace sk::stream {
namespace {

constexpr size_t kBudgetBytes = 1 << 20;  // Of what comes from a peer, at one time.
constexpr size_t kFewPeers = 4;           // Asked one by one, which is sooner than to ask for all.
constexpr int64_t kLeaveNs = 2'000'000'000;
constexpr int64_t kLeaveEndedNs = 500'000'000;
constexpr int64_t kMixedSliceNs = 60'000;  // What comes from other hosts waits so long, at most.

}  // namespace

HostsEndpoint::HostsEndpoint(std::unique_ptr<Endpoint> local, std::vector<Remote> remotes,
                             std::unique_ptr<Readiness> readiness, std::unique_ptr<Joiner> joiner)
    : process_(getpid()),
      local_(std::move(local)),
      readiness_(std::move(readiness)),
      joiner_(std::move(joiner)),
      joins_late_(joiner_ != nullptr) {
  rank_ = local_->rank();
  layout_ = local_->layout();
  own_ = local_->own();
  driven_ = true;
  by_rank_.resize(world_size());
  for (Remote& remote : remotes) {
    const uint32_t host = remote.host;
    peers_.push_back(std::make_unique<Peer>(*this, std::move(remote)));
    by_rank_[peers_.back()->rank] = peers_.back().get();
    if (joins_late_) peers_.back()->host = &host_of(host);
    if (peers_.back()->channel.pipe().holds_input()) more_.push_back(peers_.back()->rank);
  }
}

HostsEndpoint::~HostsEndpoint() { leave(); }

bool HostsEndpoint::forked() const { return process_ != getpid(); }

Session& HostsEndpoint::session(uint32_t peer) {
  return by_rank_[peer] == nullptr ? local_->session(peer) : by_rank_[peer]->session;
}

void HostsEndpoint::progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  drives_.fetch_add(1, std::memory_order_relaxed);
  pump_all();
}

bool HostsEndpoint::drive() {
  const std::lock_guard lock(mutex_);
  // Whoever sleeps has been woken by what came, but may have looked too early.
  if (pump_all() && header().sleeping.load(std::memory_order_relaxed) != 0) readiness_->wake();
  return !more_.empty();
}

bool HostsEndpoint::pump_all() {
  bool came = false;
  if (joins_late_) {
    readiness_->wait(0, ready_);
    ready_.insert(ready_.end(), more_.begin(), more_.end());
    more_.clear();
    const bool knocks = std::erase(ready_, Readiness::kJoiner) > 0;
    if (knocks || rest_ns() <= 0) came = join_some();
  } else if (peers_.size() <= kFewPeers) {
    ready_.clear();
    more_.clear();
    for (const auto& peer : peers_) ready_.push_back(peer->rank);
  } else {
    readiness_->wait(0, ready_);
    ready_.insert(ready_.end(), more_.begin(), more_.end());
    more_.clear();
  }
  for (const uint32_t rank : ready_) {
    Peer& peer = *by_rank_[rank];
    came |= pump(peer);
    if (peer.channel.open() && peer.channel.pipe().holds_input()) more_.push_back(rank);
  }
  return came;
}

bool HostsEndpoint::pump(Peer& peer) {
  Channel& channel = peer.channel;
  if (!channel.open()) {
    note_end(peer);
    return false;
  }
  const bool came = channel.pump(kBudgetBytes);
  note_room(peer.rank);
  note_told(peer);
  if (!came) return false;
  came_.fetch_add(1, std::memory_order_relaxed);
  const Inbox& inbox = channel.inbox();
  if (inbox.abort_word() != 0 && heard_word_ == 0) {
    note_heard(inbox.abort_word(), inbox.reason());
    local_->end_waits(heard_word_);
    forget_memory();
    if (joins_late_) tell_abort();
  }
  note_end(peer);
  return true;
}

void HostsEndpoint::note_room(uint32_t rank) {
  Peer& peer = *by_rank_[rank];
  if (peer.channel.wants_room() == peer.wanted_room) [[likely]]
    return;
  peer.wanted_room = !peer.wanted_room;
  if (peer.channel.connected()) {
    readiness_->wants_room(rank, peer.wanted_room);
  } else if (peer.wanted_room && own_abort_word() == 0) {
    want(rank);
  }
}

void HostsEndpoint::note_end(Peer& peer) {
  if (!peer.channel.open()) readiness_->forget(peer.rank);
  if (peer.ended_as != 0 || (peer.channel.open() && !peer.channel.inbox().left())) return;
  peer.ended_as = ++ends_;
  peer.ended_ns = readiness_->now_ns();
}

void HostsEndpoint::sleep(uint32_t doorbell_seen, int64_t timeout_ns) {
  drives_.fetch_add(1, std::memory_order_relaxed);
  timeout_ns = std::min(timeout_ns, kSleepNsMax);
  if (header().doorbell.load(std::memory_order_acquire) != doorbell_seen) return;
  std::vector<uint32_t> ready;
  if (peers_.size() + 1 == world_size()) {
    readiness_->wait(timeout_ns, ready);
    progress();
    return;
  }
  // Neighbours ring the doorbell, which no poll sees; other hosts cannot.
  const int64_t end_ns = readiness_->now_ns() + timeout_ns;
  const uint64_t before = came_;
  do {
    local_->sleep(doorbell_seen, kMixedSliceNs);
    progress();
  } while (came_ == before && header().doorbell.load(std::memory_order_acquire) == doorbell_seen &&
           readiness_->now_ns() < end_ns);
}

void HostsEndpoint::ring(uint32_t peer) {
  if (by_rank_[peer] != nullptr) return;  // What is posted there rings.
  local_->ring(peer);
  if (peer == rank_) readiness_->wake();
}

Status HostsEndpoint::drain(int64_t timeout_ns) {
  const int64_t end_ns = readiness_->now_ns() + timeout_ns;
  std::vector<uint32_t> ready;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      drives_.fetch_add(1, std::memory_order_relaxed);
      pump_all();
      const auto late = std::find_if(peers_.begin(), peers_.end(),
                                     [](const auto& peer) { return !peer->channel.delivered(); });
      const bool over = readiness_->now_ns() >= end_ns;
      // Who takes the stream for made, and finds it closed, would take this rank for dead.
      if (late == peers_.end() && (over || joiner_ == nullptr || joiner_->settled())) break;
      if (over) {
        return error(SK_ERR_TIMEOUT, "rank {} at {} did not take what was sent to it",
                     (*late)->rank, (*late)->where);
      }
    }
    // No event tells that a host has acknowledged what it was sent.
    readiness_->wait(std::min(end_ns - readiness_->now_ns(), kSleepNsMax), ready);
  }
  return local_->drain(std::max<int64_t>(0, end_ns - readiness_->now_ns()));
}

void HostsEndpoint::leave() {
  if (forked()) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
    tell_abort();  // Whoever read only the word knows of an end that this rank has told nobody yet.
    for (const auto& peer : peers_) {
      peer->channel.leave();
      pump(*peer);
    }
  }
  // Who has been told of an end may not look any more.
  (void)drain(own_abort_word() == 0 ? kLeaveNs : kLeaveEndedNs);
  const std::lock_guard lock(mutex_);
  joiner_.reset();  // Who dials from here on is refused.
}

}  // namespace sk::stream
