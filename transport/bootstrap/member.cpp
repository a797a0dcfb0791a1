// The other ranks of a job that meets by environment: each dials the hub until it answers.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/bootstrap/address.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/wait_notice.h"
#include "transport/bootstrap/wire.h"

namespace sk {
namespace {

constexpr int64_t kBackoffLeastNs = 1'000'000;
constexpr int64_t kBackoffMostNs = 250'000'000;
constexpr int64_t kConnectNs = 2'000'000'000;
constexpr int64_t kAnswerNs = 10'000'000'000;  // Of a hub that has accepted; it may be loaded.
constexpr int64_t kTakenNs = 2'000'000'000;    // How long an ended connection may hold its place.
// So small that they pass where a path loses those of full size: little is said here, and it names
// the path. Less than the least packet that IPv4's hosts take, headers included.
constexpr int kSegmentBytes = 500;
constexpr int64_t kLastWordNs = 500'000'000;  // For the hub to say who is missing, at the end.

class MemberBootstrap final : public Bootstrap {
 public:
  MemberBootstrap(const JobEnv& job, const BootstrapConfig& config)
      : Bootstrap(job.rank, job.world_size, config.cancel), job_(job), config_(config) {}

  // False: no rank listens at a socket of this host; what does is in `found`.
  Result<bool> meet(int64_t timeout_ns, int64_t deadline_ns, Found* found);
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override;
  bool proven_address(Address& out) const override { return hub_ && hub_->own_address(out); }
  void add_polls(std::vector<pollfd>& polls) const override;
  Status news() override;

 private:
  // `again` says whether another try may go better.
  struct Attempt {
    Status why;
    bool again = false;
    std::optional<NameState> here = {};  // What a name is, where no rank has it.
  };
  // Waits for `events`; false when the time has run out or the creation is cancelled.
  bool wait_ready(int fd, short events, int64_t deadline_ns) const;
  Result<bool> join(int64_t timeout_ns, int64_t deadline_ns, Found* found);
  Attempt try_join(const Address& address, int64_t deadline_ns);
  Attempt dial(const Address& address, int64_t deadline_ns, std::optional<Channel>& out) const;
  Attempt prove(Channel& channel, const MemberHello& hello, int64_t deadline_ns);
  Attempt refusal(Verdict verdict, uint32_t number);
  template <typename T>
  Status receive(Channel& channel, T& value, int64_t deadline_ns) const;
  Result<std::vector<std::byte>> receive_whole(size_t bytes, int64_t timeout_ns,
                                               int64_t deadline_ns);
  Result<std::optional<std::vector<std::byte>>> take_whole(size_t bytes, const Status& pumped);
  Result<std::vector<std::byte>> exchange(std::span<const std::byte> mine, int64_t timeout_ns);

