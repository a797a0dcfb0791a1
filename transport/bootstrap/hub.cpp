// The rank at which a job that meets by environment meets: it listens until every member is there,
// then only carries their all-gathers. All waiting is one poll() loop in the caller's thread.
//
// Where those meet that are left of ranks which have met before, it alone says who is: all others
// see it by the zeros that it gives for the rest.
#include <poll.h>

#include <algorithm>
#include <cstring>

#include "lib/base/descriptors.h"
#include "transport/bootstrap/hub_door.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/port.h"
#include "transport/bootstrap/wait_notice.h"
#include "transport/bootstrap/wire.h"

namespace sk {
namespace {

constexpr int64_t kTickNs = 100'000'000;  // Between progress reports.
constexpr int64_t kFarewellNs = 200'000'000;
constexpr int64_t kTellNs = 5'000'000'000;  // For those who come too late to hear the farewell.
constexpr uint64_t kDescriptorsOfStrangers = 64;

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

class HubBootstrap final : public Bootstrap {
 public:
  HubBootstrap(const JobEnv& job, const BootstrapConfig& config)
      : Bootstrap(job.rank, job.world_size, config.cancel),
        job_(job),
        config_(config),
        members_(size_t(job.world_size)),
        came_(size_t(job.world_size)),
        left_out_(size_t(job.world_size)) {}

  // Closes `port` when all are there.
  Status meet(std::unique_ptr<Port> port, int64_t timeout_ns, int64_t deadline_ns);
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override;
  void add_polls(std::vector<pollfd>& polls) const override;
  Status news() override;

 private:
  // Meeting.
  Status wait_for_members(HubDoor& door, const Port& port, int64_t deadline_ns);
  void hear_members();
  void look_who_is_gone();
  Status make_room();
  void tell_whoever_comes(HubDoor& door, const Port& port, const Status& why, int64_t deadline_ns);
  HubDoor::Place place_of(uint32_t rank) const;
  void admit(const MemberHello& hello, Channel channel);
  Status late(const HubDoor& door, int64_t timeout_ns) const;

  // Gathering.
  Status collect(std::vector<std::string>& parts, std::vector<bool>& missing, int64_t deadline_ns);
  Status hear_member(size_t rank, std::vector<std::string>& parts, std::vector<bool>& missing);
  Status hear_frame(size_t rank, Frame frame, std::vector<std::string>& parts,
                    std::vector<bool>& missing) const;
  Status send_whole(std::span<const std::byte> whole, int64_t deadline_ns);
  Status lost_while_sending(size_t rank, const Status& why);
  Status end_with(Status status);

  void report_progress(const std::string& text);
  std::vector<bool> missing_members() const;
  std::string absent() const { return absent_list(missing_members(), came_); }
  Status flush(int64_t deadline_ns, const Cancel& cancel, bool reports);

