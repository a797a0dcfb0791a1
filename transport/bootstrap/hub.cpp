// Until every member is there.
#include "transport/bootstrap/hub.h"

#include "lib/base/descriptors.h"
#include "transport/bootstrap/address.h"
#include "transport/bootstrap/wait_notice.h"

namespace sk {
namespace {

constexpr int64_t kTellNs = 5'000'000'000;  // For those who come too late to hear the farewell.
constexpr uint64_t kDescriptorsOfStrangers = 64;

}  // namespace

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

bool HubBootstrap::proven_address(Address& out) const {
  return std::ranges::any_of(members_, [&](const auto& member) {
    return member && member->own_address(out) && !out.loopback();
  });
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

BootstrapResult make_hub_bootstrap(const JobEnv& job, const BootstrapConfig& config,
                                   std::unique_ptr<Port> port, int64_t deadline_ns) {
  auto hub = std::make_unique<HubBootstrap>(job, config);
  SK_RETURN_IF_ERROR(hub->meet(std::move(port), config.timeout_ns, deadline_ns));
  return std::unique_ptr<Bootstrap>(std::move(hub));
}

}  // namespace sk