  JobEnv job_;
  const BootstrapConfig config_;
  std::optional<Channel> hub_;
  std::vector<std::byte> host_;
  int hub_rank_ = 0;
  std::string absent_;     // Who is waited for, as the hub said last.
  bool told_ = false;      // It said so in this step,
  bool answered_ = false;  // because this rank asked.
  WhoAsks asks_;
  int64_t taken_since_ns_ = 0;
  Status failure_;
};

Result<bool> MemberBootstrap::meet(int64_t timeout_ns, int64_t deadline_ns, Found* found) {
  SK_ASSIGN_OR_RETURN(host_, host_id());
  SK_ASSIGN_OR_RETURN(const bool joined, join(timeout_ns, deadline_ns, found));
  if (!joined) return false;
  absent_ = fmt::format("the others of rank {} did not come", hub_rank_);
  const size_t bytes = host_.size() * size_t(world_size());
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> ids,
                      receive_whole(bytes, timeout_ns, deadline_ns));
  place(ids);
  return true;
}

bool MemberBootstrap::wait_ready(int fd, short events, int64_t deadline_ns) const {
  while (true) {
    const int64_t left_ns = deadline_ns - bootstrap_clock_ns();
    if (left_ns <= 0) return false;
    std::vector<pollfd> one = {{fd, events, 0}};
    const Result<int> ready = cancel().poll(one, left_ns);
    if (!ready.ok()) return false;
    if (ready.value() > 0) return true;
  }
}

Result<bool> MemberBootstrap::join(int64_t timeout_ns, int64_t deadline_ns, Found* found) {
  int64_t backoff_ns = kBackoffLeastNs;
  Attempt last;
  std::string tried;  // What each address came to, of the latest round that was not cut short.
  const int64_t patience_ends_ns = bootstrap_clock_ns() + unreachable_ns(timeout_ns);
  WaitNotice notice(config_, deadline_ns);
  while (true) {
    const Gone hub = config_.gone && !job_.one_host ? config_.gone(0) : Gone::kNo;
    if (hub == Gone::kYes ||
        (hub == Gone::kUnreachable && bootstrap_clock_ns() >= patience_ends_ns)) {
      return error(SK_ERR_UNSUPPORTED,
                   "rank 0 {}, and the ranks of several hosts meet where it was, at {}: "
                   "those that are left can go on after a new start of the job only{}",
                   hub == Gone::kYes ? "is gone" : "cannot be reached", job_.place(),
                   hub == Gone::kYes ? "" : "; rank 0 may go on without them");
    }
    // Again each time: a service's name may get its address only once rank 0 has started.
    Result<std::vector<Address>> addresses = resolve(job_);
    if (!addresses.ok() && addresses.status().code() != SK_ERR_TRANSPORT) {
      return std::move(addresses.status());
    }
    if (!addresses.ok()) {
      last.why = std::move(addresses.status());
      tried = last.why.message();
    }
    std::vector<NameState> states;
    std::string round;
    bool cut_short = false;
    for (size_t i = 0; addresses.ok() && i < addresses->size(); ++i) {
      Attempt attempt = try_join((*addresses)[i], deadline_ns);
      if (attempt.why.ok()) return true;
      if (attempt.here) {
        states.push_back(*attempt.here);
        if (*attempt.here == NameState::kStrangers) found->stranger = std::move(attempt.why);
        continue;
      }
      if (!attempt.again) return std::move(attempt.why);
      SK_RETURN_IF_ERROR(cancel().status());
      if (job_.one_host) found->answered = true;
      // One that the deadline cut short has nothing to tell, if there was one before.
      cut_short = bootstrap_clock_ns() >= deadline_ns;
      if (cut_short && !last.why.ok()) continue;
      last = std::move(attempt);
      if (!round.empty() && !job_.one_host) round += "; ";
      if (job_.one_host) round.clear();  // Names that stand for one place.
      round += last.why.message();
    }
    if (!round.empty() && (!cut_short || tried.empty())) tried = std::move(round);
    if (job_.one_host && addresses.ok() && states.size() == addresses->size()) {
      found->states = std::move(states);
      return false;
    }
    const int64_t left_ns = deadline_ns - bootstrap_clock_ns();
    if (left_ns <= 0) {
      const bool distrusted = job_.one_host && last.why.code() == SK_ERR_TRUST;
      return error(distrusted ? SK_ERR_TRUST : SK_ERR_TIMEOUT,
                   "{}: nothing that belongs to this job answered at {} within {} ms; at last: {}",
                   job_.one_host ? "no rank waited" : "rank 0 did not come", job_.place(),
                   timeout_ns / 1'000'000, tried);
    }
    notice.look([&] {
      return fmt::format("rank {} of {} waits: rank {} does not answer at {}: {}", rank(),
                         world_size(), hub_rank_, job_.place(), tried);
    });
    std::vector<pollfd> none;
    SK_RETURN_IF_ERROR(std::move(cancel().poll(none, std::min(backoff_ns, left_ns)).status()));
    backoff_ns = std::min(backoff_ns * 2, job_.one_host ? kBackoffMostNs / 16 : kBackoffMostNs);
  }
}

MemberBootstrap::Attempt MemberBootstrap::dial(const Address& address, int64_t deadline_ns,
                                               std::optional<Channel>& out) const {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return {.why = system_error("socket"), .again = true};
  Channel channel(fd);
  channel.send_at_once();
  // Told with the connection's first packet, so it bounds what the hub sends as well.
  if (address.family() != AF_UNIX)
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &kSegmentBytes, sizeof(kSegmentBytes));
  const int64_t until_ns = std::min(deadline_ns, bootstrap_clock_ns() + kConnectNs);
  if (connect(fd, address.get(), address.bytes) != 0) {
    int code = errno;
    if (code == EINPROGRESS || code == EINTR) {
      if (!wait_ready(fd, POLLOUT, until_ns)) {
        return {.why = error(SK_ERR_TRANSPORT, "{}: no answer", address.text()), .again = true};
      }
      socklen_t bytes = sizeof(code);
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes);
    }
    errno = code;
    if (code != 0) {
      Attempt failed = {.why = system_error(address.text()), .again = true};
      if (job_.one_host && code == ECONNREFUSED) failed.here = NameState::kFree;
      if (job_.one_host && code == EAGAIN) failed.here = NameState::kDumb;  // Its queue is full.
      return failed;
    }
  }
  if (job_.one_host) {
    if (Status other = check_same_user(fd, job_); !other.ok()) {
      return {.why = std::move(other), .here = NameState::kStrangers};
    }
  }
  // While nobody listens, a socket that happens to be given the same port meets itself.
  Address self;
  self.bytes = sizeof(self.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&self.storage), &self.bytes);
  if (self == address) {
    return {.why = error(SK_ERR_TRANSPORT, "{}: nobody listens", address.text()), .again = true};
  }
  out.emplace(std::move(channel));
  return {};
}