  JobEnv job_;
  const BootstrapConfig config_;
  std::vector<std::optional<Channel>> members_;  // This rank's own place stays empty.
  std::vector<bool> came_;                       // Also those that have gone again.
  std::vector<bool> left_out_;                   // Not waited for, and not let in any more.
  std::vector<std::byte> host_ids_;
  uint32_t wholes_ = 0;  // That every member was sent.
  std::string last_progress_;
  int64_t next_progress_ns_ = 0;
  int64_t next_look_ns_ = 0;
  int64_t patience_ends_ns_ = 0;  // With those who are unreachable.
  Status failure_;
};

Status HubBootstrap::meet(std::unique_ptr<Port> port, int64_t timeout_ns, int64_t deadline_ns) {
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> host, host_id());
  host_ids_.resize(host.size() * members_.size());
  patience_ends_ns_ = bootstrap_clock_ns() + unreachable_ns(timeout_ns);
  std::copy(host.begin(), host.end(), &host_ids_[size_t(rank()) * host.size()]);
  Status met;
  {
    HubDoor door(
        job_, rank(), world_size(), [this](uint32_t r) { return place_of(r); },
        [this](const MemberHello& hello, Channel channel) { admit(hello, std::move(channel)); });
    met = make_room();
    if (met.ok()) met = wait_for_members(door, *port, deadline_ns);
    if (met.code() == SK_ERR_NO_MEMORY) tell_whoever_comes(door, *port, met, deadline_ns);
    if (met.ok() && any(missing_members())) met = late(door, timeout_ns);
  }
  port.reset();  // It is free for the next communicator from here on.
  if (!met.ok()) return end_with(std::move(met));
  SK_RETURN_IF_ERROR(send_whole(host_ids_, deadline_ns));
  place(host_ids_);
  return {};
}

// Of those that are left of others it is not known yet how many come.
Status HubBootstrap::make_room() {
  if (job_.one_host) return {};
  const uint64_t others = members_.size() - 1;
  return make_room_for_descriptors(
      config_.gone ? 0 : others, others + kDescriptorsOfStrangers,
      fmt::format("rank {}, where {} ranks meet,", rank(), world_size()));
}

// Those that come while it ends: they would find nobody, and ask until their time is up.
void HubBootstrap::tell_whoever_comes(HubDoor& door, const Port& port, const Status& why,
                                      int64_t deadline_ns) {
  [[maybe_unused]] const Status told = end_with(why.clone());
  for (auto& member : members_) member.reset();
  const int64_t end_ns = std::min(deadline_ns, bootstrap_clock_ns() + kTellNs);
  while (true) {
    const int64_t now_ns = bootstrap_clock_ns();
    bool all = true;
    for (size_t r = 0; r < came_.size(); ++r)
      all = all && (int(r) == rank() || came_[r] || left_out_[r]);
    if (all || now_ns >= end_ns) return;
    std::vector<pollfd> polls;
    door.add_polls(port, polls);
    if (!cancel().poll(polls, std::min(kTickNs, end_ns - now_ns)).ok()) return;
    if (!door.hear(port, polls).ok()) return;
  }
}

// Returns when all are there or the time has run out.
Status HubBootstrap::wait_for_members(HubDoor& door, const Port& port, int64_t deadline_ns) {
  WaitNotice notice(config_, deadline_ns);
  while (true) {
    hear_members();  // At last when all seem to be there: one may have left meanwhile.
    look_who_is_gone();
    const std::vector<bool> missing = missing_members();
    const int64_t now_ns = bootstrap_clock_ns();
    if (!any(missing) || now_ns >= deadline_ns) return {};
    report_progress(absent());
    notice.look([&] {
      return fmt::format("rank {} of {} waits: {}; {}{}", rank(), world_size(), absent(),
                         job_.awaited_at(), door.refused());
    });
    std::vector<pollfd> polls;
    door.add_polls(port, polls);
    add_polls(polls);
    SK_ASSIGN_OR_RETURN([[maybe_unused]] const int ready,
                        cancel().poll(polls, std::min(kTickNs, deadline_ns - now_ns)));
    SK_RETURN_IF_ERROR(door.hear(port, polls));
  }
}

// A member that gave up may come again, so its place is free once its connection has ended. What it
// asks before it does is answered at once: reports are too rare for its own sentence to be exact.
void HubBootstrap::hear_members() {
  std::vector<size_t> asking;
  for (size_t r = 0; r < members_.size(); ++r) {
    if (!members_[r]) continue;
    const bool here = members_[r]->pump().ok();
    const Result<std::optional<Frame>> frame = members_[r]->take_frame(sizeof(WhoAsks));
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

// Rarely: it may ask the system once for each that is missing. What is seen once stays, so that
// whoever comes late hears the same as the others.
void HubBootstrap::look_who_is_gone() {
  const int64_t now_ns = bootstrap_clock_ns();
  if (!config_.gone || now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + kTickNs;
  const std::vector<bool> missing = missing_members();
  for (size_t r = 0; r < missing.size(); ++r) {
    if (!missing[r]) continue;
    const Gone gone = config_.gone(int(r));
    left_out_[r] =
        gone == Gone::kYes || (gone == Gone::kUnreachable && now_ns >= patience_ends_ns_);
  }
}

HubDoor::Place HubBootstrap::place_of(uint32_t rank) const {
  if (left_out_[rank]) return HubDoor::Place::kLeftOut;
  return members_[rank] ? HubDoor::Place::kTaken : HubDoor::Place::kFree;
}

void HubBootstrap::admit(const MemberHello& hello, Channel channel) {
  came_[hello.rank] = true;
  if (!failure_.ok()) {
    // What cannot be sent at once is more than a socket's buffer, or for nobody.
    [[maybe_unused]] const Status told =
        channel.put_frame(FrameKind::kError, failure_.code(), as_bytes(failure_.message()));
    return;
  }
  std::copy(hello.host.begin(), hello.host.end(), &host_ids_[hello.rank * hello.host.size()]);
  members_[hello.rank].emplace(std::move(channel));
  last_progress_.clear();  // The newcomer has not heard it.
}

// Whatever was refused meanwhile may be the one that is missed.
Status HubBootstrap::late(const HubDoor& door, int64_t timeout_ns) const {
  std::string text = fmt::format("{} within {} ms; {}{}", absent(), timeout_ns / 1'000'000,
                                 job_.awaited_at(), door.refused());
  // On one host only processes of this user are heard; at a port anybody is.
  const bool distrusted = door.refused_unproven() && job_.one_host;
  return Status(distrusted ? SK_ERR_TRUST : SK_ERR_TIMEOUT, std::move(text));
}

std::vector<bool> HubBootstrap::missing_members() const {
  std::vector<bool> missing(members_.size());
  for (size_t r = 0; r < members_.size(); ++r)
    missing[r] = int(r) != rank() && !members_[r] && !left_out_[r];
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
  last_progress_.clear();  // Members have forgotten what they heard in an earlier one.
  const size_t own = size_t(rank());
  std::vector<std::string> parts(members_.size());
  parts[own].assign(reinterpret_cast<const char*>(mine.data()), mine.size());
  std::vector<bool> missing = left_out_;
  missing.flip();
  missing[own] = false;
  for (size_t r = 0; r < parts.size(); ++r)
    if (left_out_[r]) parts[r].assign(mine.size(), '\0');
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

void HubBootstrap::add_polls(std::vector<pollfd>& polls) const {
  for (const auto& member : members_)
    if (member) polls.push_back({member->fd(), member->wanted_events(), 0});
}

// What members say stays for the next gather: they may be in it already.
Status HubBootstrap::news() {
  if (!failure_.ok()) return failure_.clone();
  for (size_t r = 0; r < members_.size(); ++r) {
    if (!members_[r]) continue;
    const Status pumped = members_[r]->pump();
    if (pumped.ok()) continue;
    return end_with(error(SK_ERR_PEER_LOST, "rank {} is gone: {}", r, pumped.message()));
  }
  return {};
}

// Returns when no part is missing or the time has run out.
Status HubBootstrap::collect(std::vector<std::string>& parts, std::vector<bool>& missing,
                             int64_t deadline_ns) {
  for (size_t r = 0; r < members_.size(); ++r) {
    if (members_[r]) SK_RETURN_IF_ERROR(hear_member(r, parts, missing));
    if (missing[r] && !members_[r]) return error(SK_ERR_PEER_LOST, "rank {} is gone", r);
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

// All that has come: nothing tells of it again.
Status HubBootstrap::hear_member(size_t rank, std::vector<std::string>& parts,
                                 std::vector<bool>& missing) {
  Channel& member = *members_[rank];
  const Status pumped = member.pump();
  for (bool heard = false;; heard = true) {
    SK_ASSIGN_OR_RETURN(std::optional<Frame> frame, member.take_frame(kPartBytesMax));
    if (!frame && (heard || pumped.ok())) return {};
    if (!frame) break;
    SK_RETURN_IF_ERROR(hear_frame(rank, std::move(*frame), parts, missing));
  }
  // Of those that are left, one that has given its part keeps it from nobody: the next step misses
  // it.
  if (!config_.gone || missing[rank])
    return error(SK_ERR_PEER_LOST, "rank {} is gone: {}", rank, pumped.message());
  members_[rank].reset();
  return {};
}

Status HubBootstrap::hear_frame(size_t rank, Frame frame, std::vector<std::string>& parts,
                                std::vector<bool>& missing) const {
  WhoAsks asks;
  if (frame.kind == FrameKind::kWho && frame.payload.size() == sizeof(asks)) {
    std::memcpy(&asks, frame.payload.data(), sizeof(asks));
    if (asks.wholes != wholes_) return {};  // Since then it has had what it waited for.
    // It leaves now, so nobody can have the whole any more.
    return error(SK_ERR_TIMEOUT, "{} did not come to the all-gather within {} ms",
                 rank_list(missing), frame.code);
  }
  if (frame.kind != FrameKind::kPart || !missing[rank]) {
    return error(SK_ERR_TRANSPORT, "rank {} sent a frame of kind {}", rank, uint32_t(frame.kind));
  }
  const std::string& own = parts[size_t(this->rank())];
  if (frame.payload.size() != own.size()) {
    return error(SK_ERR_DESYNC, "rank {} gathers {} bytes where rank {} gathers {}", rank,
                 frame.payload.size(), this->rank(), own.size());
  }
  parts[rank] = std::move(frame.payload);
  missing[rank] = false;
  return {};
}

// Where ranks go on without others, one that ends behind its part must not keep the whole from
// some of those that are left: they would go apart. Its end shows in what comes next.
Status HubBootstrap::send_whole(std::span<const std::byte> whole, int64_t deadline_ns) {
  Status sent;
  ++wholes_;
  for (size_t r = 0; r < members_.size() && sent.ok(); ++r) {
    if (!members_[r]) continue;
    sent = members_[r]->put_frame(FrameKind::kWhole, 0, whole);
    if (!sent.ok()) sent = lost_while_sending(r, sent);
  }
  last_progress_.clear();
  if (sent.ok()) sent = flush(deadline_ns, cancel(), /*reports*/ true);
  return sent.ok() ? Status() : end_with(std::move(sent));
}

Status HubBootstrap::lost_while_sending(size_t rank, const Status& why) {
  if (!config_.gone) return error(SK_ERR_PEER_LOST, "rank {} is gone: {}", rank, why.message());
  members_[rank].reset();
  return {};
}

// Sends what is left in buffers: nobody else does once the caller has gone on. Who has the whole is
// in its next gather, and is to know for whom it waits there.
Status HubBootstrap::flush(int64_t deadline_ns, const Cancel& cancel, bool reports) {
  std::vector<bool> took(members_.size());
  while (true) {
    std::vector<pollfd> polls;
    std::vector<bool> waiting(members_.size());
    for (size_t r = 0; r < members_.size(); ++r) {
      if (!members_[r]) continue;
      const Status sent = members_[r]->pump_output();
      if (took[r]) continue;  // It may have left with it.
      if (!sent.ok()) SK_RETURN_IF_ERROR(lost_while_sending(r, sent));
      took[r] = !members_[r] || !members_[r]->has_output();
      if (took[r]) continue;
      waiting[r] = true;
      polls.push_back({members_[r]->fd(), POLLOUT, 0});
    }
    if (polls.empty()) return {};
    const int64_t now_ns = bootstrap_clock_ns();
    if (now_ns >= deadline_ns) {
      return error(SK_ERR_TIMEOUT, "{} did not take what was gathered", rank_list(waiting));
    }
    SK_ASSIGN_OR_RETURN(const int ready,
                        cancel.poll(polls, std::min(kTickNs, deadline_ns - now_ns)));
    if (ready == 0 && reports)
      report_progress(rank_list(waiting) + " did not take what was gathered");
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
  const Status farewell =
      flush(bootstrap_clock_ns() + kFarewellNs, Cancel::never(), /*reports*/ false);
  failure_ = farewell.ok() || status.code() != SK_OK ? std::move(status) : farewell.clone();
  return failure_.clone();
}

}  // namespace

BootstrapResult make_hub_bootstrap(const JobEnv& job, const BootstrapConfig& config,
                                   std::unique_ptr<Port> port, int64_t deadline_ns) {
  auto hub = std::make_unique<HubBootstrap>(job, config);
  SK_RETURN_IF_ERROR(hub->meet(std::move(port), config.timeout_ns, deadline_ns));
  return std::unique_ptr<Bootstrap>(std::move(hub));
}

}  // namespace sk
