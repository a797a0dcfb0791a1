#include "transport/tcp/meeting.h"

#include <poll.h>

#include <algorithm>
#include <list>
#include <utility>

#include "transport/bootstrap/kinds.h"

namespace sk::tcp {
namespace {

constexpr int64_t kMs = 1'000'000;
// For what the lower ranks dial: so long behind the last of them that came, for each connection
// that both sides dial costs two handshakes.
constexpr int64_t kHigherWaitsNs = 700 * kMs;
constexpr int64_t kDialNs = 400 * kMs;         // That has come to nothing is given up,
constexpr int64_t kDialNsMax = 3'200 * kMs;    // later each time: some networks are slow.
constexpr int64_t kAgainNs = 200 * kMs;        // Behind the last address.
constexpr int64_t kLookNs = 100 * kMs;         // Between two looks at who is silent.
constexpr int64_t kStrangerNs = 10'000 * kMs;  // To prove itself.
constexpr int64_t kRefusedNs = 8'000 * kMs;    // A rank that still meets listens.
constexpr size_t kStrangersMax = 256;          // More than the ranks that are still missing.
constexpr size_t kDialsMax = 128;              // At once: each takes a descriptor.

class Meeting {
 public:
  explicit Meeting(const MeetingInput& input) : in_(input), begin_ns_(bootstrap_clock_ns()) {
    for (const uint32_t rank : in_.peers) {
      Pair& pair = pairs_.emplace_back();
      pair.rank = rank;
      pair.next_dial_ns = begin_ns_ + (in_.rank < rank ? 0 : kHigherWaitsNs);
      if (in_.bootstrap.of_survivors())
        pair.until_ns = in_.deadline_ns - unreachable_ns(in_.deadline_ns - begin_ns_);
    }
  }
  Result<Reached> run();

 private:
  struct Connection {
    SocketPtr dialing;  // Until it stands.
    std::unique_ptr<Greeting> greeting;
    uint32_t peer = UINT32_MAX;  // Of a dial.
    std::string where;
    int64_t until_ns = 0;
    bool ready = true;
    bool over = false;
    int fd() const { return dialing ? dialing->fd() : greeting->pipe().fd(); }
    bool dials() const { return peer != UINT32_MAX; }
  };
  struct Pair {
    uint32_t rank = 0;
    std::unique_ptr<stream::Pipe> pipe;
    std::string where;
    size_t next_address = 0;
    int64_t next_dial_ns = 0;
    bool dials = false;              // A dial is under way.
    bool silent = false;             // As its connection of before is.
    int64_t until_ns = INT64_MAX;    // Then it is given up, and the meeting goes on without it.
    std::vector<std::string> tried;  // By address, what came of the last dial,
    std::vector<bool> refused;       // and whether nobody listens there.
    int64_t refused_since_ns = 0;    // At none of them; 0: not so.
  };

  bool done() const {
    const int64_t now = bootstrap_clock_ns();
    return std::all_of(pairs_.begin(), pairs_.end(), [&](const Pair& pair) {
      return pair.pipe != nullptr || now >= pair.until_ns;
    });
  }
  // The peer may have chosen it: it stays while the meeting lasts.
  static bool is_proven(const Connection& connection) {
    return connection.greeting && connection.greeting->state() != Greeting::State::kUnderWay;
  }
  int launched_as(uint32_t rank) const { return in_.bootstrap.launched_as(int(rank)); }
  Pair* pair_of(uint32_t rank) {
    const auto it = std::find_if(pairs_.begin(), pairs_.end(),
                                 [&](const Pair& pair) { return pair.rank == rank; });
    return it == pairs_.end() ? nullptr : &*it;
  }
  Status dial_some();
  Status dial(Pair& pair);
  void accept_some();
  Status greet(Connection& connection, SocketPtr socket);
  Status go_on(Connection& connection);
  void end(Connection& connection, const Status& why);
  void adopt(Connection& connection);
  Status wait();
  void note(Pair& pair, size_t address, std::string text, bool refused);
  void look_who_is_silent();
  Status nobody(int32_t code) const;

