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
constexpr int64_t kGraceNs = 200'000'000;
constexpr int64_t kReasonNs = 100'000'000;
constexpr int64_t kLookAfterNs = 250'000'000;
constexpr int64_t kMixedSliceNs = 60'000;  // What comes from other hosts waits so long, at most.

}  // namespace

HostsEndpoint::HostsEndpoint(std::unique_ptr<Endpoint> local, std::vector<Remote> remotes,
                             std::unique_ptr<Readiness> readiness)
    : process_(getpid()), local_(std::move(local)), readiness_(std::move(readiness)) {
  rank_ = local_->rank();
  layout_ = local_->layout();
  own_ = local_->own();
  driven_ = true;
  by_rank_.resize(world_size());
  for (Remote& remote : remotes) {
    peers_.push_back(std::make_unique<Peer>(*this, std::move(remote)));
    by_rank_[peers_.back()->rank] = peers_.back().get();
    if (peers_.back()->channel.pipe().holds_input()) more_.push_back(peers_.back()->rank);
  }
}

HostsEndpoint::~HostsEndpoint() { leave(); }

bool HostsEndpoint::forked() const { return process_ != getpid(); }

Session& HostsEndpoint::session(uint32_t peer) {
  return by_rank_[peer] == nullptr ? local_->session(peer) : by_rank_[peer]->session;
}

uint64_t HostsEndpoint::entered_by(uint32_t peer) const {
  return by_rank_[peer] == nullptr ? local_->entered_by(peer) : by_rank_[peer]->channel.entered();
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
  if (peers_.size() <= kFewPeers) {
    ready_.clear();
    for (const auto& peer : peers_) ready_.push_back(peer->rank);
  } else {
    readiness_->wait(0, ready_);
    ready_.insert(ready_.end(), more_.begin(), more_.end());
  }
  more_.clear();
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
  if (!came) return false;
  came_.fetch_add(1, std::memory_order_relaxed);
  const Inbox& inbox = channel.inbox();
  if (inbox.abort_word() != 0 && heard_word_ == 0) {
    heard_word_ = inbox.abort_word();
    heard_reason_ = inbox.reason();
    local_->end_waits(heard_word_);
    forget_memory();
  }
  note_end(peer);
  return true;
}

void HostsEndpoint::note_room(uint32_t rank) {
  Peer& peer = *by_rank_[rank];
  if (peer.channel.wants_room() == peer.wanted_room) [[likely]]
    return;
  peer.wanted_room = !peer.wanted_room;
  readiness_->wants_room(rank, peer.wanted_room);
}

void HostsEndpoint::note_end(Peer& peer) {
  if (!peer.channel.open()) readiness_->forget(peer.rank);
  if (peer.ended_as != 0 || (peer.channel.open() && !peer.channel.inbox().left())) return;
  peer.ended_as = ++ends_;
  peer.ended_ns = readiness_->now_ns();
}

void HostsEndpoint::look_after_hosts() {
  const int64_t now_ns = readiness_->now_ns();
  if (now_ns - looked_after_ns_ < kLookAfterNs) return;
  looked_after_ns_ = now_ns;
  for (const auto& peer : peers_) {
    peer->channel.look_after();
    note_end(*peer);
  }
}

// Its last frame came behind all its others: an entry that is not there will never come. Of a
// collective that ranks meet in along a tree there is one only from who has waited long.
bool HostsEndpoint::will_not_enter(const Peer& peer) const {
  const uint64_t met = header().entered.load(std::memory_order_acquire);
  if (peer.channel.entered() < met) return true;
  for (const EntryLane lane : {kCollectiveLane, kPairLane}) {
    const uint64_t seq = peer.session.entered(lane);
    if (lane == kCollectiveLane && seq <= met) continue;
    if (entry(peer.rank, lane, seq).seq.load(std::memory_order_acquire) < seq) return true;
  }
  return false;
}

// The first that is missed is named, not who followed it: one that ends in the middle may do so
// because of another's end, of which its host or others tell.
void HostsEndpoint::find_ends() {
  const Peer* first = nullptr;
  for (const auto& peer : peers_) {
    if (peer->ended_as == 0) continue;
    const bool left = peer->channel.inbox().left();
    if (left ? !will_not_enter(*peer) : readiness_->now_ns() - peer->ended_ns < kGraceNs) continue;
    if (first == nullptr || peer->ended_as < first->ended_as) first = peer.get();
  }
  if (first == nullptr) return;
  AbortCause cause = AbortCause::kLinkLost;
  if (first->channel.inbox().left()) {
    cause = AbortCause::kPeerLeft;
  } else if (first->channel.ending().code() == SK_ERR_PEER_LOST) {
    cause = AbortCause::kPeerLost;
  } else if (heard_word_ == 0) {
    heard_word_ = abort_word(cause, first->rank);
    heard_reason_ = fmt::format("the connection of rank {} to rank {} at {} was lost: {}", rank_,
                                first->rank, first->where, first->channel.ending().message());
  }
  local_->end_waits(abort_word(cause, first->rank));
}

// Also behind an end, when nobody looks after the hosts any more.
bool HostsEndpoint::gone(uint32_t peer) {
  if (by_rank_[peer] == nullptr) return local_->gone(peer);
  const std::lock_guard lock(mutex_);
  look_after_hosts();
  pump(*by_rank_[peer]);
  return by_rank_[peer]->ended_as != 0;
}

bool HostsEndpoint::unreachable(uint32_t peer) const {
  if (by_rank_[peer] == nullptr) return local_->unreachable(peer);
  const std::lock_guard lock(mutex_);
  const Channel& channel = by_rank_[peer]->channel;
  return !channel.inbox().left() && !channel.open() && channel.ending().code() != SK_ERR_PEER_LOST;
}

