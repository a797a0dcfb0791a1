#include "transport/bootstrap/hub_door.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "lib/base/descriptors.h"
#include "lib/base/world.h"
#include "transport/bootstrap/address.h"

namespace sk {
namespace {

constexpr int64_t kHelloTimeNs = 5'000'000'000;  // A connection that says nothing is dropped.
// To answer a number that was sent: no less for want of a descriptor, else ranks of which each
// waits for the other's would send each other away.
constexpr int64_t kProofNs = 500'000'000;
constexpr size_t kStrangersMax = 1024;
constexpr int kAcceptsAtOnce = 128;  // Between two looks at those that are here.
constexpr size_t kNoncesMax = 16 * size_t{kWorldSizeMax};
constexpr int64_t kNoRoomNs = 50'000'000;  // Between two tries to take somebody in.
constexpr int64_t kNoRoomNsMax = 2'000'000'000;
constexpr size_t kSizesTold = 8;
constexpr size_t kHelloBytesMax = sizeof(MemberHello) + sizeof(MemberProof);

bool knocks(int listener) {
  pollfd one = {listener, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace

void HubDoor::add_polls(const Port& port, std::vector<pollfd>& polls) const {
  for (const int fd : port.fds()) polls.push_back({fd, short(has_room() ? POLLIN : 0), 0});
  for (const Stranger& s : strangers_) {
    polls.push_back({s.channel.fd(), s.channel.wanted_events(), 0});
  }
}

Status HubDoor::hear(const Port& port, std::span<const pollfd> polls) {
  const size_t ports = port.fds().size();
  size_t at = ports;
  for (auto it = strangers_.begin(); it != strangers_.end(); ++at) {
    it = is_over(*it, polls[at].revents != 0) ? strangers_.erase(it) : std::next(it);
  }
  for (size_t i = 0; i < ports; ++i)
    if (polls[i].revents != 0) SK_RETURN_IF_ERROR(accept_some(port.fds()[i]));
  return {};
}

bool HubDoor::has_room() const { return no_room_.ok() || bootstrap_clock_ns() >= room_at_ns_; }

std::string HubDoor::refused() const {
  const auto connections = [](int count) {
    return fmt::format("; {} connection{}", count, count == 1 ? "" : "s");
  };
  std::string text;
  // Whoever is missing is no less late because a stranger came.
  if (other_users_ > 0) text += connections(other_users_) + " of another user turned away";
  const auto list = [](const std::set<uint32_t>& ranks) {
    std::vector<bool> flags(ranks.empty() ? 0
                                          : std::min<size_t>(*ranks.rbegin(), kWorldSizeMax) + 1);
    for (const uint32_t rank : ranks)
      if (rank < flags.size()) flags[rank] = true;
    return rank_list(flags);
  };
  if (!ranks_of_other_jobs_.empty())
    text +=
        fmt::format("; {} of another job came, by {}", list(ranks_of_other_jobs_), job_.start_hint);
  if (other_jobs_ > 0) text += connections(other_jobs_) + " of another job turned away";
  for (const auto& [rank, size] : other_sizes_)
    text += fmt::format("; rank {} came with {} {}, which is {} here", rank,
                        job_.world_size_variable, size, world_size_);
  if (!ranks_come_twice_.empty())
    text += fmt::format("; {} ({}) came twice, from two processes", list(ranks_come_twice_),
                        job_.rank_variable);
  if (!no_room_.ok()) text += "; who comes now cannot be taken in: " + no_room_.message();
  if (unproven_ == 0) return text;
  text += connections(unproven_);
  text += job_.secret.empty() ? fmt::format(" had a job secret where rank {} has none", rank_)
                              : " could not show the job's secret";
  return text;
}

bool HubDoor::is_over(Stranger& stranger, bool ready) {
  return (ready && !hear(stranger).ok()) || bootstrap_clock_ns() > stranger.until_ns ||
         (stranger.leaving && !stranger.channel.has_output()) || stranger.channel.fd() < 0;
}

// A rank says its hello in its first packet, which mostly is there before it is accepted, and
// proves within a round trip that it is no repeated one. So where there is no room for one more the
// oldest of those without a right hello gives way, then the oldest that has only said one: a flood
// keeps nobody out who has the secret. Not all are taken in at once, for those who come must not
// keep the others from being heard.
Status HubDoor::accept_some(int listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      no_room_ = {};
      no_room_since_ns_ = 0;
      if (job_.one_host && !check_same_user(fd, job_).ok()) {
        ++other_users_;
        close(fd);
        continue;
      }
      if (strangers_.size() >= kStrangersMax) send_one_away(0);
      strangers_.emplace_back(fd, bootstrap_clock_ns() + kHelloTimeNs);
      if (is_over(strangers_.back(), true)) strangers_.pop_back();
      continue;
    }
    const int cause = errno;
    if (cause == EAGAIN || cause == EWOULDBLOCK) return {};
    const bool exhausted =
        cause == EMFILE || cause == ENFILE || cause == ENOBUFS || cause == ENOMEM;
    if (exhausted && !knocks(listener)) return {};  // It wants a descriptor before it looks.
    if (exhausted && send_one_away(kProofNs)) continue;
    errno = cause;
    if (exhausted) return no_room();
    if (cause == EBADF || cause == EINVAL) return system_error("accept");
    // Any other error belongs to that one connection.
  }
  return {};
}

// Whoever knocks waits in the queue meanwhile, and others may give back what they have. What this
// process alone lacks is told in time, not at the end of it.
Status HubDoor::no_room() {
  const bool own = errno == EMFILE && strangers_.empty();
  const int64_t now_ns = bootstrap_clock_ns();
  const bool goes_on = own && no_room_since_ns_ != 0 && now_ns - room_at_ns_ < kNoRoomNsMax / 2;
  no_room_ =
      errno == EMFILE ? Status(SK_ERR_NO_MEMORY, descriptors_text()) : system_error("accept");
  room_at_ns_ = now_ns + kNoRoomNs;
  if (!goes_on) no_room_since_ns_ = own ? now_ns : 0;
  if (!own || now_ns - no_room_since_ns_ < kNoRoomNsMax) return {};
  return error(SK_ERR_NO_MEMORY,
               "rank {}, where the others meet, has no descriptor for one that comes: {}", rank_,
               no_room_.message());
}

// One that said a right hello only if it has had `proof_ns` for its proof since it came.
bool HubDoor::send_one_away(int64_t proof_ns) {
  auto goes = std::find_if(strangers_.begin(), strangers_.end(),
                           [](const Stranger& s) { return !s.right_hello; });
  if (goes == strangers_.end()) goes = strangers_.begin();
  if (goes == strangers_.end()) return false;
  const int64_t came_ns = goes->until_ns - kHelloTimeNs;
  if (goes->right_hello && bootstrap_clock_ns() - came_ns < proof_ns) return false;
  strangers_.erase(goes);
  return true;
}

// An error: this connection is of no more use.
Status HubDoor::hear(Stranger& stranger) {
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

// Whom a hello comes from is known by its proof alone, also where the job is another.
Result<Verdict> HubDoor::verdict_on_other_job(const MemberHello& hello) {
  SK_ASSIGN_OR_RETURN(const Mac proof, hello_proof(job_.secret, hello));
  if (equal_mac(proof, hello.proof) && hello.rank < uint32_t(kWorldSizeMax)) {
    ranks_of_other_jobs_.insert(hello.rank);
  } else {
    ++other_jobs_;
  }
  return Verdict::kOtherJob;
}

Result<Verdict> HubDoor::verdict_on(const MemberHello& hello) {
  if (hello.job != job_.job) return verdict_on_other_job(hello);
  if ((hello.has_secret != 0) == job_.secret.empty()) return Verdict::kSecret;
  SK_ASSIGN_OR_RETURN(const Mac proof, hello_proof(job_.secret, hello));
  if (!equal_mac(proof, hello.proof)) return Verdict::kSecret;
  // Who repeats what it overheard can go no further, nor should it have a place for long. What
  // another listened to, here or at this port before, is new to this one.
  if (nonces_.size() >= kNoncesMax) nonces_.clear();
  if (!nonces_.insert(hello.nonce).second) return Verdict::kSecret;
  if (hello.world_size != uint32_t(world_size_)) {
    if (other_sizes_.size() < kSizesTold) other_sizes_[hello.rank] = hello.world_size;
    return Verdict::kWorldSize;
  }
  if (hello.name != job_.name) return Verdict::kLater;
  return Verdict::kJoined;
}

Status HubDoor::answer_hello(Stranger& stranger) {
  const MemberHello& hello = stranger.hello;
  if (hello.magic != kMagic) return error(SK_ERR_TRANSPORT, "not a rank");
  HubHello answer;
  SK_ASSIGN_OR_RETURN(answer.verdict, verdict_on(hello));
  answer.number = uint32_t(world_size_);
  SK_RETURN_IF_ERROR(fill_random(answer.nonce));
  stranger.said_hello = true;
  stranger.right_hello = answer.verdict == Verdict::kJoined;
  // Also with a refusal that ends the member's search: without the proof it is a stranger's word.
  if (stranger.right_hello || answer.verdict == Verdict::kWorldSize) {
    SK_ASSIGN_OR_RETURN(stranger.keys, derive_keys(job_.secret, hello, answer));
    answer.proof = stranger.keys.hub_proof;
  }
  stranger.channel.put(answer);
  if (answer.verdict == Verdict::kSecret) ++unproven_;
  stranger.leaving = answer.verdict != Verdict::kJoined;
  return stranger.channel.pump_output();
}

Status HubDoor::judge_proof(Stranger& stranger, const MemberProof& proof) {
  const uint32_t rank = stranger.hello.rank;
  HubVerdict verdict;
  verdict.rank = uint32_t(rank_);
  if (!equal_mac(proof, stranger.keys.member_proof)) {
    ++unproven_;
    verdict.verdict = Verdict::kSecret;
  } else if (rank == uint32_t(rank_) || rank >= uint32_t(world_size_) ||
             place_of_(rank) == Place::kTaken) {
    verdict.verdict = Verdict::kTaken;
    ranks_come_twice_.insert(rank);
  } else if (place_of_(rank) == Place::kLeftOut) {
    verdict.verdict = Verdict::kLeftOut;
  } else {
    ranks_come_twice_.erase(rank);  // It had gone, and this is what came after it.
  }
  stranger.channel.put(verdict);
  SK_RETURN_IF_ERROR(stranger.channel.pump_output());
  if (verdict.verdict != Verdict::kJoined) {
    stranger.leaving = true;
    return {};
  }
  stranger.channel.start_frames(stranger.keys.hub_frames, stranger.keys.member_frames);
  admit_(stranger.hello, std::move(stranger.channel));
  return {};
}

}  // namespace sk
