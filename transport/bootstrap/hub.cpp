// The rank at which a job that meets by environment meets: it listens until every member is there,
// then only carries their all-gathers. All waiting is one poll() loop in the caller's thread.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <set>

#include "transport/bootstrap/address.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/port.h"
#include "transport/bootstrap/wire.h"

namespace sk {
namespace {

constexpr int64_t kTickNs = 100'000'000;         // Between progress reports.
constexpr int64_t kHelloTimeNs = 5'000'000'000;  // A connection that says nothing is dropped.
constexpr size_t kStrangersMax = 1024;
constexpr int kAcceptsAtOnce = 128;  // Between two looks at those that are here.
constexpr size_t kNoncesMax = 16 * 65536;
constexpr size_t kHelloBytesMax = sizeof(MemberHello) + sizeof(MemberProof);
constexpr int64_t kFarewellNs = 200'000'000;

// A connection that has not shown who it is.
struct Stranger {
  Stranger(int fd, int64_t until_ns) : channel(fd), until_ns(until_ns) { channel.send_at_once(); }
  Channel channel;
  int64_t until_ns;
  bool said_hello = false;
  bool holds_secret = false;
  bool leaving = false;  // Refused: only its answer is still to be sent.
  MemberHello hello;
  SessionKeys keys{};
};

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

class HubBootstrap final : public Bootstrap {
 public:
  HubBootstrap(const JobEnv& job, CancelPtr cancel)
      : Bootstrap(job.rank, job.world_size, std::move(cancel)),
        job_(job),
        members_(size_t(job.world_size)),
        came_(size_t(job.world_size)) {}

  // Closes `port` when all are there.
  Status meet(std::unique_ptr<Port> port, int64_t timeout_ns, int64_t deadline_ns);
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override;

 private:
  // Meeting.
  Status wait_for_members(const Port& port, int64_t deadline_ns);
  Status accept_some(int listener);
  bool send_one_away();
  bool is_over(Stranger& stranger, bool ready);
  void hear_members();
  Status hear(Stranger& stranger);
  Status answer_hello(Stranger& stranger);
  Status judge_proof(Stranger& stranger, const MemberProof& proof);
  Result<Verdict> verdict_on(const MemberHello& hello);
  Status late(int64_t timeout_ns) const;

  // Gathering.
  Status collect(std::vector<std::string>& parts, std::vector<bool>& missing, int64_t deadline_ns);
  Status hear_member(size_t rank, std::vector<std::string>& parts, std::vector<bool>& missing);
  Status send_whole(std::span<const std::byte> whole, int64_t deadline_ns);
  Status end_with(Status status);

  void report_progress(const std::string& text);
  std::vector<bool> missing_members() const;
  std::string absent() const { return absent_list(missing_members(), came_); }
  Status flush(int64_t deadline_ns, const Cancel& cancel);

