#include <poll.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "transport/shm/control.h"
#include "transport/shm/join.h"
#include "transport/shm/process_name.h"

namespace sk::shm {
namespace {

using std::chrono::milliseconds;

// Fewer than may be silent: each connection is listened to before it can be the oldest.
constexpr int kAcceptsAtOnce = 64;
constexpr size_t kSilentMax = 64;

// For telling the others why nothing comes of it.
constexpr milliseconds kFarewell{200};

class Leader {
 public:
  Leader(const JoinInput& input, Joined& joined)
      : in_(input), joined_(joined), count_(uint32_t(input.ranks.size())) {
    joined_.connections.resize(input.contacts.size());
    probes_.resize(input.contacts.size());
    sent_.resize(input.contacts.size());
    for (const uint32_t rank : in_.ranks)
      if (rank != in_.rank) others_.push_back(rank);
  }
  Status run();
  void tell(const Status& why);

 private:
  bool all_came() const;
  bool all_sent() const;
  Status probe();
  Status accept_some();
  Status hear();
  Status receive(Fd connection);
  Status take(uint32_t rank, Fd segment, Fd connection);
  uint32_t packets() const {
    return 1 + (count_ + uint32_t(kDescriptorsMax) - 1) / uint32_t(kDescriptorsMax);
  }
  Status send();
  Result<Carried> send_next(uint32_t rank);
  Status wait();
  Status watch_others();
  bool gone(uint32_t rank);

  const JoinInput& in_;
  Joined& joined_;
  const uint32_t count_;            // Of the host's ranks.
  std::vector<uint32_t> others_;    // The host's ranks but this.
  std::vector<Fd> probes_;          // By rank, until it has come.
  std::vector<Fd> silent_;          // Accepted, and silent so far.
  std::vector<uint32_t> sent_;      // Packets, by rank.
  std::vector<uint32_t> attached_;  // Ranks whose segments were.
  bool again_ = false;              // Something found no room that no event tells of.
};

bool Leader::all_came() const {
  return std::all_of(others_.begin(), others_.end(),
                     [&](uint32_t rank) { return bool(joined_.connections[rank]); });
}

bool Leader::all_sent() const {
  return std::all_of(others_.begin(), others_.end(),
                     [&](uint32_t rank) { return sent_[rank] >= packets(); });
}

Status Leader::run() {
  SK_ASSIGN_OR_RETURN(joined_.watch, Watch::make(in_.rank, uint32_t(in_.contacts.size())));
  for (;;) {
    again_ = false;
    if (!all_came()) {
      SK_RETURN_IF_ERROR(probe());
      SK_RETURN_IF_ERROR(accept_some());
      SK_RETURN_IF_ERROR(hear());
    }
    if (all_came()) SK_RETURN_IF_ERROR(send());
    if (all_came() && all_sent()) break;
    SK_RETURN_IF_ERROR(wait());
  }
  silent_.clear();
  for (const uint32_t rank : attached_) joined_.segments[rank]->close_descriptor();
  return watch_others();
}

// Nobody accepts there: what is connected, or could be if there were room, is alive.
Status Leader::probe() {
  for (const uint32_t rank : others_) {
    if (joined_.connections[rank] || probes_[rank]) continue;
    SK_ASSIGN_OR_RETURN(const Dialed dialed,
                        dial(in_.contacts[rank].name, fmt::format("rank {}", rank), probes_[rank]));
    if (dialed == Dialed::kRefused) return gave_up(rank, joined_);
    again_ |= dialed == Dialed::kFull;
  }
  return {};
}

// Not all at once: strangers who keep coming must not keep the ranks from being heard.
Status Leader::accept_some() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    Fd connection;
    SK_ASSIGN_OR_RETURN(const bool came, accept_one(in_.listener, connection));
    if (!came) return {};
    if (connection) silent_.push_back(std::move(connection));
  }
  again_ = true;
  return {};
}

Status Leader::hear() {
  std::vector<Fd> silent = std::exchange(silent_, {});
  Status heard;
  for (Fd& connection : silent) {
    if (heard.ok()) {
      heard = receive(std::move(connection));
    } else {
      silent_.push_back(std::move(connection));  // Who speaks there is told.
    }
  }
  // A rank speaks as soon as it is connected: the oldest silent ones are none.
  const size_t most = count_ + kSilentMax;
  if (silent_.size() > most) silent_.erase(silent_.begin(), silent_.end() - ptrdiff_t(most));
  return heard;
}

Status Leader::receive(Fd connection) {
  JoinPacket hello;
  Packet packet;
  SK_ASSIGN_OR_RETURN(
      const Carried carried,
      receive_packet(connection, std::as_writable_bytes(std::span(&hello, 1)), packet));
  if (carried == Carried::kLater) {
    silent_.push_back(std::move(connection));
    return {};
  }
  // Whoever breaks off is missed by its probe. Whoever does not know the secret belongs to another
  // job.
  if (carried != Carried::kDone || packet.size != sizeof(hello) ||
      hello.secret != in_.contacts[in_.rank].secret)
    return {};
  if (packet.descriptors.empty()) return no_descriptors_left(fmt::format("rank {}", hello.rank));
  return take(hello.rank, std::move(packet.descriptors[0]), std::move(connection));
}

Status Leader::take(uint32_t rank, Fd segment, Fd connection) {
  const bool due = std::binary_search(others_.begin(), others_.end(), rank);
  if (!due || joined_.connections[rank]) {
    return error(SK_ERR_TRUST, "a connection came from rank {}, which none was due from", rank);
  }
  // That of a rank in this process is here already.
  if (!joined_.segments[rank]) {
    SK_ASSIGN_OR_RETURN(joined_.segments[rank],
                        SharedMemory::attach(std::move(segment), in_.layout.bytes(),
                                             SharedMemory::Pages::kHuge, true));
    attached_.push_back(rank);
  }
  joined_.connections[rank] = std::move(connection);
  probes_[rank].reset();
  return {};
}

