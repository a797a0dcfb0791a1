#include "transport/tcp/late.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "lib/base/descriptors.h"
#include "transport/bootstrap/kinds.h"

namespace sk::tcp {
namespace {

constexpr size_t kDialsMax = 8;    // At once.
constexpr size_t kAcceptsMax = 4;  // In one go: a handshake takes its time of whoever drives.
constexpr size_t kStepsMax = 4;    // Likewise.
constexpr size_t kStrangersMax = 64;
constexpr size_t kExpectedMax = 192;
// A rank that has freed its communicator, or died, does not listen: of a death others tell sooner.
constexpr int64_t kRefusedNs = 300 * kMs;
// Times the silence of a stream. To each host there is one, which finds sooner that it is gone:
// what goes unanswered here alone is a port that is closed by a firewall, or a storm of dials.
constexpr int64_t kPatience = 5;
constexpr size_t kDialsToTell = 4;  // Of fewer no silence is told: their turn may have come late.
// Somebody else may listen where the rank did; of a rank that lets nobody in for so long it is
// true.
constexpr int64_t kTurnedAwayNs = 10'000 * kMs;
constexpr int64_t kNoRoomNs = 1'000 * kMs;  // Descriptors may come free.
constexpr int64_t kNoKnocksNs = 50 * kMs;   // Meanwhile nobody is let in.
constexpr int64_t kTickNs = 50 * kMs;       // While somebody is wanted.
constexpr int64_t kLookAfterNs = 250 * kMs;
constexpr uint64_t kDescriptorsMore = 64;  // Where the limit can be raised.
constexpr uint64_t kListener = 0;          // In the place of a connection's number.

std::vector<int> by_number(uint32_t world_size) {
  std::vector<int> named(world_size);
  std::iota(named.begin(), named.end(), 0);
  return named;
}

}  // namespace

LateJoiner::LateJoiner(LateInput input, Epoll& endpoints, int epoll)
    : in_(std::move(input)),
      endpoints_(endpoints),
      epoll_(epoll),
      pairing_({.rank = in_.rank,
                .world_size = in_.world_size,
                .addresses = in_.addresses,
                .listeners = in_.listeners,
                .key = in_.key,
                .config = in_.config,
                .named = by_number(in_.world_size),
                .dials_max = kDialsMax,
                .accepts_max = kAcceptsMax,
                .strangers_max = kStrangersMax,
                .expected_max = kExpectedMax}) {
  for (const uint32_t peer : in_.peers) pairing_.add(peer);
}

LateJoiner::~LateJoiner() {
  pairing_.connections().clear();
  close(epoll_);
}

Result<std::unique_ptr<LateJoiner>> LateJoiner::make(LateInput input, Epoll& endpoints) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return system_error("epoll_create1()");
  std::unique_ptr<LateJoiner> joiner(new LateJoiner(std::move(input), endpoints, epoll));
  for (const SocketPtr& listener : joiner->in_.listeners) {
    epoll_event entry = {.events = EPOLLIN, .data = {.u64 = kListener}};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener->fd(), &entry) != 0)
      return system_error("epoll_ctl()");
  }
  // want() is called where nothing may fail.
  joiner->wanted_.reserve(joiner->in_.peers.size());
  SK_RETURN_IF_ERROR(endpoints.add_joiner(epoll));
  return joiner;
}

// Without a descriptor for who knocks, a listener would be ready for ever.
void LateJoiner::watch_listeners(bool knocks) {
  if (std::exchange(knocks_, knocks) == knocks) return;
  for (const SocketPtr& listener : in_.listeners) {
    epoll_event entry = {.events = knocks ? uint32_t{EPOLLIN} : 0u, .data = {.u64 = kListener}};
    epoll_ctl(epoll_, EPOLL_CTL_MOD, listener->fd(), &entry);
  }
}

void LateJoiner::want(uint32_t peer) {
  Pairing::Pair* const pair = pairing_.pair_of(peer);
  if (pair == nullptr || pair->met || pair->next_dial_ns != INT64_MAX) return;
  pair->next_dial_ns = 0;
  wanted_.push_back({.peer = peer, .silent = {}});
  next_ns_ = 0;
}

std::vector<stream::Joiner::News> LateJoiner::go_on() {
  see_who_is_ready();
  (void)pairing_.dial_some();  // What came of each dial is with its pair.
  if (std::exchange(knocked_, false)) pairing_.accept_some();
  pairing_.go_on(kStepsMax);
  const int64_t now_ns = bootstrap_clock_ns();
  look_for_room(now_ns);
  look_after(now_ns);
  std::vector<News> news;
  hand_over(news);
  give_up_some(now_ns, news);
  for (Pairing::Connection& connection : pairing_.connections()) watch(connection);
  plan_next(now_ns);
  return news;
}

void LateJoiner::see_who_is_ready() {
  std::array<epoll_event, 32> events;
  const int count = epoll_wait(epoll_, events.data(), int(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t number = events[size_t(i)].data.u64;
    if (number == kListener) knocked_ = true;
    for (Pairing::Connection& connection : pairing_.connections())
      if (connection.number == number) connection.ready = true;
  }
}

void LateJoiner::watch(Pairing::Connection& connection) {
  const uint32_t wanted = (connection.dialing ? 0u : uint32_t{EPOLLIN}) |
                          (connection.wants_room() ? uint32_t{EPOLLOUT} : 0u);
  if (connection.watched && connection.watched->events == wanted) return;
  epoll_event entry = {.events = wanted, .data = {.u64 = connection.number}};
  const int what = connection.watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(epoll_, what, connection.fd(), &entry) != 0) {
    connection.until_ns = 0;  // It will be given up, and dialled again.
    return;
  }
  if (!connection.watched)
    connection.watched = std::make_unique<Watched>(epoll_, connection.fd(), wanted);
  connection.watched->events = wanted;
}

