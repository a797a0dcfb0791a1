// Of an endpoint over streams: how calls end before their time, and how all ranks hear of it.
#include <algorithm>
#include <utility>

#include "transport/stream/endpoint.h"
#include "transport/stream/peer.h"

namespace sk::stream {
namespace {

constexpr int64_t kGraceNs = 200'000'000;
constexpr int64_t kReasonNs = 100'000'000;
constexpr int64_t kLookAfterNs = 250'000'000;

}  // namespace

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
  const Status& ending = first->channel.ending();
  const bool died = ending.code() == SK_ERR_PEER_LOST;
  AbortCause cause = died ? AbortCause::kPeerLost : AbortCause::kLinkLost;
  std::string reason;
  if (first->channel.inbox().left()) {
    cause = AbortCause::kPeerLeft;
  } else if (!first->channel.connected()) {
    // Of a death others would have told by now, so it is the likelier of the two.
    if (died) cause = AbortCause::kPeerLeft;
    reason = died ? fmt::format(
                        "rank {} at {} does not listen any more, for it has freed the "
                        "communicator or its process has ended",
                        first->rank, first->where)
                  : fmt::format("rank {} does not reach rank {} at {}: {}", rank_, first->rank,
                                first->where, ending.message());
  } else if (!died) {
    reason = fmt::format("the connection of rank {} to rank {} at {} was lost: {}", rank_,
                         first->rank, first->where, ending.message());
  }
  if (!reason.empty()) note_heard(abort_word(cause, first->rank), reason);
  local_->end_waits(abort_word(cause, first->rank));
}

// The first of an end that no rank of this host has caused. Ranks here that have no stream to who
// has told it find it in this one's header.
void HostsEndpoint::note_heard(uint32_t word, const std::string& reason) {
  if (heard_word_ != 0) return;
  heard_word_ = word;
  heard_reason_ = reason;
  header().set_heard(word, reason);
}

// By what the streams to its host say: of one that has none itself.
bool HostsEndpoint::is_cut_off(const Peer& peer) const {
  if (peer.channel.connected() || peer.host == nullptr) return false;
  return std::ranges::any_of(peers_, [&](const auto& other) {
    const Channel& channel = other->channel;
    return other->host == peer.host && channel.connected() && !channel.open() &&
           !channel.inbox().left() && channel.ending().code() != SK_ERR_PEER_LOST;
  });
}

// Also behind an end, when nobody looks after the hosts any more. Of one that has never been
// connected only a dial can tell, where its host is not cut off.
bool HostsEndpoint::gone(uint32_t peer) {
  if (by_rank_[peer] == nullptr) return local_->gone(peer);
  const std::lock_guard lock(mutex_);
  look_after_hosts();
  const Channel& channel = by_rank_[peer]->channel;
  if (!channel.connected() && channel.open()) want(peer);
  join_some();
  pump(*by_rank_[peer]);
  return by_rank_[peer]->ended_as != 0 || is_cut_off(*by_rank_[peer]);
}

bool HostsEndpoint::unreachable(uint32_t peer) const {
  if (by_rank_[peer] == nullptr) return local_->unreachable(peer);
  const std::lock_guard lock(mutex_);
  const Channel& channel = by_rank_[peer]->channel;
  if (channel.open()) return is_cut_off(*by_rank_[peer]);
  return !channel.inbox().left() && channel.ending().code() != SK_ERR_PEER_LOST;
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

// Where each rank has a channel to every rank of other hosts, each tells what it is the origin of
// or has seen of others; what somebody has told is not told again. Where channels are missing,
// every rank tells all that it has whatever it has heard, once: so a word goes around a link that
// is lost. Nobody is connected for it.
void HostsEndpoint::tell_abort() {
  const uint32_t word = own_abort_word();
  if (told_abort_ || word == 0) return;
  told_abort_ = true;
  forget_memory();
  const AbortCause cause = abort_cause(word);
  if (!joins_late_ && gives_reason(cause) && abort_rank(word) != rank_) return;
  const std::string reason = reason_of(word);
  for (const auto& peer : peers_) {
    if (peer->rank == abort_rank(word) && cause != AbortCause::kLinkLost) continue;
    if (peer->channel.inbox().abort_word() == word) continue;
    peer->channel.tell_abort(word, reason);
    pump(*peer);
  }
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

bool HostsEndpoint::has_reason(uint32_t word) const {
  if (word == heard_word_ || !local_->reason_of_end(word).empty()) return true;
  const Peer* origin = by_rank_[abort_rank(word)];
  if (origin == nullptr) return true;
  const Channel& channel = origin->channel;
  return channel.inbox().abort_word() != 0 || (channel.connected() && !channel.open());
}

// A rank of this host may have heard of it first, and before its reason could be read here.
void HostsEndpoint::await_reason(uint32_t word) const {
  const int64_t end_ns = readiness_->now_ns() + kReasonNs;
  std::vector<uint32_t> ready;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const_cast<HostsEndpoint*>(this)->pump_all();
      if (has_reason(word)) return;
    }
    if (readiness_->now_ns() > end_ns) return;
    readiness_->wait(kSleepNsMax, ready);
  }
}

// As its rank has said it, or others have.
std::string HostsEndpoint::reason_of(uint32_t word) const {
  if (word == heard_word_) return heard_reason_;
  if (std::string reason = local_->reason_of_end(word); !reason.empty()) return reason;
  const Peer* origin = by_rank_[abort_rank(word)];
  const bool is_its_own = origin != nullptr && gives_reason(abort_cause(word));
  return is_its_own ? origin->channel.inbox().reason() : "";
}

Status HostsEndpoint::abort_status() const {
  const uint32_t word = own_abort_word();
  const uint32_t rank = abort_rank(word);
  const AbortCause why = abort_cause(word);
  if (rank >= world_size()) return local_->abort_status();
  if (gives_reason(why) && by_rank_[rank] != nullptr) await_reason(word);
  const std::lock_guard lock(mutex_);
  forget_memory();
  const std::string reason = reason_of(word);
  if (why == AbortCause::kLinkLost && !reason.empty()) return Status(SK_ERR_TRANSPORT, reason);
  if (why == AbortCause::kPeerLeft && !reason.empty()) return Status(SK_ERR_PEER_LOST, reason);
  if (by_rank_[rank] == nullptr) return local_->abort_status();
  const Peer& peer = *by_rank_[rank];
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

}  // namespace sk::stream
