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

Status Pairing::dial_some() {
  const int64_t now = bootstrap_clock_ns();
  auto dials = size_t(std::count_if(connections_.begin(), connections_.end(),
                                    [](const Connection& each) { return each.dials(); }));
  for (Pair& pair : pairs_) {
    if (pair.met || pair.dials || now < pair.next_dial_ns || now >= pair.until_ns) continue;
    if (dials++ >= in_.dials_max) break;
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
    if (socket.status().code() == SK_ERR_NO_MEMORY) no_room_ = socket.status().clone();
    note(pair, pair.next_address - 1, socket.status().message(),
         socket.status().code() == SK_ERR_PEER_LOST);
    return {};
  }
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
  // The oldest ones go: a rank proves itself at once.
  auto strangers = size_t(std::count_if(connections_.begin(), connections_.end(),
                                        [](const Connection& each) { return !each.dials(); }));
  for (auto it = connections_.begin();
       it != connections_.end() && strangers > in_.strangers_max + pairs_.size();) {
    const bool goes = !it->dials() && !it->is_proven();
    it = goes ? connections_.erase(it) : std::next(it);
    strangers -= goes ? 1 : 0;
  }
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
    const bool late = bootstrap_clock_ns() > connection.until_ns;
    if (connection.over || (!connection.ready && !late)) continue;
    if (most-- == 0) break;
    const bool connects = connection.dialing && !connection.ready;
    connection.ready = false;
    // Late or not: what it waits for may have come.
    Status status = connects ? Status() : go_on(connection);
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
    connection.until_ns = bootstrap_clock_ns() + kStrangerNs;
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
  note(pair, pair.next_address - 1, fmt::format("{}: {}", connection.where, why.message()),
       why.code() == SK_ERR_PEER_LOST);
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
  if (std::ranges::find(pair.refused, false) != pair.refused.end())
    pair.refused_since_ns = 0;
  else if (pair.refused_since_ns == 0)
    pair.refused_since_ns = bootstrap_clock_ns();
}

}  // namespace sk::tcp
