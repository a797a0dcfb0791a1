// Ranks that are lost: who is missing, why cells are refused, and how ranks are revived.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/control/controller.h"

namespace sk::control {

// Ranks that come up for the first time are waited for by every cell; a rank that is revived only
// by those that run on it, or on whoever is alive when nobody is.
bool Controller::must_wait(const Result<RankSet>& target) const {
  if (starting() || settle_deadline() != INT64_MAX) return true;
  const auto coming = [&](uint32_t rank) { return ranks_[rank].state == RankState::kStarting; };
  if (target.ok()) return std::any_of(target.value().begin(), target.value().end(), coming);
  const RankSet all = all_ranks(static_cast<uint32_t>(ranks_.size()));
  return target.status().code() == SK_ERR_PEER_LOST && std::any_of(all.begin(), all.end(), coming);
}

bool Controller::starting() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) {
    return r.state == RankState::kStarting && r.incarnation == 0;
  });
}

// Why a cell cannot run on all of `target`; "" when it can. It is never run on fewer.
std::string Controller::why_not(const RankSet& target) const {
  std::string why;
  RankSet stuck;
  for (uint32_t rank : target) {
    const Rank& r = ranks_[rank];
    if (r.state == RankState::kDead)
      why += fmt::format(
          "{}rank {} is dead: {}", why.empty() ? "" : "; ", rank,
          r.told ? r.dead_cause.substr(0, r.dead_cause.find_first_of(";\n")) : r.dead_cause);
    if (r.state == RankState::kStuck) stuck.push_back(rank);
  }
  if (!stuck.empty())
    why += fmt::format(
        "{}{} did not answer the interrupt of an earlier cell yet, which another one may end",
        why.empty() ? "" : "; ", name_ranks(stuck));
  return why;
}

// What one can do about it.
std::string Controller::way_out() const {
  const RankSet others = ranks_now().alive;
  std::string way = fmt::format(". {} starts again what is lost",
                                notebook_ ? "`%sk revive`" : "The call \"revive\"");
  const char* alive = notebook_ ? "`%%on alive`" : "the set \"alive\"";
  if (!others.empty()) way += fmt::format(", {} runs a cell on {}", alive, name_ranks(others));
  return way;
}

void Controller::tell_ranks(const RankSet& ranks, int32_t status, std::string text) {
  Event event;
  event.kind = SK_EVENT_RANK;
  event.ranks = format_ranks(ranks);
  event.status = status;
  event.text = std::move(text);
  emit(std::move(event));
}

// Communicators span all ranks. The survivors of a death hear at once that there is nobody to wait
// for, and once all are there again everybody connects under the new epoch's name.
void Controller::update_group() {
  if (starting() || ending_) return;
  RankSet missing;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].state == RankState::kDead || ranks_[rank].state == RankState::kStarting)
      missing.push_back(rank);
  if (epoch_ > 0 && missing == group_missing_) return;
  group_missing_ = std::move(missing);
  begin_epoch(false);
}

void Controller::begin_epoch(bool wanted) {
  ++epoch_;
  epoch_wanted_ = wanted;
  const Message group = group_now();
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) agent_.send(rank, group);
}

RankGroup Controller::group_now() const {
  return {epoch_, group_missing_, agent_.ports().torch, agent_.ports().jax, epoch_wanted_};
}

// Its communicators are over: by an interrupt, by a wait that ran out, because not all came. Every
// rank connects anew, also those that have not noticed; and what they meet under is one name. While
// ranks are missing the next epoch begins by itself.
void Controller::on_regroup(const Regroup& request) {
  if (request.epoch != epoch_ || !group_missing_.empty()) return;
  // A rank that is slower has not begun the cell yet, and would meet the others in it, who have
  // left.
  if (request.after_cell && running_)
    regroups_after_cell_ = epoch_;
  else
    begin_epoch(!request.after_cell);
}

void Controller::regroup_if_wanted() {
  if (std::exchange(regroups_after_cell_, 0) == epoch_ && group_missing_.empty() && epoch_ > 0)
    begin_epoch(false);
}

// ---- revive -----------------------------------------------------------------------------------

void Controller::on_revive(const Ask& ask, int64_t now_ns) {
  const bool named = !ask.code.empty();
  auto target = choose_ranks(ask.code, ranks_now());
  if (!target.ok())
    return refuse_question(ask.request, target.status().code(), target.status().message());
  const RankSet gone = lost_ranks();
  RankSet lost, well, coming;
  for (uint32_t rank : *target) {
    const bool is_lost = std::binary_search(gone.begin(), gone.end(), rank);
    const bool comes = ranks_[rank].state == RankState::kStarting;
    (is_lost ? lost : comes ? coming : well).push_back(rank);
  }
  std::string why;
  if (named && !well.empty())
    why = fmt::format("{} {} alive; only dead and stuck ranks are revived", name_ranks(well),
                      well.size() == 1 ? "is" : "are");
  else if (lost.empty() || (named && !coming.empty()))
    why = coming.empty() ? "no rank is dead or stuck: there is nothing to revive"
                         : name_ranks(coming) + (coming.size() == 1 ? " is" : " are") +
                               " coming up already: cells wait for that";
  if (!why.empty()) return refuse_question(ask.request, SK_ERR_INVALID_ARGUMENT, "revive: " + why);
  Reply reply;
  reply.request = ask.request;
  reply.strings = {format_ranks(lost)};
  reply.text = fmt::format("reviving {}: new processes, without the variables of the old ones",
                           name_ranks(lost));
  answer(std::move(reply));
  begin_again(lost, "", now_ns);
}

// Dead, or stuck for longer than survivors of a death may be.
RankSet Controller::lost_ranks() const {
  RankSet lost;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& r = ranks_[rank];
    if (r.state == RankState::kDead || (r.state == RankState::kStuck && r.settles_until_ns == 0))
      lost.push_back(rank);
  }
  return lost;
}

// `why`: where nobody has asked for it, what the session says of it.
void Controller::begin_again(const RankSet& lost, const std::string& why, int64_t now_ns) {
  // A survivor's server may still listen where the ranks met last. Without new ports, the old ones
  // are as good as ever.
  if (Result<ServerPorts> fresh = ports_.hold_ports(); fresh.ok()) agent_.set_ports(*fresh);
  tell_ranks(lost, SK_RANK_STARTING, why);
  for (const uint32_t rank : lost) {
    forget_stacks_of(rank);
    Rank fresh;
    fresh.incarnation = ranks_[rank].incarnation + 1;
    ranks_[rank] = std::move(fresh);
    update_group();  // Before the new process: one that was stuck is missing from here on.
    agent_.respawn(rank, now_ns);
  }
  report_state();
  start_next(now_ns);
}

}  // namespace sk::control