  JobEnv job_;
  std::vector<std::optional<Channel>> members_;  // This rank's own place stays empty.
  std::vector<bool> came_;                       // Also those that have gone again.
  std::vector<std::byte> host_ids_;
  std::list<Stranger> strangers_;
  std::set<std::array<std::byte, 32>> nonces_;  // Of those that held the secret.
  int unproven_ = 0;     // Connections that could not show the job's secret, or had one too many.
  int other_users_ = 0;  // Connections of other users, turned away unheard.
  std::string last_progress_;
  int64_t next_progress_ns_ = 0;
  Status failure_;
};

Status HubBootstrap::meet(std::unique_ptr<Port> port, int64_t timeout_ns, int64_t deadline_ns) {
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> host, host_id());
  host_ids_.resize(host.size() * members_.size());
  std::copy(host.begin(), host.end(), &host_ids_[size_t(rank()) * host.size()]);
  Status met = wait_for_members(*port, deadline_ns);
  if (met.ok() && any(missing_members())) met = late(timeout_ns);
  strangers_.clear();
  nonces_.clear();
  port.reset();  // It is free for the next communicator from here on.
  if (!met.ok()) return end_with(std::move(met));
  SK_RETURN_IF_ERROR(send_whole(host_ids_, deadline_ns));
  place(host_ids_);
  return {};
}

// Returns when all are there or the time has run out.
Status HubBootstrap::wait_for_members(const Port& port, int64_t deadline_ns) {
  while (true) {
    hear_members();  // At last when all seem to be there: one may have left meanwhile.
    const std::vector<bool> missing = missing_members();
    const int64_t now_ns = bootstrap_clock_ns();
    if (!any(missing) || now_ns >= deadline_ns) return {};
    report_progress(absent());
    std::vector<pollfd> polls;
    for (const int fd : port.fds()) polls.push_back({fd, POLLIN, 0});
    for (const Stranger& s : strangers_) {
      polls.push_back({s.channel.fd(), s.channel.wanted_events(), 0});
    }
    for (const auto& member : members_) {
      if (member) polls.push_back({member->fd(), member->wanted_events(), 0});
    }
    SK_ASSIGN_OR_RETURN([[maybe_unused]] const int ready,
                        cancel().poll(polls, std::min(kTickNs, deadline_ns - now_ns)));
    size_t at = port.fds().size();
    for (auto it = strangers_.begin(); it != strangers_.end(); ++at) {
      it = is_over(*it, polls[at].revents != 0) ? strangers_.erase(it) : std::next(it);
    }
    for (const int fd : port.fds()) SK_RETURN_IF_ERROR(accept_some(fd));
  }
}

bool HubBootstrap::is_over(Stranger& stranger, bool ready) {
  return (ready && !hear(stranger).ok()) || bootstrap_clock_ns() > stranger.until_ns ||
         (stranger.leaving && !stranger.channel.has_output()) || stranger.channel.fd() < 0;
}

// The oldest of those that have not shown the secret gives way, so a flood can keep nobody out who
// has it: such a one says so in its first packet, which mostly is there before it is accepted. Not
// all at once, for those who come must not keep the others from being heard.
Status HubBootstrap::accept_some(int listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      if (job_.one_host && !check_same_user(fd, job_).ok()) {
        ++other_users_;
        close(fd);
        continue;
      }
      if (strangers_.size() >= kStrangersMax) send_one_away();
      strangers_.emplace_back(fd, bootstrap_clock_ns() + kHelloTimeNs);
      if (is_over(strangers_.back(), true)) strangers_.pop_back();
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    const int cause = errno;
    if (exhausted && send_one_away()) continue;
    errno = cause;
    if (exhausted || errno == EBADF || errno == EINVAL) return system_error("accept");
    // Any other error belongs to that one connection.
  }
  return {};
}

bool HubBootstrap::send_one_away() {
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                                   [](const Stranger& s) { return !s.holds_secret; });
  if (oldest == strangers_.end()) return false;
  strangers_.erase(oldest);
  return true;
}

// A member that gave up may come again, so its place is free once its connection has ended. What it
// asks before it does is answered at once: reports are too rare for its own sentence to be exact.
void HubBootstrap::hear_members() {
  std::vector<size_t> asking;
  for (size_t r = 0; r < members_.size(); ++r) {
    if (!members_[r]) continue;
    const bool here = members_[r]->pump().ok();
    const Result<std::optional<Frame>> frame = members_[r]->take_frame(0);
    if (frame.ok() && frame.value() && (*frame.value()).kind == FrameKind::kWho)
      asking.push_back(r);
    if (!here || !frame.ok()) members_[r].reset();
  }
  for (const size_t r : asking) {
    if (!members_[r]) continue;
    const Status sent =
        members_[r]->put_frame(FrameKind::kProgress, /*answer*/ 1, as_bytes(absent()));
    if (!sent.ok()) members_[r].reset();
  }
}

