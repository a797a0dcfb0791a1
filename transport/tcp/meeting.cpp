#include "transport/tcp/meeting.h"

#include <poll.h>

#include <algorithm>
#include <set>
#include <utility>

#include "transport/bootstrap/kinds.h"
#include "transport/tcp/pairing.h"

namespace sk::tcp {
namespace {

// For what the lower ranks dial: so long behind the last of them that came, for each connection
// that both sides dial costs two handshakes.
constexpr int64_t kHigherWaitsNs = 700 * kMs;
constexpr int64_t kLookNs = 100 * kMs;       // Between two looks at who is silent.
constexpr int64_t kRefusedNs = 8'000 * kMs;  // A rank that still meets listens.

std::vector<int> launched_as(const Bootstrap& bootstrap) {
  std::vector<int> named;
  for (int rank = 0; rank < bootstrap.world_size(); ++rank)
    named.push_back(bootstrap.launched_as(rank));
  return named;
}

class Meeting {
 public:
  explicit Meeting(const MeetingInput& input)
      : in_(input),
        begin_ns_(bootstrap_clock_ns()),
        pairing_({.rank = in_.rank,
                  .world_size = in_.world_size,
                  .addresses = in_.addresses,
                  .listeners = in_.listeners,
                  .key = in_.key,
                  .config = in_.config,
                  .named = launched_as(in_.bootstrap)}) {
    for (const uint32_t rank : in_.peers) {
      Pair& pair = pairing_.add(rank);
      pair.next_dial_ns = begin_ns_ + (in_.rank < rank ? 0 : kHigherWaitsNs);
      if (in_.bootstrap.of_survivors())
        pair.until_ns = in_.deadline_ns - unreachable_ns(in_.deadline_ns - begin_ns_);
    }
  }
  Result<Reached> run();

 private:
  using Pair = Pairing::Pair;
  using Connection = Pairing::Connection;

  bool done() {
    const int64_t now = bootstrap_clock_ns();
    return std::all_of(pairing_.pairs().begin(), pairing_.pairs().end(),
                       [&](const Pair& pair) { return pair.met || now >= pair.until_ns; });
  }
  void leave_it_to_the_lower();
  void look_who_is_silent();
  Status wait();
  Status nobody(int32_t code);

  const MeetingInput& in_;
  const int64_t begin_ns_;
  Pairing pairing_;
  std::set<uint32_t> silent_;  // As their connections of before are.
  int64_t next_look_ns_ = 0;
};

Result<Reached> Meeting::run() {
  SK_RETURN_IF_ERROR(in_.bootstrap.news());  // What came with the last gather makes nothing ready.
  while (!done()) {
    SK_RETURN_IF_ERROR(pairing_.dial_some());
    pairing_.accept_some();
    look_who_is_silent();
    if (pairing_.go_on()) leave_it_to_the_lower();
    if (!done()) SK_RETURN_IF_ERROR(wait());
  }
  Reached reached;
  for (Pair& pair : pairing_.pairs()) {
    if (silent_.contains(pair.rank) && !pair.met) reached.silent.push_back(pair.rank);
    if (pair.met) reached.met.push_back({pair.rank, std::move(pair.where), std::move(pair.pipe)});
  }
  return reached;
}

void Meeting::leave_it_to_the_lower() {
  const int64_t later_ns = bootstrap_clock_ns() + kHigherWaitsNs;
  for (Pair& pair : pairing_.pairs())
    if (pair.rank < in_.rank && pair.next_address == 0) pair.next_dial_ns = later_ns;
}

// Links that fail together are found one after the other.
void Meeting::look_who_is_silent() {
  const int64_t now = bootstrap_clock_ns();
  if (!in_.bootstrap.of_survivors() || now < next_look_ns_) return;
  next_look_ns_ = now + kLookNs;
  const int64_t until_ns = now + unreachable_ns(in_.deadline_ns - begin_ns_);
  for (Pair& pair : pairing_.pairs()) {
    if (pair.met || silent_.contains(pair.rank)) continue;
    if (in_.bootstrap.gone(int(pair.rank)) != Gone::kUnreachable) continue;
    silent_.insert(pair.rank);
    pair.until_ns = std::min(pair.until_ns, until_ns);
  }
}

Status Meeting::nobody(int32_t code) {
  std::string text;
  const int64_t now = bootstrap_clock_ns();
  for (const Pair& pair : pairing_.pairs()) {
    if (pair.met || now >= pair.until_ns) continue;
    const std::string tried = pair.tried_text();
    text = fmt::format("no way from rank {} to rank {} was found{}{}",
                       in_.bootstrap.launched_as(int(in_.rank)),
                       in_.bootstrap.launched_as(int(pair.rank)), tried.empty() ? "" : ": ", tried);
    break;
  }
  const Status& no_room = pairing_.no_room();
  if (!pairing_.stranger().ok()) text += "; " + pairing_.stranger().message();
  if (!no_room.ok()) text += "; " + no_room.message();
  return Status(no_room.ok() ? code : SK_ERR_NO_MEMORY, text);
}

Status Meeting::wait() {
  const int64_t now = bootstrap_clock_ns();
  if (now >= in_.deadline_ns) return nobody(SK_ERR_TRANSPORT);
  int64_t until =
      std::min(in_.deadline_ns, now + (in_.bootstrap.of_survivors() ? 1 : 10) * kLookNs);
  for (Pair& pair : pairing_.pairs()) {
    if (pair.met || now >= pair.until_ns) continue;
    const int64_t since_ns =
        pair.refused_since_ns != 0 ? pair.refused_since_ns : pair.turned_away_since_ns;
    const bool refused = since_ns != 0 && now - since_ns > kRefusedNs;
    if (refused && !in_.bootstrap.of_survivors()) return nobody(SK_ERR_PEER_LOST);
    if (refused) pair.until_ns = now;  // It has given up this one.
    until = std::min(until, pair.until_ns);
    if (!pair.dials) until = std::min(until, pair.next_dial_ns);
  }
  std::vector<pollfd> entries;
  const bool has_room = pairing_.take_no_room().ok();
  // Where no descriptor is left, whoever knocks is let in later.
  for (const SocketPtr& listener : in_.listeners)
    entries.push_back({listener->fd(), short(has_room ? POLLIN : 0), 0});
  const size_t first = entries.size();
  for (const Connection& connection : pairing_.connections()) {
    const int in = connection.dialing ? 0 : POLLIN;
    const int out = connection.wants_room() ? POLLOUT : 0;
    entries.push_back({connection.fd(), short(in | out), 0});
    until = std::min(until, connection.until_ns);
  }
  const size_t last = entries.size();
  in_.bootstrap.add_polls(entries);
  if (!has_room) until = std::min(until, now + 50 * kMs);
  SK_ASSIGN_OR_RETURN([[maybe_unused]] const int ready,
                      in_.bootstrap.cancel().poll(entries, std::max(kMs, until - now)));
  if (std::any_of(entries.begin() + int64_t(last), entries.end(),
                  [](const pollfd& entry) { return entry.revents != 0; })) {
    SK_RETURN_IF_ERROR(in_.bootstrap.news());
  }
  size_t at = first;
  for (Connection& connection : pairing_.connections())
    connection.ready = entries[at++].revents != 0;
  return {};
}

}  // namespace

Result<Reached> meet(const MeetingInput& input) { return Meeting(input).run(); }

}  // namespace sk::tcp
