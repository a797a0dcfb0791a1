// Figures for links whose source has none: typical of the kind, good for preferring one path to
// another, no promise about any machine.
#ifndef SK_LIB_TOPO_TYPICAL_H_
#define SK_LIB_TOPO_TYPICAL_H_

#include <cstdint>

namespace sk::topo {

inline constexpr uint64_t kGiga = 1'000'000'000;

struct Speed {
  uint32_t latency_ns;
  uint64_t bandwidth;  // Bytes per second.
};

inline constexpr Speed kMachineSocket = {50, 100 * kGiga};
inline constexpr Speed kSocketNuma = {40, 200 * kGiga};
inline constexpr Speed kMemory = {80, 200 * kGiga};  // NUMA node to the cores or caches below it.
inline constexpr Speed kCacheCore = {4, 200 * kGiga};
inline constexpr Speed kNumaNuma = {60, 40 * kGiga};  // Between sockets.
inline constexpr Speed kPcieHop = {150, 16 * kGiga};
inline constexpr Speed kNvlinkHop = {300, 20 * kGiga};  // One NVLink.
inline constexpr Speed kXgmiHop = {300, 48 * kGiga};    // One xGMI link.
inline constexpr Speed kNetworkHop = {1000, 25 * kGiga};

}  // namespace sk::topo

#endif  // SK_LIB_TOPO_TYPICAL_H_
