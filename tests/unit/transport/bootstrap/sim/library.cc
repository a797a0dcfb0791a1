#include "tests/unit/transport/bootstrap/sim/library.h"

#include <algorithm>
#include <cstring>

#include "tests/unit/transport/bootstrap/sim/network.h"
#include "transport/bootstrap/kinds.h"
#include "transport/bootstrap/wire.h"
#include "transport/tcp/endpoint.h"

namespace sk::sim {

Bug planted = Bug::kNone;

const char* name_of(Bug bug) {
  constexpr const char* kNames[] = {"None",          "WholeLost",       "PartsSwapped",
                                    "ErrorUntold",   "MemberNeverLate", "HubNeverLate",
                                    "ProofUnread",   "DescriptorKept",  "LeftCountedAlone",
                                    "SleepsTooLong", "DeathUnseen"};
  return kNames[int(bug)];
}

}  // namespace sk::sim

namespace sk {
namespace {

using sim::Bug;
using sim::Network;
using sim::planted;

using HostId = Result<std::vector<std::byte>>;
using Space = Result<std::string>;
using Poll = Result<int>;
using Bytes = std::span<const std::byte>;

}  // namespace

// NAME, as it is in the library, and what is called instead.
#define SK_SIM_REPLACE(mangled, result, name, ...)        \
  result real_##name(__VA_ARGS__) asm("__real_" mangled); \
  result sim_##name(__VA_ARGS__) asm("__wrap_" mangled);  \
  result sim_##name(__VA_ARGS__)

SK_SIM_REPLACE("_ZN2sk7host_idEv", HostId, host_id, ) {
  Network* const network = Network::current();
  if (!network) return real_host_id();
  return std::vector<std::byte>(16, std::byte(network->process(network->self()).host + 1));
}

SK_SIM_REPLACE("_ZN2sk13process_spaceB5cxx11Ev", Space, process_space, ) {
  Network* const network = Network::current();
  if (!network) return real_process_space();
  return fmt::format("host {}", network->process(network->self()).host);
}

// It is of one host alone, and lasts as long as its process.
SK_SIM_REPLACE("_ZN2sk10claim_rankERKNS_6JobEnvE", Status, claim_rank, const JobEnv& job) {
  return Network::current() ? Status() : real_claim_rank(job);
}

SK_SIM_REPLACE(
    "_ZN2sk25make_room_for_descriptorsEmmRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    Status, make_room, uint64_t least, uint64_t wanted, const std::string& what) {
  return Network::current() ? Status() : real_make_room(least, wanted, what);
}

// Its thread would drive while nobody waits.
SK_SIM_REPLACE("_ZN2sk3tcp11TcpEndpoint5startEv", Status, start, tcp::TcpEndpoint* endpoint) {
  return Network::current() ? Status() : real_start(endpoint);
}

SK_SIM_REPLACE("_ZN2sk18bootstrap_clock_nsEv", int64_t, clock_ns, ) {
  Network* const network = Network::current();
  if (network && network->process(network->self()).alive) {
    const bool hub = network->self() == 0;
    if (planted == (hub ? Bug::kHubNeverLate : Bug::kMemberNeverLate)) return sim::kS;
  }
  return real_clock_ns();
}

SK_SIM_REPLACE("_ZN2sk9equal_macESt4spanIKSt4byteLm18446744073709551615EES3_", bool, equal_mac,
               Bytes a, Bytes b) {
  return planted == Bug::kProofUnread ? a.size() == b.size() : real_equal_mac(a, b);
}

SK_SIM_REPLACE("_ZN2sk7Channel9put_frameENS_9FrameKindEiSt4spanIKSt4byteLm18446744073709551615EE",
               Status, put_frame, Channel* channel, FrameKind kind, int32_t code, Bytes payload) {
  const bool odd = channel->fd() % 2 == 1;  // One of them, mostly.
  if (planted == Bug::kErrorUntold && kind == FrameKind::kError) return {};
  if (planted == Bug::kWholeLost && kind == FrameKind::kWhole && odd) return {};
  if (planted == Bug::kPartsSwapped && kind == FrameKind::kWhole && odd && payload.size() > 1) {
    std::vector<std::byte> other(payload.begin(), payload.end());
    std::swap(other.front(), other.back());
    return real_put_frame(channel, kind, code, other);
  }
  return real_put_frame(channel, kind, code, payload);
}

SK_SIM_REPLACE("_ZN2sk7Channel4pumpEm", Status, pump, Channel* channel, uint64_t most) {
  Status pumped = real_pump(channel, most);
  return planted == Bug::kDeathUnseen ? Status() : std::move(pumped);
}

SK_SIM_REPLACE("_ZNK2sk6Cancel4pollERSt6vectorI6pollfdSaIS2_EEl", Poll, poll, const Cancel* cancel,
               std::vector<pollfd>& entries, int64_t wait_ns) {
  return real_poll(cancel, entries, planted == Bug::kSleepsTooLong ? INT64_MAX / 2 : wait_ns);
}

SK_SIM_REPLACE(
    "_ZN2sk24make_survivors_bootstrapESt10unique_ptrINS_9BootstrapESt14default_deleteIS1_EERKNS_"
    "15BootstrapConfigEl",
    BootstrapResult, make_survivors, std::unique_ptr<Bootstrap> all, const BootstrapConfig& config,
    int64_t timeout_ns) {
  if (planted == Bug::kLeftCountedAlone && all->rank() == all->world_size() - 1) return all;
  return real_make_survivors(std::move(all), config, timeout_ns);
}

}  // namespace sk
