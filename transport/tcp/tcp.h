// Sessions to ranks of other hosts over TCP, and a host's own as they are: one endpoint of both.
#ifndef SK_TRANSPORT_TCP_TCP_H_
#define SK_TRANSPORT_TCP_TCP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "transport/bootstrap/bootstrap.h"
#include "transport/session.h"
#include "transport/stream/pipe.h"

namespace sk {

// How long a host that owes an answer may be silent before the connection counts as lost.
inline constexpr int64_t kSilenceMs = 4'000;
// "2" to "600" seconds, as SK_NET_SILENCE_S has it; "": kSilenceMs.
Result<int64_t> read_silence_ms(const std::string& text);

// Where ranks have at most so many of other hosts, all pairs are connected when they meet.
inline constexpr uint32_t kEagerRanks = 32;
// "0" to "65535", as SK_NET_EAGER_RANKS has it; "": kEagerRanks.
Result<uint32_t> read_eager_ranks(const std::string& text);

struct TcpConfig {
  int64_t timeout_ns = 300'000'000'000;  // For connecting, at most.
  std::string networks;                  // As SK_NET has them: docs/env.md.
  std::string ports;                     // As SK_PORT_RANGE has them.
  int64_t silence_ms = kSilenceMs;
  uint32_t eager_ranks = kEagerRanks;  // The same on all ranks.
  std::string secret;                  // The job's; "": it has none.
  // What connections are wrapped in, by a key of 32 bytes that is this meeting's; null: nothing.
  std::function<Result<std::unique_ptr<stream::Pipe>>(std::unique_ptr<stream::Pipe>, bool dials,
                                                      std::span<const std::byte> key)>
      wrap;
  // The endpoint of this host's ranks: of `layout`, with their sessions alone.
  std::function<Result<std::unique_ptr<Endpoint>>(Bootstrap&, const SegmentLayout& layout)> local;
};

// Collective. Every rank gives the same layout, and the same of `wrap` and `secret`. Fails on every
// rank, with the sentence of the one that could not: those of `local`, SK_ERR_TRANSPORT (no way to
// a rank, which says what was tried and what came of it), SK_ERR_TRUST, SK_ERR_TIMEOUT,
// SK_ERR_NO_MEMORY.
Result<std::unique_ptr<Endpoint>> connect_tcp(Bootstrap& bootstrap, const SegmentLayout& layout,
                                              const TcpConfig& config);

}  // namespace sk

#endif  // SK_TRANSPORT_TCP_TCP_H_