template <typename T>
Status MemberBootstrap::receive(Channel& channel, T& value, int64_t deadline_ns) const {
  while (true) {
    const Status pumped = channel.pump();
    if (channel.take(value)) return {};
    if (!pumped.ok()) return pumped.clone();
    if (!wait_ready(channel.fd(), channel.wanted_events(), deadline_ns)) {
      return error(SK_ERR_TIMEOUT, "it took the connection and said nothing");
    }
  }
}

MemberBootstrap::Attempt MemberBootstrap::try_join(const Address& address, int64_t deadline_ns) {
  std::optional<Channel> channel;
  if (Attempt dialled = dial(address, deadline_ns, channel); !dialled.why.ok()) return dialled;
  MemberHello hello;
  hello.rank = uint32_t(rank());
  hello.world_size = uint32_t(world_size());
  hello.has_secret = job_.secret.empty() ? 0 : 1;
  hello.job = job_.job;
  hello.name = job_.name;
  std::copy(host_.begin(), host_.end(), hello.host.begin());
  if (Status status = fill_random(hello.nonce); !status.ok()) return {std::move(status), false};
  Result<Mac> proof = hello_proof(job_.secret, hello);
  if (!proof.ok()) return {std::move(proof.status()), false};
  hello.proof = *proof;
  channel->put(hello);
  const int64_t until_ns = std::min(deadline_ns, bootstrap_clock_ns() + kAnswerNs);
  Attempt attempt = prove(*channel, hello, until_ns);
  if (!attempt.why.ok()) return attempt;
  hub_.emplace(std::move(*channel));
  return attempt;
}

MemberBootstrap::Attempt MemberBootstrap::prove(Channel& channel, const MemberHello& hello,
                                                int64_t deadline_ns) {
  HubHello hub;
  Status heard = receive(channel, hub, deadline_ns);
  if (!heard.ok()) return {std::move(heard), true};
  if (hub.magic != kMagic) {
    return {error(SK_ERR_TRANSPORT, "another program listens there"), true};
  }
  Result<SessionKeys> keys = derive_keys(job_.secret, hello, hub);
  if (!keys.ok()) return {std::move(keys.status()), false};
  const bool proven = equal_mac(hub.proof, keys->hub_proof);
  if (hub.verdict != Verdict::kJoined) {
    Attempt refused = refusal(hub.verdict, hub.number);
    // Whoever is at an address before rank 0 can say such a thing; it must not end the search.
    if (!proven && !job_.one_host) refused.again = true;
    return refused;
  }
  if (!proven) {
    channel.put(MemberProof{});
    const Status sent = channel.pump_output();
    return {error(SK_ERR_TRUST, "what listens at {} has another job secret than rank {}{}",
                  job_.place(), rank(), sent.ok() ? "" : " and is gone"),
            !job_.one_host};
  }
  channel.put(keys->member_proof);
  HubVerdict verdict;
  heard = receive(channel, verdict, deadline_ns);
  if (!heard.ok()) return {std::move(heard), true};
  if (verdict.verdict != Verdict::kJoined) return refusal(verdict.verdict, 0);
  hub_rank_ = int(verdict.rank);
  channel.start_frames(keys->member_frames, keys->hub_frames);
  return {};
}

