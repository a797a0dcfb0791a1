// What two ranks of different hosts send each other, over a stream of bytes.
#ifndef SK_TRANSPORT_STREAM_FRAME_H_
#define SK_TRANSPORT_STREAM_FRAME_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "transport/session.h"

namespace sk::stream {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

// Sent: never renumbered.
enum class FrameKind : uint8_t {
  kPut =
      1,  // `bytes` follow, for `offset` of the receiver's segment; then `signal` grows by `add`.
  kPost = 2,   // `signal` grows by `add`.
  kEnter = 3,  // An EntryFrame follows: for the sender's slot of `lane`, with number `offset`.
  kAbort = 4,  // `signal` is the abort word, `add` the bytes of its reason, which follow.
  kLeave = 5,  // The sender has freed its endpoint: the last one.
  kAwait = 6,  // `signal` is 1 + the rank for which the sender has waited long; 0: none any more.
  kAsk = 7,    // For what the ranks of the receiver's host are at.
  kTell = 8,   // The answer: `add` bytes of RankLines follow.
};

struct FrameHeader {
  FrameKind kind = FrameKind::kPost;
  uint8_t lane = 0;
  uint16_t reserved = 0;
  uint32_t signal = 0;
  uint32_t add = 0;
  uint32_t reserved_too = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 32 && std::is_trivially_copyable_v<FrameHeader>);

struct EntryFrame {
  uint64_t fingerprint = 0;
  uint64_t other_lane = 0;
  uint64_t words[kEntryWords] = {};
  uint64_t entered = 0;  // RankHeader::entered of the sender.
};
static_assert(sizeof(EntryFrame) == 64 && std::is_trivially_copyable_v<EntryFrame>);

// What a rank of the sender's host is at: as its RankHeader has it.
struct RankLine {
  uint32_t rank = 0;
  uint32_t awaited = 0;
  uint64_t entered = 0;
};
static_assert(sizeof(RankLine) == 16 && std::is_trivially_copyable_v<RankLine>);
inline constexpr size_t kRankLinesMax = 1024;  // In one frame.

}  // namespace sk::stream

#endif  // SK_TRANSPORT_STREAM_FRAME_H_
