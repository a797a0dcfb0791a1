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

constexpr size_t kTextBytes = RankHeader::kReasonBytesMax;
using TextWords = std::atomic<uint64_t>[kTextBytes / 8];

void store_text(const std::string& text, TextWords& words) {
  char bytes[kTextBytes] = {};
  std::copy_n(text.data(), std::min(text.size(), sizeof(bytes)), bytes);
  for (size_t i = 0; i < std::size(words); ++i) {
    uint64_t word = 0;
    memcpy(&word, bytes + 8 * i, sizeof(word));
    words[i].store(word, std::memory_order_relaxed);
  }
}

std::string text_in(const TextWords& words) {
  char bytes[kTextBytes] = {};
  for (size_t i = 0; i < std::size(words); ++i) {
    const uint64_t word = words[i].load(std::memory_order_relaxed);
    memcpy(bytes + 8 * i, &word, sizeof(word));
  }
  return std::string(bytes, strnlen(bytes, sizeof(bytes)));
}

}  // namespace

void RankHeader::set_reason(const std::string& text) { store_text(text, reason_words); }
std::string RankHeader::reason() const { return text_in(reason_words); }

void RankHeader::set_heard(uint32_t word, const std::string& text) {
  if (heard_word.load(std::memory_order_relaxed) != 0) return;
  store_text(text, heard_words);
  heard_word.store(word, std::memory_order_release);
}

std::string RankHeader::heard(uint32_t word) const {
  return heard_word.load(std::memory_order_acquire) == word ? text_in(heard_words) : "";
}

ControlBlock control_block_at(std::byte* start, const SegmentLayout& layout) {
  return {.header = reinterpret_cast<RankHeader*>(start),
          .entries = reinterpret_cast<EntrySlot*>(start + layout.entry_offset()),
          .signals = reinterpret_cast<SignalWord*>(start + layout.signal_offset())};
}

uint64_t SegmentLayout::entry_offset() const { return sizeof(RankHeader); }

uint64_t SegmentLayout::signal_offset() const {
  return entry_offset() + uint64_t{world_size} * kEntryLaneCount * 2 * sizeof(EntrySlot);
}

uint64_t SegmentLayout::control_bytes() const {
  return round_up(signal_offset() + uint64_t{signal_count_max} * sizeof(SignalWord), kPage);
}

uint64_t SegmentLayout::heap_offset() const { return round_up(workspace_bytes_max, kHugePage); }

// Never nothing, which could not be mapped.
uint64_t SegmentLayout::bytes() const {
  return std::max(kHugePage, heap_offset() + round_up(heap_bytes_max, kHugePage));
}

}  // namespace sk
