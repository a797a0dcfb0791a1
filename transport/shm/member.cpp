#include <poll.h>

#include <algorithm>
#include <string>
#include <utility>

#include "transport/shm/control.h"
#include "transport/shm/join.h"
#include "transport/shm/process_name.h"

namespace sk::shm {
namespace {

using std::chrono::milliseconds;

// The leader knows who is missing: its word is waited for.
constexpr milliseconds kLeadersWord{500};

class Member {
 public:
  Member(const JoinInput& input, Joined& joined)
      : in_(input), joined_(joined), leader_(input.ranks[0]) {
    joined_.connections.resize(input.contacts.size());
  }
  Status run();

 private:
  bool has_all() const { return watch_ && taken_ == in_.ranks.size(); }
  Status introduce();
  Status hear();
  Status take(const JoinPacket& packet, std::vector<Fd> descriptors);
  Status take_shared(std::vector<Fd>& descriptors);
  Status wait(short events);
  Status watch_leader();
  bool is_deputy() const;
  void stand_by();
  Fd& leader() { return joined_.connections[leader_]; }

  const JoinInput& in_;
  Joined& joined_;
  const uint32_t leader_;
  Fd watch_;
  uint32_t taken_ = 0;  // Segments of the host's ranks, in their order.
};

Status Member::run() {
  SK_RETURN_IF_ERROR(introduce());
  for (;;) {
    SK_RETURN_IF_ERROR(hear());
    if (has_all()) break;
    SK_RETURN_IF_ERROR(wait(POLLIN));
  }
  return watch_leader();
}

Status Member::introduce() {
  JoinPacket hello{.kind = JoinPacket::Kind::kHello, .rank = in_.rank};
  hello.secret = in_.contacts[leader_].secret;
  const int own = joined_.segments[in_.rank]->fd();
  for (;;) {
    if (!leader()) {
      SK_ASSIGN_OR_RETURN(const Dialed dialed, dial(in_.contacts[leader_].name,
                                                    fmt::format("rank {}", leader_), leader()));
      if (dialed == Dialed::kRefused) return gave_up(leader_, joined_);
    }
    if (leader()) {
      SK_ASSIGN_OR_RETURN(
          const Carried carried,
          send_packet(leader(), std::as_bytes(std::span(&hello, 1)), std::span(&own, 1)));
      if (carried == Carried::kDone) return {};
      // Taken for a stranger, who is silent; or the leader is gone, as the next dial will tell.
      if (carried == Carried::kBroken) leader().reset();
    }
    SK_RETURN_IF_ERROR(wait(0));
  }
}

// All that there is: the leader stays until all are done, but may give up.
Status Member::hear() {
  while (!has_all()) {
    JoinPacket packet;
    Packet came;
    SK_ASSIGN_OR_RETURN(
        const Carried carried,
        receive_packet(leader(), std::as_writable_bytes(std::span(&packet, 1)), came));
    if (carried == Carried::kLater) return {};
    if (carried == Carried::kBroken || came.size != sizeof(packet))
      return gave_up(leader_, joined_);
    if (came.cut) return no_descriptors_left("the ranks");
    SK_RETURN_IF_ERROR(take(packet, std::move(came.descriptors)));
  }
  return {};
}

Status Member::take(const JoinPacket& packet, std::vector<Fd> descriptors) {
  if (packet.kind == JoinPacket::Kind::kFailed) {
    joined_.secondary = true;
    return Status(packet.code, std::string(packet.text, std::min<size_t>(packet.text_bytes,
                                                                         sizeof(packet.text))));
  }
  if (packet.kind == JoinPacket::Kind::kShared && descriptors.size() == 2)
    return take_shared(descriptors);
  if (packet.kind != JoinPacket::Kind::kSegments || packet.rank != taken_ ||
      descriptors.size() > in_.ranks.size() - taken_) {
    return error(SK_ERR_TRUST, "rank {} sent {} descriptors that were not due", leader_,
                 descriptors.size());
  }
  for (Fd& fd : descriptors) {
    std::shared_ptr<SharedMemory>& segment = joined_.segments[in_.ranks[taken_++]];
    if (segment) continue;  // Of a rank of this process.
    SK_ASSIGN_OR_RETURN(segment, SharedMemory::attach(std::move(fd), in_.layout.bytes(),
                                                      SharedMemory::Pages::kHuge));
  }
  return {};
}

Status Member::take_shared(std::vector<Fd>& descriptors) {
  if (!joined_.control) {
    SK_ASSIGN_OR_RETURN(
        const std::shared_ptr<SharedMemory> mine,
        SharedMemory::attach(std::move(descriptors[0]), control_file_bytes(in_.layout),
                             SharedMemory::Pages::kSmall, true));
    joined_.control = Published::share_control(in_.contacts[leader_].secret, mine);
    joined_.mapped_control = joined_.control == mine;
  }
  watch_ = std::move(descriptors[1]);
  return {};
}

Status Member::wait(short events) {
  const auto now = std::chrono::steady_clock::now();
  const auto left = std::chrono::ceil<milliseconds>(in_.deadline + kLeadersWord - now);
  if (left <= milliseconds(0)) {
    return error(SK_ERR_TIMEOUT, "rank {} was not connected to rank {} in time", in_.rank, leader_);
  }
  std::vector<pollfd> entries = {{.fd = leader().get(), .events = events, .revents = 0}};
  // To dial or to send again: no event tells that there is room.
  const milliseconds longest = events == 0 ? milliseconds(1) : milliseconds(1000);
  SK_ASSIGN_OR_RETURN(
      [[maybe_unused]] const int ready,
      in_.cancel.poll(entries, std::chrono::nanoseconds(std::min(left, longest)).count()));
  return {};
}

Status Member::watch_leader() {
  const ProcessName& own = in_.contacts[in_.rank].process;
  const ProcessName& process = in_.contacts[leader_].process;
  Fd fd;
  if (!same_process(own, process)) {
    Seen seen = Seen::kInvisible;
    if (in_.use_pidfd) {
      SK_ASSIGN_OR_RETURN(seen, open_pidfd(process, fd));
    }
    if (seen == Seen::kEnded) return gave_up(leader_, joined_);
    if (seen == Seen::kInvisible) {
      joined_.by_connection = true;
      SK_ASSIGN_OR_RETURN(fd, duplicate(leader(), fmt::format("cannot watch rank {}", leader_)));
    }
  }
  joined_.watch = Watch(std::move(watch_), leader_, std::move(fd), uint32_t(in_.contacts.size()));
  if (in_.use_pidfd && is_deputy()) stand_by();
  return {};
}

// The lowest rank outside the leader's process.
bool Member::is_deputy() const {
  const ProcessName& leader = in_.contacts[leader_].process;
  const auto first = std::find_if(in_.ranks.begin(), in_.ranks.end(), [&](uint32_t rank) {
    return !same_process(in_.contacts[rank].process, leader);
  });
  return first != in_.ranks.end() && *first == in_.rank;
}

// As far as there are descriptors and PIDs can be seen: the watcher holds them all.
void Member::stand_by() {
  for (const uint32_t rank : in_.ranks) {
    if (same_process(in_.contacts[rank].process, in_.contacts[in_.rank].process)) continue;
    Fd fd;
    Result<Seen> seen = open_pidfd(in_.contacts[rank].process, fd);
    if (!seen.ok()) return;
    if (*seen == Seen::kAlive && !joined_.watch.add(rank, std::move(fd)).ok()) return;
  }
}

}  // namespace

Status follow(const JoinInput& input, Joined& joined) { return Member(input, joined).run(); }

// What it tells in the last gathering is the cause; this is not.
Status gave_up(uint32_t rank, Joined& joined) {
  joined.secondary = true;
  return error(SK_ERR_PEER_LOST, "rank {} gave up while connecting", rank);
}

}  // namespace sk::shm
