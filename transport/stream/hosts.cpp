// Of an endpoint over streams, where ranks of other hosts are connected late: how they are, and how
// ranks that have no stream to each other know what they are at.
#include <algorithm>
#include <utility>

#include "transport/stream/endpoint.h"
#include "transport/stream/peer.h"

namespace sk::stream {
namespace {

// Between two questions, at least; in a long wait a quarter of what it has lasted.
constexpr int64_t kAskNs = 100'000'000;

}  // namespace

HostsEndpoint::Host& HostsEndpoint::host_of(uint32_t least) {
  const auto found =
      std::ranges::find_if(hosts_, [&](const auto& host) { return host->rank == least; });
  if (found != hosts_.end()) return **found;
  return *hosts_.emplace_back(std::make_unique<Host>(least));
}

void HostsEndpoint::want(uint32_t rank) {
  if (joiner_ == nullptr) return;
  joiner_->want(rank);
  readiness_->wake();  // Nobody may wait when the call is over that has sent it something.
}

int64_t HostsEndpoint::rest_ns() const {
  return joiner_ == nullptr ? INT64_MAX : joiner_->next_ns() - readiness_->now_ns();
}

int64_t HostsEndpoint::rest_ns(int64_t most_ns) {
  if (!joins_late_) return most_ns;
  const std::lock_guard lock(mutex_);
  return std::clamp<int64_t>(rest_ns(), 0, most_ns);
}

bool HostsEndpoint::join_some() {
  if (joiner_ == nullptr || forked()) return false;
  std::vector<Joiner::News> news = joiner_->go_on();
  for (Joiner::News& each : news) take(std::move(each));
  if (!news.empty()) came_.fetch_add(1, std::memory_order_relaxed);
  return !news.empty();
}

void HostsEndpoint::take(Joiner::News news) {
  Peer& peer = *by_rank_[news.peer];
  peer.wanted_room = false;  // As the Readiness knows it from here on.
  if (news.pipe != nullptr) {
    peer.where = std::move(news.where);
    peer.channel.connect(std::move(news.pipe));
    tell_newcomer(peer);
    if (peer.channel.open() && peer.channel.pipe().holds_input()) more_.push_back(peer.rank);
  } else if (news.why.code() != SK_ERR_NO_MEMORY) {
    peer.channel.give_up(std::move(news.why));
    note_end(peer);
  } else if (own_abort_word() == 0) {
    local_->abort(AbortCause::kAborted, rank_,
                  fmt::format("rank {} cannot connect to rank {} at {}: {}", rank_, peer.rank,
                              peer.where, news.why.message()));
    tell_abort();
  }
}

// What the others have been told before there was a stream to this one.
void HostsEndpoint::tell_newcomer(Peer& peer) {
  const uint32_t word = own_abort_word();
  const bool named = peer.rank == abort_rank(word) && abort_cause(word) != AbortCause::kLinkLost;
  if (told_abort_ && !named) peer.channel.tell_abort(word, reason_of(word));
  if (told_awaited_ != 0) peer.channel.tell_awaited(told_awaited_);
  if (left_) peer.channel.leave();
  pump(peer);
}

void HostsEndpoint::tell_awaited(std::optional<uint32_t> rank) noexcept {
  Endpoint::tell_awaited(rank);
  const std::lock_guard lock(mutex_);
  const uint32_t word = header().awaited.load(std::memory_order_relaxed);
  // At the end of a wait, too, whose call does not depend on it.
  [[maybe_unused]] const Status told = caught([&]() -> Status {
    if (joins_late_) ask_hosts(word != 0);
    if (std::exchange(told_awaited_, word) == word) return {};
    for (const auto& peer : peers_) {
      peer->channel.tell_awaited(word);
      pump(*peer);
    }
    return {};
  });
}

// One of each host, in a wait that has become long: whoever drives its endpoint answers, also where
// it is in no call.
void HostsEndpoint::ask_hosts(bool waits) {
  const int64_t now_ns = readiness_->now_ns();
  if (!waits || asks_since_ns_ == 0) {
    asks_since_ns_ = waits ? now_ns : 0;
    asked_ns_ = 0;
    for (const auto& host : hosts_) host->asked = nullptr;
    if (!waits) return;
  }
  if (now_ns - asked_ns_ < std::max(kAskNs, (now_ns - asks_since_ns_) / 4)) return;
  asked_ns_ = now_ns;
  for (const auto& host : hosts_) {
    if (host->asked != nullptr) host->silent = host->asked->rank;
    const auto of_host = std::ranges::find_if(peers_, [&](const auto& peer) {
      return peer->host == host.get() && peer->channel.connected() && peer->channel.open();
    });
    host->asked = of_host == peers_.end() ? nullptr : of_host->get();
    if (host->asked == nullptr) continue;
    host->asked->channel.ask();
    pump(*host->asked);
  }
}

void HostsEndpoint::answer(Peer& peer) {
  std::vector<RankLine> lines;
  for (uint32_t rank = 0; rank < world_size(); ++rank) {
    if (by_rank_[rank] != nullptr) continue;
    const std::optional<uint32_t> awaited = local_->awaited_by(rank);
    lines.push_back({rank, awaited ? *awaited + 1 : 0, local_->entered_by(rank)});
  }
  peer.channel.tell(lines);
  note_room(peer.rank);
}

void HostsEndpoint::note_told(Peer& by) {
  if (by.channel.inbox().take_asked()) answer(by);
  const std::vector<RankLine> lines = by.channel.inbox().take_told();
  if (lines.empty() || by.host == nullptr) return;
  by.host->asked = nullptr;
  by.host->silent = UINT32_MAX;
  for (const RankLine& line : lines) {
    Peer* const peer = by_rank_[line.rank];
    if (peer == nullptr || peer->host != by.host) continue;  // Of its own host alone it can know.
    if (line.entered > peer->told_entered) peer->told_entered = line.entered;
    peer->told_awaited = line.awaited;
  }
}

// Where nobody of its host answers, that is who was asked there, who may have stopped: as far as
// can be known the others are not who is waited for.
uint64_t HostsEndpoint::entered_by(uint32_t peer) const {
  const Peer* const far = by_rank_[peer];
  if (far == nullptr) return local_->entered_by(peer);
  const uint64_t known = std::max<uint64_t>(far->channel.entered(), far->told_entered);
  if (far->host == nullptr || far->channel.connected()) return known;
  return far->host->silent == UINT32_MAX ? known : UINT64_MAX;
}

std::optional<uint32_t> HostsEndpoint::awaited_by(uint32_t peer) const {
  const Peer* const far = by_rank_[peer];
  if (far == nullptr) return local_->awaited_by(peer);
  const std::lock_guard lock(mutex_);
  const uint32_t word =
      far->channel.connected() ? far->channel.inbox().awaited() : far->told_awaited.load();
  return word == 0 ? std::nullopt : std::optional(word - 1);
}

}  // namespace sk::stream
