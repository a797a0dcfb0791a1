#include "lib/control/target.h"

#include "lib/control/codec.h"

namespace sk::control {
namespace {

constexpr std::string_view kHost = "host:";

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "gpu1" names gpu1.example.org too, as it does in a shell's prompt.
bool names_host(std::string_view asked, std::string_view host) {
  return asked == host || asked == host.substr(0, host.find('.'));
}

}  // namespace

Result<RankSet> choose_ranks(std::string_view text, const Ranks& ranks) {
  text = trim(text);
  if (text.empty() || text == "all" || text == "local") return all_ranks(ranks.world_size);
  if (text == "alive" || text == "one") {
    if (ranks.alive.empty())
      return error(SK_ERR_PEER_LOST, "rank set: no rank is alive, so {} means none", text);
    return text == "alive" ? ranks.alive : RankSet{ranks.alive.front()};
  }
  if (text.starts_with(kHost)) {
    const std::string_view asked = trim(text.substr(kHost.size()));
    if (asked.empty() || (!ranks.host.empty() && !names_host(asked, ranks.host)))
      return error(SK_ERR_INVALID_ARGUMENT,
                   "rank set: no rank runs on host \"{}\"; all of them run on {}", asked,
                   ranks.host.empty() ? "the notebook's" : ranks.host);
    return all_ranks(ranks.world_size);
  }
  return parse_ranks(text, ranks.world_size);
}

Status check_ranks(std::string_view text, uint32_t world_size) {
  if (text.size() > kRankSetBytesMax)
    return error(SK_ERR_OUT_OF_RANGE, "rank set: {} bytes of text; the limit is {}", text.size(),
                 kRankSetBytesMax);
  const auto chosen = choose_ranks(text, {world_size, all_ranks(world_size), ""});
  return chosen.ok() ? Status() : chosen.status().clone();
}

}  // namespace sk::control
