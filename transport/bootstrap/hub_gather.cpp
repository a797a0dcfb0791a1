// What the ranks that have met tell each other: the hub has each part, and sends all the whole.
#include <cstring>

#include "transport/bootstrap/hub.h"

namespace sk {
namespace {

constexpr int64_t kFarewellNs = 200'000'000;

}  // namespace

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

}  // namespace sk
