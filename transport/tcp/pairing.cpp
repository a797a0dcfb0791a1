#include "transport/tcp/pairing.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "transport/bootstrap/kinds.h"

namespace sk::tcp {
namespace {

constexpr int64_t kDialNs = 400 * kMs;         // That has come to nothing is given up,
constexpr int64_t kDialNsMax = 3'200 * kMs;    // later each time: some networks are slow.
constexpr int64_t kAgainNs = 200 * kMs;        // Behind the last address.
constexpr int64_t kStrangerNs = 10'000 * kMs;  // To prove itself.
constexpr int64_t kDialerNs =
    8'000 * kMs;  // Gives up first: it must not adopt what the other drops.
constexpr int64_t kAtWorkNs = 1'000 * kMs;  // Then who is dialled may have stopped.

}  // namespace

Watched::~Watched() { epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr); }

std::string Pairing::Pair::tried_text() const {
  std::string text;
  for (const std::string& each : tried)
    if (!each.empty()) text += (text.empty() ? "" : "; ") + each;
  return text;
}

Pairing::Pairing(const PairingInput& input) : in_(input), at_(input.world_size, -1) {}

Pairing::Pair& Pairing::add(uint32_t rank) {
  at_[rank] = int32_t(pairs_.size());
  ++unmet_;
  Pair& pair = pairs_.emplace_back();
  pair.rank = rank;
  return pair;
}

// In turn: who never answers does not keep others from being dialled.
Status Pairing::dial_some() {
  const int64_t now = bootstrap_clock_ns();
  auto dials = size_t(std::ranges::count_if(connections_, [&](const Connection& each) {
    return each.dials() && (each.dialing || each.until_ns - now > kDialerNs - kAtWorkNs);
  }));
  const size_t first = next_pair_;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const size_t at = (first + i) % pairs_.size();
    Pair& pair = pairs_[at];
    if (pair.met || pair.dials || now < pair.next_dial_ns || now >= pair.until_ns) continue;
    if (dials++ >= in_.dials_max) break;
    next_pair_ = at + 1;
    SK_RETURN_IF_ERROR(dial(pair));
  }
  return {};
}

// The next of its addresses; behind the last one from the first again.
Status Pairing::dial(Pair& pair) {
  const std::vector<Address>& addresses = in_.addresses[pair.rank];
  if (addresses.empty()) {
    pair.next_dial_ns = bootstrap_clock_ns() + kAgainNs;
    return error(SK_ERR_TRANSPORT, "rank {} gave no address", in_.named[pair.rank]);
  }
  if (pair.first_dial_ns == 0) pair.first_dial_ns = bootstrap_clock_ns();
  const size_t times = pair.next_address / addresses.size();
  const Address& address = addresses[pair.next_address++ % addresses.size()];
  pair.next_dial_ns =
      bootstrap_clock_ns() + (pair.next_address % addresses.size() == 0 ? kAgainNs : 0);
  Connection connection = connection_to(
      pair.rank, address.text(),
      bootstrap_clock_ns() + std::min(kDialNsMax, kDialNs << std::min<size_t>(times, 3)));
  bool under_way = false;
  Result<SocketPtr> socket = tcp::dial(address, &under_way);
  if (!socket.ok()) {
    if (socket.status().code() == SK_ERR_NO_MEMORY) {
      no_room_ = socket.status().clone();
      if (pair.no_room_since_ns == 0) pair.no_room_since_ns = bootstrap_clock_ns();
    }
    note(pair, pair.next_address - 1, socket.status().message(),
         socket.status().code() == SK_ERR_PEER_LOST);
    return {};
  }
  pair.no_room_since_ns = 0;
  connection.ready = !under_way;
  if (under_way) {
    connection.dialing = std::move(socket).value();
  } else {
    SK_RETURN_IF_ERROR(greet(connection, std::move(socket).value()));
  }
  pair.dials = true;
  connections_.push_back(std::move(connection));
  return {};
}

void Pairing::accept_some() {
  for (const SocketPtr& listener : in_.listeners) {
    for (size_t i = 0; i < in_.accepts_max; ++i) {
      SocketPtr socket = accept_one(*listener, &no_room_);
      if (!socket) break;
      Connection connection = connection_to(UINT32_MAX, "", bootstrap_clock_ns() + kStrangerNs);
      if (greet(connection, std::move(socket)).ok()) connections_.push_back(std::move(connection));
    }
  }
  // The oldest ones go: a rank proves itself at once. First those that have not said who they are.
  auto strangers = size_t(std::count_if(connections_.begin(), connections_.end(),
                                        [](const Connection& each) { return !each.dials(); }));
  const size_t most = in_.strangers_max + std::min(unmet_, in_.expected_max);
  for (const bool also_named : {false, true}) {
    for (auto it = connections_.begin(); it != connections_.end() && strangers > most;) {
      const bool goes = it->is_stranger() && (also_named || it->greeting->peer() == UINT32_MAX);
      it = goes ? connections_.erase(it) : std::next(it);
      strangers -= goes ? 1 : 0;
    }
  }
}

void Pairing::drop_strangers() {
  std::erase_if(connections_, [](const Connection& each) { return each.is_stranger(); });
}

Pairing::Connection Pairing::connection_to(uint32_t peer, std::string where, int64_t until_ns) {
  Connection connection;
  connection.peer = peer;
  connection.where = std::move(where);
  connection.until_ns = until_ns;
  connection.number = ++numbers_;
  return connection;
}

