#include "transport/absence.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sk {
namespace {

constexpr std::chrono::milliseconds kSilence{200};

}  // namespace

void Absence::set(std::vector<AbsentPeers> groups) {
  const std::lock_guard lock(mutex_);
  groups_ = std::move(groups);
}

AwaitedPeers Absence::waiting() const {
  const std::lock_guard lock(mutex_);
  // Nobody says that a wait is over: it is, when the thread is silent for longer than a busy
  // machine keeps a waiting one from running.
  const bool over = std::chrono::steady_clock::now() - awaited_at_ > kSilence;
  return over ? AwaitedPeers{} : awaited_;
}

std::optional<AbsentPeers> Absence::among(const std::string& call,
                                          const std::vector<uint32_t>& lacking) const {
  if (std::this_thread::get_id() != home_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  awaited_ = {lacking.empty() ? "" : call, lacking};
  awaited_at_ = std::chrono::steady_clock::now();
  for (const AbsentPeers& group : groups_) {
    AbsentPeers found{{}, group.why};
    std::set_intersection(group.ranks.begin(), group.ranks.end(), lacking.begin(), lacking.end(),
                          std::back_inserter(found.ranks));
    if (!found.ranks.empty()) return found;
  }
  return std::nullopt;
}

}  // namespace sk
