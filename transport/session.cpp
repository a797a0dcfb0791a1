#include "transport/session.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace sk {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = 2 << 20;

constexpr uint64_t round_up(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

static_assert(sizeof(SegmentHeader) <= kPage);

}  // namespace

void SegmentHeader::set_reason(const std::string& text) {
  char bytes[kReasonBytesMax] = {};
  std::copy_n(text.data(), std::min(text.size(), sizeof(bytes)), bytes);
  for (size_t i = 0; i < std::size(reason_words); ++i) {
    uint64_t word = 0;
    memcpy(&word, bytes + 8 * i, sizeof(word));
    reason_words[i].store(word, std::memory_order_relaxed);
  }
}

std::string SegmentHeader::reason() const {
  char bytes[kReasonBytesMax] = {};
  for (size_t i = 0; i < std::size(reason_words); ++i) {
    const uint64_t word = reason_words[i].load(std::memory_order_relaxed);
    memcpy(bytes + 8 * i, &word, sizeof(word));
  }
  return std::string(bytes, strnlen(bytes, sizeof(bytes)));
}

uint64_t SegmentLayout::entry_offset() const { return kPage; }

uint64_t SegmentLayout::signal_offset() const {
  return entry_offset() +
         round_up(uint64_t{world_size} * kEntryLaneCount * 2 * sizeof(EntrySlot), kPage);
}

uint64_t SegmentLayout::control_bytes() const {
  return round_up(signal_offset() + uint64_t{signal_count_max} * sizeof(SignalWord), kPage);
}

uint64_t SegmentLayout::workspace_offset() const { return round_up(control_bytes(), kHugePage); }

uint64_t SegmentLayout::heap_offset() const {
  return workspace_offset() + round_up(workspace_bytes_max, kHugePage);
}

uint64_t SegmentLayout::bytes() const {
  return heap_offset() + round_up(heap_bytes_max, kHugePage);
}

}  // namespace sk