Status HostsEndpoint::check() {
  local_->look_after_peers();
  progress();
  if (own_abort_word() == 0) {
    const std::lock_guard lock(mutex_);
    look_after_hosts();
    if (ends_ > 0) find_ends();
  }
  if (own_abort_word() == 0) return {};
  {
    const std::lock_guard lock(mutex_);
    tell_abort();
  }
  return abort_status();
}

// Every rank has a channel to every rank of other hosts, so each tells what it is the origin of, or
// has seen of others; what somebody has told is not told again.
void HostsEndpoint::tell_abort() {
  const uint32_t word = own_abort_word();
  if (told_abort_ || word == 0) return;
  told_abort_ = true;
  forget_memory();
  const AbortCause cause = abort_cause(word);
  const bool seen = cause == AbortCause::kPeerLost || cause == AbortCause::kPeerLeft ||
                    cause == AbortCause::kLinkLost;
  if (!seen && abort_rank(word) != rank_) return;
  const std::string reason = word == heard_word_ ? heard_reason_ : header().reason();
  for (const auto& peer : peers_) {
    if (peer->rank == abort_rank(word) && cause != AbortCause::kLinkLost) continue;
    peer->channel.tell_abort(word, reason);
    pump(*peer);
  }
}

void HostsEndpoint::tell_awaited(std::optional<uint32_t> rank) noexcept {
  Endpoint::tell_awaited(rank);
  const std::lock_guard lock(mutex_);
  const uint32_t word = header().awaited.load(std::memory_order_relaxed);
  if (std::exchange(told_awaited_, word) == word) return;
  // At the end of a wait, too, whose call does not depend on it.
  [[maybe_unused]] const Status told = caught([&]() -> Status {
    for (const auto& peer : peers_) {
      peer->channel.tell_awaited(word);
      pump(*peer);
    }
    return {};
  });
}

std::optional<uint32_t> HostsEndpoint::awaited_by(uint32_t peer) const {
  if (by_rank_[peer] == nullptr) return local_->awaited_by(peer);
  const std::lock_guard lock(mutex_);
  const uint32_t word = by_rank_[peer]->channel.inbox().awaited();
  return word == 0 ? std::nullopt : std::optional(word - 1);
}

void HostsEndpoint::abort(AbortCause cause, uint32_t rank, const std::string& reason) {
  if (forked()) return;
  local_->abort(cause, rank, reason);
  const std::lock_guard lock(mutex_);
  tell_abort();
  readiness_->wake();
}

void HostsEndpoint::end_waits(uint32_t word) {
  local_->end_waits(word);
  readiness_->wake();
}

// Behind an end a call returns, and what it was given may be gone.
void HostsEndpoint::forget_memory() const {
  for (const auto& peer : peers_) peer->channel.forget_memory();
}

// A rank of this host may have heard of it first.
void HostsEndpoint::await_reason(Peer& peer) const {
  const int64_t end_ns = readiness_->now_ns() + kReasonNs;
  std::vector<uint32_t> ready;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const_cast<HostsEndpoint*>(this)->pump(peer);
      if (peer.channel.inbox().abort_word() != 0 || !peer.channel.open()) return;
    }
    if (readiness_->now_ns() > end_ns) return;
    readiness_->wait(kSleepNsMax, ready);
  }
}

Status HostsEndpoint::abort_status() const {
  const uint32_t word = own_abort_word();
  const uint32_t rank = abort_rank(word);
  const AbortCause why = abort_cause(word);
  const bool has_reason =
      why == AbortCause::kTimeout || why == AbortCause::kAbsent || why == AbortCause::kAborted;
  if (has_reason && rank < world_size() && by_rank_[rank] != nullptr) await_reason(*by_rank_[rank]);
  const std::lock_guard lock(mutex_);
  forget_memory();
  if (abort_cause(word) == AbortCause::kLinkLost && word == heard_word_ && !heard_reason_.empty())
    return Status(SK_ERR_TRANSPORT, heard_reason_);
  if (rank >= world_size() || by_rank_[rank] == nullptr) return local_->abort_status();
  const Peer& peer = *by_rank_[rank];
  const std::string& reason = peer.channel.inbox().reason();
  switch (why) {
    case AbortCause::kPeerLost:
      return error(SK_ERR_PEER_LOST, "rank {} died (at {})", rank, peer.where);
    case AbortCause::kPeerLeft:
      return error(SK_ERR_PEER_LOST, "rank {} has freed the communicator", rank);
    case AbortCause::kTimeout:
      return error(SK_ERR_TIMEOUT, "rank {} gave up: {}", rank, reason);
    case AbortCause::kAbsent:
      return error(
          SK_ERR_PEER_LOST, "{}",
          reason.empty() ? fmt::format("rank {} waited for one that will not come", rank) : reason);
    case AbortCause::kAborted:
      return error(SK_ERR_ABORTED, "rank {} has aborted{}{}", rank, reason.empty() ? "" : ": ",
                   reason);
    case AbortCause::kLinkLost:
      return error(SK_ERR_TRANSPORT, "the connection to rank {} at {} was lost", rank, peer.where);
  }
  return error(SK_ERR_INTERNAL, "the abort word {:#x} has no known cause", word);
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
      if (late == peers_.end()) break;
      if (readiness_->now_ns() >= end_ns) {
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
  if (forked() || std::exchange(left_, true)) return;
  {
    const std::lock_guard lock(mutex_);
    tell_abort();  // Whoever read only the word knows of an end that this rank has told nobody yet.
    for (const auto& peer : peers_) {
      peer->channel.leave();
      pump(*peer);
    }
  }
  // Who has been told of an end may not look any more.
  (void)drain(own_abort_word() == 0 ? kLeaveNs : kLeaveEndedNs);
}

}  // namespace sk::stream