MemberBootstrap::Attempt MemberBootstrap::refusal(Verdict verdict, uint32_t number) {
  const int64_t now_ns = bootstrap_clock_ns();
  if (taken_since_ns_ == 0 && verdict == Verdict::kTaken) taken_since_ns_ = now_ns;
  switch (verdict) {
    case Verdict::kLater:
      return {error(SK_ERR_TRANSPORT, "rank 0 is meeting another communicator's ranks"), true};
    case Verdict::kOtherJob:
      return {error(SK_ERR_TRUST, "rank 0 of another job listens there"), true};
    case Verdict::kWorldSize:
      return {error(SK_ERR_INVALID_ARGUMENT,
                    "the environment variable {} is {} on rank {} and {} on {}",
                    job_.world_size_variable, world_size(), rank(), number,
                    job_.one_host ? "the rank that waits for the others" : "rank 0"),
              false};
    case Verdict::kTaken:
      return {error(SK_ERR_INVALID_ARGUMENT,
                    "the environment variable {} is {} in another process of this job too",
                    job_.rank_variable, rank()),
              now_ns - taken_since_ns_ < kTakenNs};
    case Verdict::kSecret:
      return {error(SK_ERR_TRUST, "rank {} has {} and {} has {}", rank(),
                    job_.secret.empty() ? "no job secret" : "a job secret",
                    job_.one_host ? "the rank that waits for the others" : "rank 0",
                    job_.secret.empty() ? "one" : "none, or another"),
              false};
    case Verdict::kLeftOut:
      if (config_.leave_out) config_.leave_out(rank());
      return {error(SK_ERR_TRANSPORT,
                    "the others have gone on without rank {}, which was lost to them", rank()),
              false};
    case Verdict::kJoined:
      break;
  }
  return {error(SK_ERR_TRANSPORT, "the hub answered with verdict {}", uint32_t(verdict)), true};
}

Result<std::vector<std::byte>> MemberBootstrap::allgather(std::span<const std::byte> mine,
                                                          int64_t timeout_ns) {
  if (!failure_.ok()) return failure_.clone();
  if (mine.size() > kPartBytesMax || mine.size() * uint64_t(world_size()) > kWholeBytesMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} bytes to gather: at most {} are allowed", mine.size(),
                 std::min(kPartBytesMax, kWholeBytesMax / uint64_t(world_size())));
  }
  Result<std::vector<std::byte>> whole = exchange(mine, timeout_ns);
  if (!whole.ok()) {
    failure_ = whole.status().clone();
    hub_.reset();  // The hub and through it the others hear of it at once.
  }
  return whole;
}

void MemberBootstrap::add_polls(std::vector<pollfd>& polls) const {
  if (hub_) polls.push_back({hub_->fd(), hub_->wanted_events(), 0});
}

// Nothing is whole before this rank has given its part.
Status MemberBootstrap::news() {
  if (!failure_.ok()) return failure_.clone();
  const Status pumped = hub_->pump();
  const auto none = take_whole(SIZE_MAX, pumped);
  if (none.ok()) return {};
  failure_ = none.status().clone();
  hub_.reset();
  return failure_.clone();
}

