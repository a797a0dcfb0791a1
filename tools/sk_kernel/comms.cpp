#include "tools/sk_kernel/comms.h"

#include "tools/sk_kernel/content.h"

namespace sk::kernel {
namespace {

template <typename Map>
std::optional<typename Map::mapped_type> take(Map& map, uint64_t key) {
  const auto found = map.find(key);
  if (found == map.end()) return std::nullopt;
  auto value = std::move(found->second);
  map.erase(found);
  return value;
}

}  // namespace

std::vector<Json> Comms::clear() {
  std::vector<Json> headers;
  for (auto& [cell, header] : std::exchange(open_cells_, {})) headers.push_back(std::move(header));
  targets_.clear();
  states_.clear();
  return headers;
}

Json Comms::info(const Json& request) const {
  const std::string wanted = text_of(request, "target_name");
  Json comms = Json::object();
  for (const auto& [id, target] : targets_)
    if (wanted.empty() || target == wanted) comms[id] = {{"target_name", target}};
  return {{"status", "ok"}, {"comms", std::move(comms)}};
}

std::optional<Json> Comms::end(uint64_t cell) { return take(open_cells_, cell); }

bool Comms::keep_states(uint64_t cell, const std::string& id, const Json& data,
                        const std::vector<std::string>& buffers) {
  if (!open_cells_.contains(cell) || text_of(data, "method") != "update_states") return false;
  const auto states = data.find("states"), paths = data.find("buffer_paths");
  if (states == data.end() || !states->is_object()) return false;
  WidgetStates& kept = states_[cell];
  if (kept.comm.empty())
    kept = {
        id,
        {{"method", "update_states"}, {"states", Json::object()}, {"buffer_paths", Json::array()}},
        {}};
  kept.data["states"].update(*states);
  if (paths != data.end() && paths->is_array())
    for (const Json& path : *paths) kept.data["buffer_paths"].push_back(path);
  kept.buffers.insert(kept.buffers.end(), buffers.begin(), buffers.end());
  return true;
}

std::optional<WidgetStates> Comms::states(uint64_t cell) { return take(states_, cell); }

}  // namespace sk::kernel
