#include "lib/control/talk/comm_table.h"

namespace sk::control {

std::string CommTable::free_id(uint32_t rank, const std::string& id) const {
  std::string outside = id;
  while (owners_.contains(outside)) outside += "-rank" + std::to_string(rank);
  return outside;
}

bool CommTable::leave(const std::string& outside, uint32_t rank) {
  const auto found = owners_.find(outside);
  outside_.erase({rank, found->second.at(rank)});
  found->second.erase(rank);
  if (!found->second.empty()) return false;
  owners_.erase(found);
  return true;
}

std::optional<Comm> CommTable::from_rank(uint32_t rank, Comm message) {
  auto known = outside_.find({rank, message.id});
  if (message.kind == SK_COMM_OPEN) {
    if (known != outside_.end()) return std::nullopt;
    const std::string outside = free_id(rank, message.id);
    owners_[outside][rank] = message.id;
    known = outside_.emplace(std::pair(rank, message.id), outside).first;
  }
  if (known == outside_.end()) return std::nullopt;
  message.id = known->second;
  if (message.kind == SK_COMM_CLOSE && !leave(message.id, rank)) return std::nullopt;
  return message;
}

std::vector<std::pair<uint32_t, Comm>> CommTable::from_session(const Comm& message,
                                                               const RankSet& live) {
  std::vector<std::pair<uint32_t, Comm>> out;
  const auto known = owners_.find(message.id);
  if (message.kind == SK_COMM_OPEN && known == owners_.end()) {
    for (uint32_t rank : live) {
      if (outside_.contains({rank, message.id})) continue;  // It has one of that name already.
      owners_[message.id][rank] = message.id;
      outside_[{rank, message.id}] = message.id;
      out.emplace_back(rank, message);
    }
    return out;
  }
  if (known == owners_.end() || message.kind == SK_COMM_OPEN) return out;
  const std::map<uint32_t, std::string> ranks = known->second;
  for (const auto& [rank, inside] : ranks) {
    out.emplace_back(rank, message);
    out.back().second.id = inside;
    if (message.kind == SK_COMM_CLOSE) leave(message.id, rank);
  }
  return out;
}

std::vector<Comm> CommTable::forget(uint32_t rank) {
  std::vector<std::string> names;
  for (const auto& [outside, owners] : owners_)
    if (owners.contains(rank)) names.push_back(outside);
  std::vector<Comm> closed;
  for (const std::string& outside : names) {
    if (!leave(outside, rank)) continue;
    Comm message;
    message.kind = SK_COMM_CLOSE;
    message.id = outside;
    closed.push_back(std::move(message));
  }
  return closed;
}

}  // namespace sk::control