Result<std::vector<std::byte>> MemberBootstrap::exchange(std::span<const std::byte> mine,
                                                         int64_t timeout_ns) {
  const int64_t deadline_ns = bootstrap_clock_ns() + timeout_ns;
  absent_ = fmt::format("rank {} did not come to the all-gather", hub_rank_);
  told_ = false;
  // An error frame may already wait to be read, and says more than a failed send.
  const Status sent = hub_->put_frame(FrameKind::kPart, 0, mine);
  Result<std::vector<std::byte>> whole =
      receive_whole(mine.size() * size_t(world_size()), timeout_ns, deadline_ns);
  if (!sent.ok() && whole.ok()) return sent.clone();
  return whole;
}

Result<std::vector<std::byte>> MemberBootstrap::receive_whole(size_t bytes, int64_t timeout_ns,
                                                              int64_t deadline_ns) {
  bool asked = false;
  while (true) {
    const Status pumped = hub_->pump();
    // Who asks may meet the end of the hub's own time: that it goes then is not why this one ends.
    SK_ASSIGN_OR_RETURN(std::optional<std::vector<std::byte>> whole,
                        take_whole(bytes, asked ? Status() : pumped.clone()));
    if (whole) return std::move(*whole);
    const bool over = asked && (answered_ || !pumped.ok());
    if (!over && wait_ready(hub_->fd(), hub_->wanted_events(), deadline_ns)) continue;
    SK_RETURN_IF_ERROR(cancel().status());
    const int64_t timeout_ms = timeout_ns / 1'000'000;
    if (over || (asked && !told_))
      return error(SK_ERR_TIMEOUT, "{} within {} ms", absent_, timeout_ms);
    if (asked) {
      return error(
          SK_ERR_TIMEOUT,
          "rank {}, where the ranks meet, did not answer at the end of {} ms; what it said "
          "last: {}",
          hub_rank_, timeout_ms, absent_);
    }
    asked = true;
    answered_ = false;
    deadline_ns = bootstrap_clock_ns() + kLastWordNs;
    const auto told_ms = int32_t(std::min<int64_t>(timeout_ms, INT32_MAX));
    // Where it cannot be sent, what the hub said before is read next.
    [[maybe_unused]] const Status sent =
        hub_->put_frame(FrameKind::kWho, told_ms, std::as_bytes(std::span(&asks_, 1)));
  }
}

// Nothing: not all of it is there yet.
Result<std::optional<std::vector<std::byte>>> MemberBootstrap::take_whole(size_t bytes,
                                                                          const Status& pumped) {
  while (true) {
    SK_ASSIGN_OR_RETURN(std::optional<Frame> frame, hub_->take_frame(kWholeBytesMax));
    if (!frame) break;
    if (frame->kind == FrameKind::kProgress) {
      absent_ = frame->payload.substr(0, 4096);
      told_ = true;
      answered_ = answered_ || frame->code != 0;
    } else if (frame->kind == FrameKind::kError && frame->code != SK_OK) {
      return Status(frame->code, frame->payload.substr(0, 4096));
    } else if (frame->kind == FrameKind::kWhole && frame->payload.size() == bytes) {
      ++asks_.wholes;
      const auto data = as_bytes(frame->payload);
      return std::optional<std::vector<std::byte>>(std::in_place, data.begin(), data.end());
    } else {
      return error(SK_ERR_TRANSPORT, "rank {} sent a frame of kind {} with {} bytes", hub_rank_,
                   uint32_t(frame->kind), frame->payload.size());
    }
  }
  if (pumped.ok()) return std::optional<std::vector<std::byte>>();
  return error(SK_ERR_PEER_LOST, "rank {} is gone: {}", hub_rank_, pumped.message());
}

}  // namespace

BootstrapResult make_member_bootstrap(const JobEnv& job, const BootstrapConfig& config,
                                      int64_t deadline_ns, Found* found) {
  auto member = std::make_unique<MemberBootstrap>(job, config);
  SK_ASSIGN_OR_RETURN(const bool met, member->meet(config.timeout_ns, deadline_ns, found));
  return met ? std::unique_ptr<Bootstrap>(std::move(member)) : nullptr;
}

}  // namespace sk
