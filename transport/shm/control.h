// The control memory of a host's ranks: one file of them all, in which each rank has a block
// (transport/session.h), behind what belongs to none of them.
#ifndef SK_TRANSPORT_SHM_CONTROL_H_
#define SK_TRANSPORT_SHM_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "transport/session.h"
#include "transport/shm/memory.h"

namespace sk::shm {

// In the first page.
struct alignas(64) HostHeader {
  std::atomic<uint32_t> cause;    // 0, or the abort word that came first: it is all ranks'.
  std::atomic<uint32_t> left;     // How many have freed their endpoints.
  std::atomic<uint32_t> watcher;  // Whose process looks after the others': see watch.h.
};

uint64_t control_file_bytes(const SegmentLayout& layout);
HostHeader& host_header(const SharedMemory& control);
uint64_t control_block_offset(uint32_t rank, const SegmentLayout& layout);
ControlBlock control_block(const SharedMemory& control, uint32_t rank, const SegmentLayout& layout);

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_CONTROL_H_