  const MeetingInput& in_;
  const int64_t begin_ns_;
  std::vector<Pair> pairs_;
  std::list<Connection> connections_;
  int64_t next_look_ns_ = 0;
  Status stranger_;  // The last sentence about one that could not prove itself.
  Status no_room_;
};

Result<Reached> Meeting::run() {
  SK_RETURN_IF_ERROR(in_.bootstrap.news());  // What came with the last gather makes nothing ready.
  while (!done()) {
    SK_RETURN_IF_ERROR(dial_some());
    accept_some();
    look_who_is_silent();
    for (Connection& connection : connections_) {
      const bool late = bootstrap_clock_ns() > connection.until_ns;
      if (connection.over || (!connection.ready && !late)) continue;
      const bool connects = connection.dialing && !connection.ready;
      // Late or not: what it waits for may have come.
      Status status = connects ? Status() : go_on(connection);
      if (status.ok() && late && !connection.over && !is_proven(connection))
        status = Status(SK_ERR_TIMEOUT, "no answer");
      if (!status.ok()) end(connection, status);
    }
    connections_.remove_if([](const Connection& connection) { return connection.over; });
    if (!done()) SK_RETURN_IF_ERROR(wait());
  }
  Reached reached;
  for (Pair& pair : pairs_) {
    if (pair.silent && !pair.pipe) reached.silent.push_back(pair.rank);
    if (pair.pipe) reached.met.push_back({pair.rank, std::move(pair.where), std::move(pair.pipe)});
  }
  return reached;
}

Status Meeting::dial_some() {
  const int64_t now = bootstrap_clock_ns();
  auto dials = size_t(std::count_if(connections_.begin(), connections_.end(),
                                    [](const Connection& each) { return each.dials(); }));
  for (Pair& pair : pairs_) {
    if (pair.pipe || pair.dials || now < pair.next_dial_ns || now >= pair.until_ns) continue;
    if (dials++ >= kDialsMax) break;
    SK_RETURN_IF_ERROR(dial(pair));
  }
  return {};
}

// The next of its addresses; behind the last one from the first again.
Status Meeting::dial(Pair& pair) {
  const std::vector<Address>& addresses = in_.addresses[pair.rank];
  if (addresses.empty())
    return error(SK_ERR_TRANSPORT, "rank {} gave no address", launched_as(pair.rank));
  const size_t times = pair.next_address / addresses.size();
  const Address& address = addresses[pair.next_address++ % addresses.size()];
  pair.next_dial_ns =
      bootstrap_clock_ns() + (pair.next_address % addresses.size() == 0 ? kAgainNs : 0);
  Connection connection = {.dialing = nullptr,
                           .greeting = nullptr,
                           .peer = pair.rank,
                           .where = address.text(),
                           .until_ns = bootstrap_clock_ns() +
                                       std::min(kDialNsMax, kDialNs << std::min<size_t>(times, 3))};
  bool under_way = false;
  Result<SocketPtr> socket = tcp::dial(address, &under_way);
  if (!socket.ok()) {
    if (socket.status().code() == SK_ERR_NO_MEMORY) no_room_ = socket.status().clone();
    note(pair, pair.next_address - 1, socket.status().message(),
         socket.status().code() == SK_ERR_PEER_LOST);
    return {};
  }
  pair.dials = true;
  connection.ready = !under_way;
  if (under_way) {
    connection.dialing = std::move(socket).value();
  } else {
    SK_RETURN_IF_ERROR(greet(connection, std::move(socket).value()));
  }
  connections_.push_back(std::move(connection));
  return {};
}

void Meeting::accept_some() {
  for (const SocketPtr& listener : in_.listeners) {
    for (size_t i = 0; i < kStrangersMax; ++i) {
      SocketPtr socket = accept_one(*listener, &no_room_);
      if (!socket) break;
      Connection connection = {.dialing = nullptr,
                               .greeting = nullptr,
                               .where = "",
                               .until_ns = bootstrap_clock_ns() + kStrangerNs};
      if (greet(connection, std::move(socket)).ok()) connections_.push_back(std::move(connection));
    }
  }
  // The oldest ones go: a rank proves itself at once.
  auto strangers = size_t(std::count_if(connections_.begin(), connections_.end(),
                                        [](const Connection& each) { return !each.dials(); }));
  for (auto it = connections_.begin();
       it != connections_.end() && strangers > kStrangersMax + in_.peers.size();) {
    const bool goes = !it->dials() && !is_proven(*it);
    it = goes ? connections_.erase(it) : std::next(it);
    strangers -= goes ? 1 : 0;
  }
}

Status Meeting::greet(Connection& connection, SocketPtr socket) {
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

Status Meeting::go_on(Connection& connection) {
  if (connection.dialing) {
    SK_RETURN_IF_ERROR(dialed(*connection.dialing));
    Pair& pair = *pair_of(connection.peer);
    note(pair, pair.next_address - 1, "", false);
    connection.until_ns = bootstrap_clock_ns() + kStrangerNs;
    SK_RETURN_IF_ERROR(greet(connection, std::move(connection.dialing)));
  }
  SK_ASSIGN_OR_RETURN(Greeting::State state, connection.greeting->go_on());
  if (state == Greeting::State::kUnderWay) return {};
  Pair* pair = pair_of(connection.greeting->peer());
  if (pair == nullptr || pair->pipe) {
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

void Meeting::adopt(Connection& connection) {
  Pair& pair = *pair_of(connection.greeting->peer());
  pair.where = !connection.where.empty() || in_.addresses[pair.rank].empty()
                   ? connection.where
                   : in_.addresses[pair.rank][0].text();
  pair.pipe = connection.greeting->take_pipe();
  connection.over = true;
  for (Connection& other : connections_)
    if (&other != &connection && other.peer == pair.rank) other.over = true;
  const int64_t later_ns = bootstrap_clock_ns() + kHigherWaitsNs;
  for (Pair& other : pairs_)
    if (other.rank < in_.rank && other.next_address == 0) other.next_dial_ns = later_ns;
}

void Meeting::end(Connection& connection, const Status& why) {
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

// An address may be that of a device which every host has, so one that refuses says nothing of the
// others.
void Meeting::note(Pair& pair, size_t address, std::string text, bool refused) {
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

// Links that fail together are found one after the other.
void Meeting::look_who_is_silent() {
  const int64_t now = bootstrap_clock_ns();
  if (!in_.bootstrap.of_survivors() || now < next_look_ns_) return;
  next_look_ns_ = now + kLookNs;
  const int64_t until_ns = now + unreachable_ns(in_.deadline_ns - begin_ns_);
  for (Pair& pair : pairs_) {
    if (pair.pipe || pair.silent) continue;
    pair.silent = in_.bootstrap.gone(int(pair.rank)) == Gone::kUnreachable;
    if (pair.silent) pair.until_ns = std::min(pair.until_ns, until_ns);
  }
}

Status Meeting::nobody(int32_t code) const {
  std::string text;
  const int64_t now = bootstrap_clock_ns();
  for (const Pair& pair : pairs_) {
    if (pair.pipe || now >= pair.until_ns) continue;
    std::string tried;
    for (const std::string& each : pair.tried)
      if (!each.empty()) tried += (tried.empty() ? "" : "; ") + each;
    text = fmt::format("no way from rank {} to rank {} was found{}{}", launched_as(in_.rank),
                       launched_as(pair.rank), tried.empty() ? "" : ": ", tried);
    break;
  }
  if (!stranger_.ok()) text += "; " + stranger_.message();
  if (!no_room_.ok()) text += "; " + no_room_.message();
  return Status(no_room_.ok() ? code : SK_ERR_NO_MEMORY, text);
}

Status Meeting::wait() {
  const int64_t now = bootstrap_clock_ns();
  if (now >= in_.deadline_ns) return nobody(SK_ERR_TRANSPORT);
  int64_t until =
      std::min(in_.deadline_ns, now + (in_.bootstrap.of_survivors() ? 1 : 10) * kLookNs);
  for (Pair& pair : pairs_) {
    if (pair.pipe || now >= pair.until_ns) continue;
    const bool refused = pair.refused_since_ns != 0 && now - pair.refused_since_ns > kRefusedNs;
    if (refused && !in_.bootstrap.of_survivors()) return nobody(SK_ERR_PEER_LOST);
    if (refused) pair.until_ns = now;  // It has given up this one.
    until = std::min(until, pair.until_ns);
    if (!pair.dials) until = std::min(until, pair.next_dial_ns);
  }
  std::vector<pollfd> entries;
  // Where no descriptor is left, whoever knocks is let in later.
  for (const SocketPtr& listener : in_.listeners)
    entries.push_back({listener->fd(), short(no_room_.ok() ? POLLIN : 0), 0});
  const size_t first = entries.size();
  for (const Connection& connection : connections_) {
    const bool out = connection.dialing || connection.greeting->wants_room();
    entries.push_back({connection.fd(),
                       short(connection.dialing ? POLLOUT
                             : out              ? POLLIN | POLLOUT
                                                : POLLIN),
                       0});
    until = std::min(until, connection.until_ns);
  }
  const size_t last = entries.size();
  in_.bootstrap.add_polls(entries);
  if (!no_room_.ok()) until = std::min(until, now + 50 * kMs);
  no_room_ = {};
  SK_ASSIGN_OR_RETURN([[maybe_unused]] const int ready,
                      in_.bootstrap.cancel().poll(entries, std::max(kMs, until - now)));
  if (std::any_of(entries.begin() + int64_t(last), entries.end(),
                  [](const pollfd& entry) { return entry.revents != 0; })) {
    SK_RETURN_IF_ERROR(in_.bootstrap.news());
  }
  size_t at = first;
  for (Connection& connection : connections_) connection.ready = entries[at++].revents != 0;
  return {};
}

}  // namespace

Result<Reached> meet(const MeetingInput& input) { return Meeting(input).run(); }

}  // namespace sk::tcp
