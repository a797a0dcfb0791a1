#include "transport/tcp/parting.h"

#include <algorithm>
#include <map>

namespace sk::tcp {

std::vector<uint32_t> who_goes(std::set<std::pair<uint32_t, uint32_t>> apart) {
  std::vector<uint32_t> going;
  while (!apart.empty()) {
    std::map<uint32_t, uint32_t> lacking;
    for (const auto& [lower, higher] : apart) {
      ++lacking[lower];
      ++lacking[higher];
    }
    lacking.erase(0);
    const auto most = std::max_element(
        lacking.begin(), lacking.end(),
        [](const auto& one, const auto& other) { return one.second <= other.second; });
    const uint32_t goes = most->first;
    going.push_back(goes);
    std::erase_if(apart,
                  [&](const auto& pair) { return pair.first == goes || pair.second == goes; });
  }
  std::ranges::sort(going);
  return going;
}

}  // namespace sk::tcp
