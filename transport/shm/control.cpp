#include "transport/shm/control.h"

#include <sys/stat.h>
#include <unistd.h>

namespace sk::shm {
namespace {

constexpr uint64_t kHostBytes = 4096;
static_assert(sizeof(HostHeader) <= kHostBytes);

}  // namespace

uint64_t control_file_bytes(const SegmentLayout& layout) {
  return control_block_offset(layout.world_size, layout);
}

HostHeader& host_header(const SharedMemory& control) {
  return *reinterpret_cast<HostHeader*>(control.base());
}

uint64_t control_block_offset(uint32_t rank, const SegmentLayout& layout) {
  return kHostBytes + rank * layout.control_bytes();
}

ControlBlock control_block(const SharedMemory& control, uint32_t rank,
                           const SegmentLayout& layout) {
  return control_block_at(control.base() + control_block_offset(rank, layout), layout);
}

}  // namespace sk::shm
