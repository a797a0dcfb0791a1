// Ranks that cannot come to a collective of the cell: who has ended it, and who does not run it.
//
// Cells run one after another, so whoever is not in this one enters nothing until it is over. Ranks
// that are still in it are told, a moment after somebody else's end: those that wait for such a
// rank end their call with the cause, all others go on. A rank's entry comes before the end of its
// cell, so what it has entered is never taken for missing.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lib/control/controller.h"
#include "lib/control/text.h"

namespace sk::control {
namespace {

constexpr size_t kCausesMax = 8;  // Told in their own words.
constexpr size_t kCauseBytesMax = 120;
constexpr const char* kOtherCause = "an error";

// "ValueError: no data", on one line and not too long.
std::string short_cause(const ErrorRecord& error) {
  std::string text = error.evalue.empty() ? error.ename : error.ename + ": " + error.evalue;
  text = utf8_clean(text.substr(0, text.find('\n')));
  if (text.size() <= kCauseBytesMax) return text;
  text.resize(kCauseBytesMax);
  text.resize(text.size() - utf8_open_tail(text));
  return text + "…";
}

// When a rank failed, which it is, and by what.
using Failure = std::tuple<int64_t, uint32_t, const std::string*>;

// Ranks of one cause together, in the order of the earliest of each.
std::vector<Absent::Group> group_by_cause(std::vector<Failure> failures) {
  std::sort(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<Absent::Group> groups;
  std::map<std::string, size_t> index;
  for (const auto& [time_ns, rank, text] : failures) {
    const bool fits = index.size() < kCausesMax || index.contains(*text);
    const std::string cause = fits ? *text : kOtherCause;
    const auto [at, is_new] = index.try_emplace(cause, groups.size());
    if (is_new) groups.push_back({{}, "the cell has ended there with " + cause});
    groups[at->second].ranks.push_back(rank);
  }
  for (Absent::Group& group : groups) std::sort(group.ranks.begin(), group.ranks.end());
  return groups;
}

}  // namespace

void Controller::note_failure(uint32_t rank, const ErrorRecord& error, int64_t time_ns) {
  running_->causes.try_emplace(rank, Cause{time_ns, short_cause(error)});
}

void Controller::tell_absent_soon(int64_t now_ns) {
  if (running_->tell_absent_ns == INT64_MAX) running_->tell_absent_ns = now_ns + timers_.absent_ns;
}

// Not while it is interrupted, which ends every wait, unless its code goes on in spite of that.
void Controller::watch_absent(int64_t now_ns) {
  if (!running_ || now_ns < running_->tell_absent_ns) return;
  running_->tell_absent_ns = INT64_MAX;
  if ((running_->interrupts > 0 && !is_answered()) || running_->pending.empty()) return;
  const Absent absent{running_->request.cell, absent_now()};
  if (absent.groups.empty()) return;
  for (const uint32_t rank : running_->pending) agent_.send(rank, absent);
}

// Those that failed before all others, the earliest on top, for it is the cause. Not among them:
// the dead, whose end every communicator sees by itself, and who may come by a thread that runs
// beside the cells.
std::vector<Absent::Group> Controller::absent_now() const {
  std::vector<Failure> failures;
  RankSet ended, elsewhere, stuck;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& r = ranks_[rank];
    if (running_->pending.contains(rank) || r.lingers || in_comm_cell(rank)) continue;
    if (r.state == RankState::kStuck && r.settles_until_ns == 0) stuck.push_back(rank);
    if (r.state != RankState::kReady) continue;
    const auto cause = running_->causes.find(rank);
    if (!std::binary_search(running_->target.begin(), running_->target.end(), rank))
      elsewhere.push_back(rank);
    else if (cause == running_->causes.end())
      ended.push_back(rank);
    else
      failures.emplace_back(cause->second.time_ns, rank, &cause->second.text);
  }
  std::vector<Absent::Group> groups = group_by_cause(std::move(failures));
  const auto add = [&](RankSet& ranks, const char* why) {
    if (!ranks.empty()) groups.push_back({std::move(ranks), why});
  };
  add(ended, "the cell has ended there");
  add(elsewhere, "the cell does not run there");
  add(stuck, "it goes on in the background with an interrupted cell");
  return groups;
}

}  // namespace sk::control
