// The ranks other than 0 of a job that meets by environment: each dials rank 0 until it answers.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/bootstrap/address.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/wire.h"

namespace sk {
namespace {

constexpr int64_t kBackoffLeastNs = 1'000'000;
constexpr int64_t kBackoffMostNs = 250'000'000;
constexpr int64_t kConnectNs = 2'000'000'000;
constexpr int64_t kAnswerNs = 10'000'000'000;  // Of a hub that has accepted; it may be loaded.
constexpr int64_t kTakenNs = 2'000'000'000;    // How long an ended connection may hold its place.

class MemberBootstrap final : public Bootstrap {
 public:
  MemberBootstrap(const JobEnv& job, CancelPtr cancel)
      : Bootstrap(job.rank, job.world_size, std::move(cancel)), job_(job) {}

  Status meet(int64_t timeout_ns);
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override;

 private:
  // `again` says whether another try may go better.
  struct Attempt {
    Status why;
    bool again = false;
  };
  // Waits for `events`; false when the time has run out or the creation is cancelled.
  bool wait_ready(int fd, short events, int64_t deadline_ns) const;
  Status join(int64_t timeout_ns, int64_t deadline_ns);
  Attempt try_join(const Address& address, int64_t deadline_ns);
  Result<Channel> dial(const Address& address, int64_t deadline_ns) const;
  Attempt prove(Channel& channel, const MemberHello& hello, int64_t deadline_ns);
  Attempt refusal(Verdict verdict, uint32_t number);
  template <typename T>
  Status receive(Channel& channel, T& value, int64_t deadline_ns) const;
  Result<std::vector<std::byte>> receive_whole(size_t bytes, int64_t timeout_ns,
                                               int64_t deadline_ns);
  Result<std::vector<std::byte>> exchange(std::span<const std::byte> mine, int64_t timeout_ns);

  JobEnv job_;
  std::optional<Channel> hub_;
  std::vector<std::byte> host_;
  std::string missing_ = "rank 0";  // Who is waited for, as the hub said last.
  int64_t taken_since_ns_ = 0;
  Status failure_;
};

Status MemberBootstrap::meet(int64_t timeout_ns) {
  const int64_t deadline_ns = bootstrap_clock_ns() + timeout_ns;
  SK_ASSIGN_OR_RETURN(host_, host_id());
  SK_RETURN_IF_ERROR(join(timeout_ns, deadline_ns));
  const size_t bytes = host_.size() * size_t(world_size());
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> ids,
                      receive_whole(bytes, timeout_ns, deadline_ns));
  place(ids);
  return {};
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

Status MemberBootstrap::join(int64_t timeout_ns, int64_t deadline_ns) {
  int64_t backoff_ns = kBackoffLeastNs;
  Attempt last;
  while (true) {
    // Again each time: a service's name may get its address only once rank 0 has started.
    Result<std::vector<Address>> addresses = resolve(job_);
    if (!addresses.ok() && addresses.status().code() != SK_ERR_TRANSPORT) {
      return std::move(addresses.status());
    }
    if (!addresses.ok()) last.why = std::move(addresses.status());
    for (size_t i = 0; addresses.ok() && i < addresses->size(); ++i) {
      Attempt attempt = try_join((*addresses)[i], deadline_ns);
      if (attempt.why.ok() || !attempt.again) return std::move(attempt.why);
      SK_RETURN_IF_ERROR(cancel().status());
      // One that the deadline cut short has nothing to tell, if there was one before.
      if (last.why.ok() || bootstrap_clock_ns() < deadline_ns) last = std::move(attempt);
    }
    const int64_t left_ns = deadline_ns - bootstrap_clock_ns();
    if (left_ns <= 0) {
      const int32_t code = last.why.code() == SK_ERR_TRUST ? SK_ERR_TRUST : SK_ERR_TIMEOUT;
      return error(code,
                   "rank 0 did not come: nothing that belongs to this job answered at MASTER_ADDR "
                   "\"{}\", {} {} within {} ms; at last: {}",
                   job_.address, job_.port_variable, job_.port, timeout_ns / 1'000'000,
                   last.why.message());
    }
    std::vector<pollfd> none;
    SK_RETURN_IF_ERROR(std::move(cancel().poll(none, std::min(backoff_ns, left_ns)).status()));
    backoff_ns = std::min(backoff_ns * 2, kBackoffMostNs);
  }
}

Result<Channel> MemberBootstrap::dial(const Address& address, int64_t deadline_ns) const {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("socket");
  Channel channel(fd);
  channel.send_at_once();
  const int64_t until_ns = std::min(deadline_ns, bootstrap_clock_ns() + kConnectNs);
  if (connect(fd, address.get(), address.bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return system_error(address.text());
    if (!wait_ready(fd, POLLOUT, until_ns)) {
      return error(SK_ERR_TRANSPORT, "{}: no answer", address.text());
    }
    int code = 0;
    socklen_t bytes = sizeof(code);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &bytes);
    errno = code;
    if (code != 0) return system_error(address.text());
  }
  // While nobody listens, a socket that happens to be given the same port meets itself.
  Address self;
  self.bytes = sizeof(self.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&self.storage), &self.bytes);
  if (self.text() == address.text()) {
    return error(SK_ERR_TRANSPORT, "{}: nobody listens", address.text());
  }
  return channel;
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
  Result<Channel> channel = dial(address, deadline_ns);
  if (!channel.ok()) return {std::move(channel.status()), true};
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
  if (attempt.why.ok()) hub_.emplace(std::move(*channel));
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
  if (hub.verdict != Verdict::kJoined) return refusal(hub.verdict, hub.number);
  Result<SessionKeys> keys = derive_keys(job_.secret, hello, hub);
  if (!keys.ok()) return {std::move(keys.status()), false};
  if (!equal_mac(hub.proof, keys->hub_proof)) {
    channel.put(MemberProof{});
    const Status sent = channel.pump_output();
    return {
        error(SK_ERR_TRUST,
              "what listens at MASTER_ADDR \"{}\", {} {} has another job secret than rank {}{}",
              job_.address, job_.port_variable, job_.port, rank(), sent.ok() ? "" : " and is gone"),
        false};
  }
  channel.put(keys->member_proof);
  HubVerdict verdict;
  heard = receive(channel, verdict, deadline_ns);
  if (!heard.ok()) return {std::move(heard), true};
  if (verdict.verdict != Verdict::kJoined) return refusal(verdict.verdict, 0);
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
                    "the environment variable WORLD_SIZE is {} on rank {} and {} on rank 0",
                    world_size(), rank(), number),
              false};
    case Verdict::kTaken:
      return {
          error(SK_ERR_INVALID_ARGUMENT,
                "the environment variable RANK is {} in another process of this job too", rank()),
          now_ns - taken_since_ns_ < kTakenNs};
    case Verdict::kSecret:
      return {error(SK_ERR_TRUST, "rank {} has {} and rank 0 has {}", rank(),
                    job_.secret.empty() ? "no job secret" : "a job secret",
                    job_.secret.empty() ? "one" : "none, or another"),
              false};
    case Verdict::kJoined:
      break;
  }
  return {error(SK_ERR_TRANSPORT, "rank 0 answered with verdict {}", uint32_t(verdict)), true};
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
    hub_.reset();  // Rank 0 and through it the others hear of it at once.
  }
  return whole;
}

