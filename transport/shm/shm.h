// Shared-memory sessions: the ranks of one host, as processes, as threads, or as both.
//
// Every rank has a memfd (memory.h) for its segment and a block of its host's control memory
// (control.h), and maps every peer's; ranks of one process share the owner's mapping. Descriptors
// travel over Unix sockets with random abstract names, to processes of the same user only (join.h).
//
// The contract's last gap (bytes before signal): put() copies, then stores the signal with release;
// the waiter loads it with acquire. Both are CPU accesses of one coherent memory, so nothing more
// is needed. Non-temporal stores, which release does not order, are fenced by whoever uses them;
// put() copies with memcpy(), which fences its own.
#ifndef SK_TRANSPORT_SHM_SHM_H_
#define SK_TRANSPORT_SHM_SHM_H_

#include <cstdint>
#include <memory>

#include "lib/base/status.h"
#include "transport/bootstrap/bootstrap.h"
#include "transport/session.h"

namespace sk {

struct ShmConfig {
  int64_t timeout_ns = 300'000'000'000;  // For connecting, at most.
  bool hide_mapped = false;  // Sessions say they are not mapped, so that only puts cross ranks.
  // The endpoint reaches the ranks of this host alone, and is a part of one that reaches all.
  bool one_of_several = false;
  bool hide_pidfd = false;  // Peers' deaths are seen by their sockets, as on kernels before 5.3.
};

// Collective. Every rank gives the same layout. Fails on every rank, with the sentence of the one
// that could not: SK_ERR_UNSUPPORTED (ranks on several hosts), SK_ERR_NO_MEMORY (memory, address
// space, descriptors), SK_ERR_TIMEOUT (naming the ranks that did not come), SK_ERR_DESYNC (other
// layouts), SK_ERR_TRUST (a rank of another user), SK_ERR_PEER_LOST. Nothing is left behind then.
Result<std::unique_ptr<Endpoint>> connect_shm(Bootstrap& bootstrap, const SegmentLayout& layout,
                                              const ShmConfig& config);

}  // namespace sk

#endif  // SK_TRANSPORT_SHM_SHM_H_