// An error: this connection is of no more use.
Status HubBootstrap::hear(Stranger& stranger) {
  SK_RETURN_IF_ERROR(stranger.channel.pump(kHelloBytesMax));
  if (stranger.leaving) return {};
  if (stranger.channel.input_bytes() > kHelloBytesMax) {
    return error(SK_ERR_TRANSPORT, "not a rank");
  }
  if (!stranger.said_hello && stranger.channel.take(stranger.hello)) {
    SK_RETURN_IF_ERROR(answer_hello(stranger));
  }
  MemberProof proof;
  if (stranger.said_hello && stranger.channel.take(proof)) return judge_proof(stranger, proof);
  return {};
}

Result<Verdict> HubBootstrap::verdict_on(const MemberHello& hello) {
  if (hello.job != job_.job) return Verdict::kOtherJob;
  if ((hello.has_secret != 0) == job_.secret.empty()) return Verdict::kSecret;
  SK_ASSIGN_OR_RETURN(const Mac proof, hello_proof(job_.secret, hello));
  if (!equal_mac(proof, hello.proof)) return Verdict::kSecret;
  // Who repeats what it overheard can go no further, but should not have a place either.
  if (nonces_.size() >= kNoncesMax) nonces_.clear();
  if (!nonces_.insert(hello.nonce).second) return Verdict::kSecret;
  if (hello.world_size != uint32_t(world_size())) return Verdict::kWorldSize;
  if (hello.name != job_.name) return Verdict::kLater;
  return Verdict::kJoined;
}

Status HubBootstrap::answer_hello(Stranger& stranger) {
  const MemberHello& hello = stranger.hello;
  if (hello.magic != kMagic) return error(SK_ERR_TRANSPORT, "not a rank");
  HubHello answer;
  SK_ASSIGN_OR_RETURN(answer.verdict, verdict_on(hello));
  answer.number = uint32_t(world_size());
  SK_RETURN_IF_ERROR(fill_random(answer.nonce));
  stranger.said_hello = true;
  stranger.holds_secret = answer.verdict == Verdict::kJoined;
  if (stranger.holds_secret) {
    SK_ASSIGN_OR_RETURN(stranger.keys, derive_keys(job_.secret, hello, answer));
    answer.proof = stranger.keys.hub_proof;
  }
  stranger.channel.put(answer);
  if (answer.verdict == Verdict::kSecret) ++unproven_;
  stranger.leaving = answer.verdict != Verdict::kJoined;
  return stranger.channel.pump_output();
}

Status HubBootstrap::judge_proof(Stranger& stranger, const MemberProof& proof) {
  const uint32_t rank = stranger.hello.rank;
  HubVerdict verdict;
  verdict.rank = uint32_t(this->rank());
  if (!equal_mac(proof, stranger.keys.member_proof)) {
    ++unproven_;
    verdict.verdict = Verdict::kSecret;
  } else if (rank == uint32_t(this->rank()) || rank >= members_.size() || members_[rank]) {
    verdict.verdict = Verdict::kTaken;
  }
  stranger.channel.put(verdict);
  SK_RETURN_IF_ERROR(stranger.channel.pump_output());
  if (verdict.verdict != Verdict::kJoined) {
    stranger.leaving = true;
    return {};
  }
  stranger.channel.start_frames(stranger.keys.hub_frames, stranger.keys.member_frames);
  std::copy(stranger.hello.host.begin(), stranger.hello.host.end(),
            &host_ids_[rank * stranger.hello.host.size()]);
  members_[rank].emplace(std::move(stranger.channel));
  came_[rank] = true;
  last_progress_.clear();  // The newcomer has not heard it.
  return {};
}

Status HubBootstrap::late(int64_t timeout_ns) const {
  std::string text =
      fmt::format("{} within {} ms; {} is {}", absent(), timeout_ns / 1'000'000,
                  job_.one_host ? "where ranks wait" : "where rank 0 waits", job_.place());
  const auto connections = [](int count) {
    return fmt::format("; {} connection{}", count, count == 1 ? "" : "s");
  };
  // Whoever is missing is no less late because a stranger came.
  if (other_users_ > 0) text += connections(other_users_) + " of another user turned away";
  if (unproven_ == 0) return Status(SK_ERR_TIMEOUT, std::move(text));
  text += connections(unproven_);
  text += job_.secret.empty() ? fmt::format(" had a job secret where rank {} has none", rank())
                              : " could not show the job's secret";
  return Status(SK_ERR_TRUST, std::move(text));
}