void LateJoiner::look_for_room(int64_t now_ns) {
  Status no_room = pairing_.take_no_room();
  if (!no_room.ok()) {
    no_room_ = std::move(no_room);
    no_room_ns_ = now_ns;
    if (no_room_since_ns_ == 0) no_room_since_ns_ = now_ns;
    if (!wanted_.empty()) pairing_.drop_strangers();
    (void)make_room_for_descriptors(1, kDescriptorsMore, "a stream that was not there yet");
  } else if (now_ns - no_room_ns_ > kNoRoomNs / 2) {
    no_room_since_ns_ = 0;
  }
  watch_listeners(no_room_since_ns_ == 0 || now_ns - no_room_ns_ > kNoKnocksNs);
}

// A host may be cut off while its rank is to prove itself.
void LateJoiner::look_after(int64_t now_ns) {
  if (wanted_.empty() || now_ns - looked_after_ns_ < kLookAfterNs) return;
  looked_after_ns_ = now_ns;
  for (const Pairing::Connection& connection : pairing_.connections()) {
    if (!connection.dials() || !connection.greeting) continue;
    Status lost = connection.greeting->pipe().look_after();
    for (Wanted& each : wanted_)
      if (!lost.ok() && each.peer == connection.peer) each.silent = lost.clone();
  }
}

void LateJoiner::hand_over(std::vector<News>& news) {
  for (Pairing::Pair& pair : pairing_.pairs()) {
    if (!pair.met || pair.pipe == nullptr) continue;
    std::erase_if(wanted_, [&](const Wanted& each) { return each.peer == pair.rank; });
    Status watched = endpoints_.add(pair.rank, pair.pipe->fd());
    if (watched.ok()) {
      news.push_back({pair.rank, std::move(pair.where), std::move(pair.pipe), {}});
    } else {
      news.push_back({pair.rank, "", nullptr, std::move(watched)});
    }
    pair.pipe.reset();
    pair.tried = {};
    pair.refused = {};
  }
}

void LateJoiner::give_up_some(int64_t now_ns, std::vector<News>& news) {
  for (size_t i = 0; i < wanted_.size();) {
    Pairing::Pair& pair = *pairing_.pair_of(wanted_[i].peer);
    Status why = why_give_up(pair, wanted_[i], now_ns);
    if (why.ok()) {
      ++i;
      continue;
    }
    pairing_.drop_dials_of(pair);
    pair.next_dial_ns = INT64_MAX;
    pair.first_dial_ns = 0;
    pair.met = why.code() != SK_ERR_NO_MEMORY;  // Nor is it let in any more.
    news.push_back({pair.rank, "", nullptr, std::move(why)});
    wanted_.erase(wanted_.begin() + ptrdiff_t(i));
  }
}

Status LateJoiner::why_give_up(const Pairing::Pair& pair, const Wanted& wanted,
                               int64_t now_ns) const {
  if (!wanted.silent.ok()) return wanted.silent.clone();
  // It is there where it is about to be met.
  const bool is_here = std::ranges::any_of(pairing_.connections(), [&](const auto& each) {
    return each.greeting && (each.peer == pair.rank || each.greeting->peer() == pair.rank);
  });
  const size_t twice = 2 * in_.addresses[pair.rank].size();
  if (!is_here && pair.refused_since_ns != 0 && pair.refusals >= twice &&
      now_ns - pair.refused_since_ns > kRefusedNs)
    return Status(SK_ERR_PEER_LOST, pair.tried_text());
  if (!pair.dials && pair.no_room_since_ns != 0 && now_ns - pair.no_room_since_ns > kNoRoomNs)
    return no_room_.clone();
  if (!is_here && pair.turned_away_since_ns != 0 &&
      now_ns - pair.turned_away_since_ns > kTurnedAwayNs) {
    return error(SK_ERR_TRANSPORT, "whoever listens there has turned away all dials for {} ms: {}",
                 (now_ns - pair.turned_away_since_ns) / kMs, pair.tried_text());
  }
  // A rank that is to prove itself may take its time: it may have stopped. Nor is that one silent
  // whose turn has not come to be dialled, or to be heard.
  const bool greets = std::ranges::any_of(pairing_.connections(), [&](const auto& each) {
    return each.peer == pair.rank && (each.greeting || each.ready);
  });
  const int64_t silent_ms = (now_ns - std::max(pair.first_dial_ns, pair.answered_ns)) / kMs;
  if (greets || pair.next_address < kDialsToTell || pair.first_dial_ns == 0 ||
      silent_ms < kPatience * in_.config.silence_ms)
    return {};
  const std::string tried = pair.tried_text();
  return error(SK_ERR_TRANSPORT, "nothing has answered for {} ms{}{}", silent_ms,
               tried.empty() ? "" : ": ", tried);
}

void LateJoiner::plan_next(int64_t now_ns) {
  next_ns_ = wanted_.empty() ? INT64_MAX : now_ns + kTickNs;
  if (!knocks_) next_ns_ = std::min(next_ns_, now_ns + kNoKnocksNs);
  for (const Pairing::Connection& connection : pairing_.connections()) {
    if (connection.ready) next_ns_ = now_ns;
    if (!connection.is_proven()) next_ns_ = std::min(next_ns_, connection.until_ns);
  }
}

bool LateJoiner::settled() const {
  return std::ranges::none_of(pairing_.connections(), [](const Pairing::Connection& connection) {
    return connection.is_proven() ||
           (!connection.dials() && connection.greeting->peer() != UINT32_MAX);
  });
}

}  // namespace sk::tcp
