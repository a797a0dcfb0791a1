#include "lib/control/merge/display_ids.h"

#include <algorithm>

namespace sk::control {
namespace {

constexpr size_t kIdsMax = 4096;

bool includes(const RankSet& all, const RankSet& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

}  // namespace

std::string shown_id(const std::string& id, const RankSet& ranks, bool all) {
  return id.empty() || all ? id : id + "@" + format_ranks(ranks);
}

void DisplayIds::learn(const std::vector<Event>& shown, const std::string& live_id) {
  for (const Event& event : shown) {
    const bool is_shown = event.kind == SK_EVENT_DISPLAY && event.display != SK_DISPLAY_UPDATE;
    if (!is_shown || event.display_id.empty() || event.display_id == live_id) continue;
    std::string own = event.display_id;
    const std::string mark = "@" + event.ranks;
    if (!event.all_ranks && own.ends_with(mark)) own.resize(own.size() - mark.size());
    auto ranks = parse_ranks(event.ranks, kRankCountMax);
    if (!ranks.ok() || (!owners_.contains(own) && owners_.size() == kIdsMax)) continue;
    std::map<std::string, RankSet>& shown_ids = owners_[own];
    for (auto it = shown_ids.begin(); it != shown_ids.end();) {  // A rank means its newest one.
      RankSet left;
      std::set_difference(it->second.begin(), it->second.end(), ranks->begin(), ranks->end(),
                          std::back_inserter(left));
      it->second = std::move(left);
      it = it->second.empty() ? shown_ids.erase(it) : std::next(it);
    }
    shown_ids[event.display_id] = std::move(*ranks);
  }
}

std::vector<std::string> DisplayIds::meant(const std::string& id, const RankSet& ranks) const {
  std::vector<std::string> out;
  const auto found = owners_.find(id);
  if (found == owners_.end()) return out;
  for (const auto& [shown, owners] : found->second) {
    RankSet common;
    std::set_intersection(owners.begin(), owners.end(), ranks.begin(), ranks.end(),
                          std::back_inserter(common));
    if (common.empty()) continue;
    if (!includes(ranks, owners)) return {};
    out.push_back(shown);
  }
  return out;
}

}  // namespace sk::control