std::vector<bool> HubBootstrap::missing_members() const {
  std::vector<bool> missing(members_.size());
  for (size_t r = 0; r < members_.size(); ++r) missing[r] = int(r) != rank() && !members_[r];
  return missing;
}

// Members whose own time runs out can then name who was missing. Rarely: it is n messages each.
void HubBootstrap::report_progress(const std::string& text) {
  const int64_t now_ns = bootstrap_clock_ns();
  if (now_ns < next_progress_ns_ || text == last_progress_) return;
  next_progress_ns_ = now_ns + kTickNs;
  for (auto& member : members_) {
    // A failed send shows again when the member is read.
    if (member && !member->put_frame(FrameKind::kProgress, 0, as_bytes(text)).ok()) continue;
  }
  last_progress_ = text;
}

Result<std::vector<std::byte>> HubBootstrap::allgather(std::span<const std::byte> mine,
                                                       int64_t timeout_ns) {
  if (!failure_.ok()) return failure_.clone();
  if (mine.size() > kPartBytesMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "{} bytes to gather: at most {} are allowed", mine.size(),
                 kPartBytesMax);
  }
  const int64_t deadline_ns = bootstrap_clock_ns() + timeout_ns;
  const size_t own = size_t(rank());
  std::vector<std::string> parts(members_.size());
  parts[own].assign(reinterpret_cast<const char*>(mine.data()), mine.size());
  std::vector<bool> missing(members_.size(), true);
  missing[own] = false;
  Status collected = collect(parts, missing, deadline_ns);
  if (collected.ok() && any(missing)) {
    collected = error(SK_ERR_TIMEOUT, "{} did not come to the all-gather within {} ms",
                      rank_list(missing), timeout_ns / 1'000'000);
  }
  if (!collected.ok()) return end_with(std::move(collected));
  std::vector<std::byte> whole;
  for (const std::string& part : parts) {
    const auto bytes = as_bytes(part);
    whole.insert(whole.end(), bytes.begin(), bytes.end());
  }
  SK_RETURN_IF_ERROR(send_whole(whole, deadline_ns));
  return whole;
}

// Returns when no part is missing or the time has run out.
Status HubBootstrap::collect(std::vector<std::string>& parts, std::vector<bool>& missing,
                             int64_t deadline_ns) {
  for (size_t r = 0; r < members_.size(); ++r) {
    if (members_[r]) SK_RETURN_IF_ERROR(hear_member(r, parts, missing));
  }
  while (any(missing)) {
    std::vector<pollfd> polls;
    std::vector<size_t> ranks;
    for (size_t r = 0; r < members_.size(); ++r) {
      if (!members_[r]) continue;
      polls.push_back({members_[r]->fd(), members_[r]->wanted_events(), 0});
      ranks.push_back(r);
    }
    const int64_t now_ns = bootstrap_clock_ns();
    if (now_ns >= deadline_ns) return {};
    SK_ASSIGN_OR_RETURN(const int ready,
                        cancel().poll(polls, std::min(kTickNs, deadline_ns - now_ns)));
    for (size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents != 0) SK_RETURN_IF_ERROR(hear_member(ranks[i], parts, missing));
    }
    // Only where somebody is late.
    if (ready == 0) report_progress(rank_list(missing) + " did not come to the all-gather");
  }
  return {};
}