Status Pairing::greet(Connection& connection, SocketPtr socket) {
  std::unique_ptr<stream::Pipe> pipe = make_pipe(std::move(socket), in_.config.silence_ms);
  if (in_.config.wrap) {
    SK_ASSIGN_OR_RETURN(pipe, in_.config.wrap(std::move(pipe), connection.dials(), in_.key.bytes));
  }
  SK_ASSIGN_OR_RETURN(connection.greeting,
                      connection.dials()
                          ? Greeting::dial(in_.key, in_.rank, connection.peer, std::move(pipe))
                          : Greeting::accept(in_.key, in_.rank, in_.world_size, std::move(pipe)));
  return {};
}

bool Pairing::go_on(size_t most) {
  const size_t before = unmet_;
  for (Connection& connection : connections_) {
    if (!connection.dialing && !connection.greeting)  // Memory ran out in between.
      end(connection, Status(SK_ERR_NO_MEMORY, "no memory for its greeting"));
    const bool late = !connection.is_proven() && bootstrap_clock_ns() > connection.until_ns;
    if (connection.over || (!connection.ready && !late)) continue;
    if (most-- == 0) break;
    // What an accepted one or a dial waits for may have come, late or not. Of a greeting that was
    // dialled the other side may have thought so, too, and dropped it.
    const bool greets_late = late && connection.greeting;
    const bool goes_on = greets_late ? !connection.dials() : connection.ready;
    connection.ready = false;
    Status status = goes_on ? go_on(connection) : Status();
    if (status.ok() && late && !connection.over && !connection.is_proven())
      status = Status(SK_ERR_TIMEOUT, "no answer");
    if (!status.ok()) end(connection, status);
  }
  connections_.remove_if([](const Connection& connection) { return connection.over; });
  return unmet_ != before;
}

Status Pairing::go_on(Connection& connection) {
  if (connection.dialing) {
    SK_RETURN_IF_ERROR(dialed(*connection.dialing));
    Pair& pair = *pair_of(connection.peer);
    note(pair, pair.next_address - 1, "", false);
    pair.answered_ns = bootstrap_clock_ns();
    connection.until_ns = bootstrap_clock_ns() + kDialerNs;
    SK_RETURN_IF_ERROR(greet(connection, std::move(connection.dialing)));
  }
  SK_ASSIGN_OR_RETURN(Greeting::State state, connection.greeting->go_on());
  if (state == Greeting::State::kUnderWay) return {};
  Pair* pair = pair_of(connection.greeting->peer());
  if (pair == nullptr || pair->met) {
    connection.over = true;  // The pair has one already.
    return {};
  }
  if (state == Greeting::State::kProven && in_.rank < pair->rank) {
    SK_RETURN_IF_ERROR(connection.greeting->choose());
    state = Greeting::State::kChosen;
  }
  if (state == Greeting::State::kChosen && !connection.greeting->wants_room()) adopt(connection);
  return {};
}

void Pairing::adopt(Connection& connection) {
  Pair& pair = *pair_of(connection.greeting->peer());
  pair.where = !connection.where.empty() || in_.addresses[pair.rank].empty()
                   ? connection.where
                   : in_.addresses[pair.rank][0].text();
  pair.pipe = connection.greeting->take_pipe();
  pair.met = true;
  --unmet_;
  connection.over = true;
  for (Connection& other : connections_)
    if (&other != &connection && other.peer == pair.rank) other.over = true;
}

void Pairing::end(Connection& connection, const Status& why) {
  connection.over = true;
  if (!connection.dials()) {
    if (why.code() == SK_ERR_TRUST) stranger_ = why.clone();
    return;
  }
  Pair& pair = *pair_of(connection.peer);
  pair.dials = false;
  // Who took the dial and ends it may be the peer, which has another one of this pair.
  const bool refused = why.code() == SK_ERR_PEER_LOST, listens = connection.greeting != nullptr;
  note(pair, pair.next_address - 1, fmt::format("{}: {}", connection.where, why.message()),
       refused && !listens);
  const bool turned_away = listens && (refused || why.code() == SK_ERR_TRUST);
  if (!turned_away) {
    pair.turned_away_since_ns = 0;
  } else if (pair.turned_away_since_ns == 0) {
    pair.turned_away_since_ns = bootstrap_clock_ns();
  }
}

void Pairing::drop_dials_of(Pair& pair) {
  std::erase_if(connections_, [&](const Connection& each) { return each.peer == pair.rank; });
  pair.dials = false;
}

// An address may be that of a device which every host has, so one that refuses says nothing of the
// others.
void Pairing::note(Pair& pair, size_t address, std::string text, bool refused) {
  const size_t addresses = in_.addresses[pair.rank].size();
  pair.tried.resize(addresses);
  pair.refused.resize(addresses);
  pair.tried[address % addresses] = std::move(text);
  pair.refused[address % addresses] = refused;
  if (std::ranges::find(pair.refused, false) != pair.refused.end()) {
    pair.refused_since_ns = 0;
    pair.refusals = 0;
    return;
  }
  ++pair.refusals;
  if (pair.refused_since_ns == 0) pair.refused_since_ns = bootstrap_clock_ns();
}

}  // namespace sk::tcp