Status Leader::send() {
  for (const uint32_t rank : others_) {
    while (sent_[rank] < packets()) {
      SK_ASSIGN_OR_RETURN(const Carried carried, send_next(rank));
      if (carried == Carried::kBroken) return gave_up(rank, joined_);
      if (carried == Carried::kLater) {
        again_ = true;
        break;
      }
      ++sent_[rank];
    }
  }
  return {};
}

// First what all share, then all segments in rank order.
Result<Carried> Leader::send_next(uint32_t rank) {
  JoinPacket packet{.kind = JoinPacket::Kind::kShared};
  std::vector<int> descriptors;
  if (sent_[rank] == 0) {
    descriptors = {joined_.control->fd(), joined_.watch.shared()};
  } else {
    packet.kind = JoinPacket::Kind::kSegments;
    packet.rank = (sent_[rank] - 1) * uint32_t(kDescriptorsMax);
    const uint32_t end = std::min(count_, packet.rank + uint32_t(kDescriptorsMax));
    for (uint32_t of = packet.rank; of < end; ++of)
      descriptors.push_back(joined_.segments[in_.ranks[of]]->fd());
  }
  return send_packet(joined_.connections[rank], std::as_bytes(std::span(&packet, 1)), descriptors);
}

Status Leader::wait() {
  const auto left =
      std::chrono::ceil<milliseconds>(in_.deadline - std::chrono::steady_clock::now());
  if (left <= milliseconds(0)) {
    std::string ranks;
    for (const uint32_t rank : others_) {
      if (sent_[rank] == packets()) continue;
      if (!all_came() && joined_.connections[rank]) continue;
      ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
    }
    return error(SK_ERR_TIMEOUT, "rank {} was not connected to rank {} in time", in_.rank, ranks);
  }
  std::vector<pollfd> entries = {{.fd = in_.listener.get(), .events = POLLIN, .revents = 0}};
  for (const Fd& connection : silent_)
    entries.push_back({.fd = connection.get(), .events = POLLIN, .revents = 0});
  const size_t first = entries.size();
  for (const uint32_t rank : others_) {
    const Fd& of = joined_.connections[rank] ? joined_.connections[rank] : probes_[rank];
    entries.push_back({.fd = of.get(), .events = 0, .revents = 0});
  }
  // No event tells that a peer's queue has room.
  const milliseconds longest = again_ ? milliseconds(1) : milliseconds(1000);
  SK_ASSIGN_OR_RETURN(
      [[maybe_unused]] const int ready,
      in_.cancel.poll(entries, std::chrono::nanoseconds(std::min(left, longest)).count()));
  for (size_t i = 0; i < others_.size(); ++i) {
    if ((entries[first + i].revents & (POLLHUP | POLLERR)) != 0)
      return gave_up(others_[i], joined_);
  }
  return {};
}

// Behind the rest: until then a rank's connection tells of its end.
Status Leader::watch_others() {
  const ProcessName& own = in_.contacts[in_.rank].process;
  for (const uint32_t rank : others_) {
    const ProcessName& process = in_.contacts[rank].process;
    if (same_process(process, own)) continue;
    Fd fd;
    Seen seen = Seen::kInvisible;
    if (in_.use_pidfd) {
      SK_ASSIGN_OR_RETURN(seen, open_pidfd(process, fd));
    }
    if (seen == Seen::kEnded) return gave_up(rank, joined_);
    if (seen == Seen::kInvisible) {
      joined_.by_connection = true;
      SK_ASSIGN_OR_RETURN(
          fd, duplicate(joined_.connections[rank], fmt::format("cannot watch rank {}", rank)));
    }
    SK_RETURN_IF_ERROR(joined_.watch.add(rank, std::move(fd)));
  }
  return {};
}

// Also those who are about to come. Who does not get it learns that this rank has given up.
void Leader::tell(const Status& why) {
  JoinPacket packet{.kind = JoinPacket::Kind::kFailed, .code = why.code()};
  packet.text_bytes = uint32_t(std::min(why.message().size(), sizeof(packet.text)));
  memcpy(packet.text, why.message().data(), packet.text_bytes);
  const Deadline end = std::chrono::steady_clock::now() + kFarewell;
  std::vector<uint32_t> to = others_;
  for (;;) {
    std::erase_if(to, [&](uint32_t rank) {
      const Fd& connection = joined_.connections[rank];
      if (connection) (void)send_packet(connection, std::as_bytes(std::span(&packet, 1)), {});
      return connection || gone(rank);
    });
    if (to.empty() || std::chrono::steady_clock::now() > end) return;
    if (!accept_some().ok() || !hear().ok()) return;
    pollfd entry = {.fd = in_.listener.get(), .events = POLLIN, .revents = 0};
    poll(&entry, 1, 1);
  }
}

bool Leader::gone(uint32_t rank) {
  if (!probes_[rank]) {
    Result<Dialed> dialed = dial(in_.contacts[rank].name, "a rank", probes_[rank]);
    return !dialed.ok() || *dialed == Dialed::kRefused;
  }
  pollfd probe = {.fd = probes_[rank].get(), .events = 0, .revents = 0};
  return poll(&probe, 1, 0) > 0 && (probe.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace

Status lead(const JoinInput& input, Joined& joined) {
  Leader leader(input, joined);
  Status led = leader.run();
  if (!led.ok()) leader.tell(led);
  return led;
}

}  // namespace sk::shm
