#include "transport/session.h"

namespace sk {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;

constexpr uint64_t round_up(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

static_assert(sizeof(SegmentHeader) <= kPage);

}  // namespace

uint64_t SegmentLayout::entry_offset() const { return kPage; }

uint64_t SegmentLayout::signal_offset() const {
  return entry_offset() + round_up(uint64_t{world_size} * kEntryLaneCount * 2 * sizeof(EntrySlot), kPage);
}

uint64_t SegmentLayout::workspace_offset() const {
  return round_up(signal_offset() + uint64_t{signal_count_max} * sizeof(SignalWord), kHugePage);
}

uint64_t SegmentLayout::heap_offset() const {
  return workspace_offset() + round_up(workspace_bytes_max, kHugePage);
}

uint64_t SegmentLayout::bytes() const {
  return heap_offset() + round_up(heap_bytes_max, kHugePage);
}

}  // namespace sk