Result<std::vector<std::byte>> MemberBootstrap::exchange(std::span<const std::byte> mine,
                                                         int64_t timeout_ns) {
  const int64_t deadline_ns = bootstrap_clock_ns() + timeout_ns;
  missing_ = "rank 0";
  // An error frame may already wait to be read, and says more than a failed send.
  const Status sent = hub_->put_frame(FrameKind::kPart, 0, mine);
  Result<std::vector<std::byte>> whole =
      receive_whole(mine.size() * size_t(world_size()), timeout_ns, deadline_ns);
  if (!sent.ok() && whole.ok()) return sent.clone();
  return whole;
}

Result<std::vector<std::byte>> MemberBootstrap::receive_whole(size_t bytes, int64_t timeout_ns,
                                                              int64_t deadline_ns) {
  while (true) {
    const Status pumped = hub_->pump();
    SK_ASSIGN_OR_RETURN(std::optional<Frame> frame, hub_->take_frame(kWholeBytesMax));
    if (frame && frame->kind == FrameKind::kProgress) {
      missing_ = frame->payload.substr(0, 4096);
    } else if (frame && frame->kind == FrameKind::kError && frame->code != SK_OK) {
      return Status(frame->code, frame->payload.substr(0, 4096));
    } else if (frame && frame->kind == FrameKind::kWhole && frame->payload.size() == bytes) {
      const auto data = as_bytes(frame->payload);
      return std::vector<std::byte>(data.begin(), data.end());
    } else if (frame) {
      return error(SK_ERR_TRANSPORT, "rank 0 sent a frame of kind {} with {} bytes",
                   uint32_t(frame->kind), frame->payload.size());
    } else if (!pumped.ok()) {
      return error(SK_ERR_PEER_LOST, "rank 0 is gone: {}", pumped.message());
    } else if (!wait_ready(hub_->fd(), hub_->wanted_events(), deadline_ns)) {
      SK_RETURN_IF_ERROR(cancel().status());
      return error(SK_ERR_TIMEOUT, "{} did not come within {} ms", missing_,
                   timeout_ns / 1'000'000);
    }
  }
}

}  // namespace

BootstrapResult make_member_bootstrap(const JobEnv& job, const BootstrapConfig& config) {
  auto member = std::make_unique<MemberBootstrap>(job, config.cancel);
  SK_RETURN_IF_ERROR(member->meet(config.timeout_ns));
  return std::unique_ptr<Bootstrap>(std::move(member));
}

}  // namespace sk
