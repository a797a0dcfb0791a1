#include "transport/absence.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sk {

void Absence::set(std::vector<AbsentPeers> groups) {
  const std::lock_guard lock(mutex_);
  groups_ = std::move(groups);
}

std::optional<AbsentPeers> Absence::among(const std::vector<uint32_t>& lacking) const {
  if (std::this_thread::get_id() != home_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  for (const AbsentPeers& group : groups_) {
    AbsentPeers found{{}, group.why};
    std::set_intersection(group.ranks.begin(), group.ranks.end(), lacking.begin(), lacking.end(),
                          std::back_inserter(found.ranks));
    if (!found.ranks.empty()) return found;
  }
  return std::nullopt;
}

}  // namespace sk