Status HubBootstrap::hear_member(size_t rank, std::vector<std::string>& parts,
                                 std::vector<bool>& missing) {
  Channel& member = *members_[rank];
  const Status pumped = member.pump();
  SK_ASSIGN_OR_RETURN(std::optional<Frame> frame, member.take_frame(kPartBytesMax));
  if (!frame) {
    return pumped.ok() ? Status()
                       : error(SK_ERR_PEER_LOST, "rank {} is gone: {}", rank, pumped.message());
  }
  // It leaves now, so nobody can have the whole any more.
  if (frame->kind == FrameKind::kWho) {
    return error(SK_ERR_TIMEOUT, "{} did not come to the all-gather within {} ms",
                 rank_list(missing), frame->code);
  }
  if (frame->kind != FrameKind::kPart || !missing[rank]) {
    return error(SK_ERR_TRANSPORT, "rank {} sent a frame of kind {}", rank, uint32_t(frame->kind));
  }
  const std::string& own = parts[size_t(this->rank())];
  if (frame->payload.size() != own.size()) {
    return error(SK_ERR_DESYNC, "rank {} gathers {} bytes where rank {} gathers {}", rank,
                 frame->payload.size(), this->rank(), own.size());
  }
  parts[rank] = std::move(frame->payload);
  missing[rank] = false;
  return {};
}

Status HubBootstrap::send_whole(std::span<const std::byte> whole, int64_t deadline_ns) {
  Status sent;
  for (size_t r = 0; r < members_.size() && sent.ok(); ++r) {
    if (!members_[r]) continue;
    sent = members_[r]->put_frame(FrameKind::kWhole, 0, whole);
    if (!sent.ok()) sent = error(SK_ERR_PEER_LOST, "rank {} is gone: {}", r, sent.message());
  }
  if (sent.ok()) sent = flush(deadline_ns, cancel());
  return sent.ok() ? Status() : end_with(std::move(sent));
}

// Sends what is left in buffers: nobody else does once the caller has gone on.
Status HubBootstrap::flush(int64_t deadline_ns, const Cancel& cancel) {
  while (true) {
    std::vector<pollfd> polls;
    std::vector<bool> waiting(members_.size());
    for (size_t r = 0; r < members_.size(); ++r) {
      if (!members_[r] || !members_[r]->has_output()) continue;
      const Status sent = members_[r]->pump_output();
      if (!sent.ok()) return error(SK_ERR_PEER_LOST, "rank {} is gone: {}", r, sent.message());
      if (!members_[r]->has_output()) continue;
      waiting[r] = true;
      polls.push_back({members_[r]->fd(), POLLOUT, 0});
    }
    if (polls.empty()) return {};
    const int64_t now_ns = bootstrap_clock_ns();
    if (now_ns >= deadline_ns) {
      return error(SK_ERR_TIMEOUT, "{} did not take what was gathered", rank_list(waiting));
    }
    SK_ASSIGN_OR_RETURN([[maybe_unused]] const int ready,
                        cancel.poll(polls, std::min(kTickNs, deadline_ns - now_ns)));
  }
}

// Every member hears the same sentence, as far as it can still be reached in a moment; also that
// of a creation that was cancelled.
Status HubBootstrap::end_with(Status status) {
  for (auto& member : members_) {
    if (!member) continue;
    if (!member->put_frame(FrameKind::kError, status.code(), as_bytes(status.message())).ok()) {
      member.reset();
    }
  }
  const Status farewell = flush(bootstrap_clock_ns() + kFarewellNs, Cancel::never());
  failure_ = farewell.ok() || status.code() != SK_OK ? std::move(status) : farewell.clone();
  return failure_.clone();
}

}  // namespace

BootstrapResult make_hub_bootstrap(const JobEnv& job, const BootstrapConfig& config,
                                   std::unique_ptr<Port> port, int64_t deadline_ns) {
  auto hub = std::make_unique<HubBootstrap>(job, config.cancel);
  SK_RETURN_IF_ERROR(hub->meet(std::move(port), config.timeout_ns, deadline_ns));
  return std::unique_ptr<Bootstrap>(std::move(hub));
}

}  // namespace sk
