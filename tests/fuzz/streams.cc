// Fuzzes what comes from a rank of another host: an inbox stores what the bytes say and nothing
// else, however they are cut, or refuses. What they say is read here once more, by plain rules over
// the whole.
#include <cstring>
#include <span>
#include <string>

#include "tests/fuzz/driver.h"
#include "tests/support/tape.h"
#include "transport/stream/inbox.h"

namespace sk::fuzz {
namespace {

using namespace sk::stream;
using testing_support::Tape;

constexpr uint32_t kPeer = 1;
constexpr size_t kGuardBytes = 4096;

SegmentLayout layout_of_rank() {
  SegmentLayout layout;
  layout.world_size = 3;
  layout.signal_count_max = 16;
  layout.heap_bytes_max = 4096;
  return layout;
}

const SegmentLayout g_layout = layout_of_rank();

struct Range {
  uint64_t offset, bytes;
};

// A rank's control block and segment between guards; what an inbox keeps of its own beside it.
struct Memory {
  Memory() {
    own.control = control_block_at(bytes + kGuardBytes, g_layout);
    own.segment = bytes + kGuardBytes + g_layout.control_bytes();
    std::memset(bytes, 0, size());
  }
  static size_t size() { return 2 * kGuardBytes + g_layout.control_bytes() + g_layout.bytes(); }
  void clear(std::span<const Range> written) {
    std::memset(bytes, 0, kGuardBytes + g_layout.control_bytes());
    for (const Range& each : written) std::memset(own.segment + each.offset, 0, each.bytes);
    reason.clear();
    told.clear();
    asked = false;
    abort_word = awaited = 0;
    left = refused = false;
    entered = 0;
  }
  // In the segment, where `written` says, or everywhere.
  bool equals(const Memory& other, std::span<const Range> written) const {
    for (const Range& each : written)
      if (std::memcmp(own.segment + each.offset, other.own.segment + each.offset, each.bytes) != 0)
        return false;
    return std::memcmp(bytes, other.bytes, kGuardBytes + g_layout.control_bytes()) == 0 &&
           reason == other.reason && abort_word == other.abort_word && left == other.left &&
           entered == other.entered && awaited == other.awaited && refused == other.refused &&
           asked == other.asked && told == other.told;
  }
  bool equals_everywhere(const Memory& other) const {
    return std::memcmp(bytes, other.bytes, size()) == 0;
  }

  std::byte* const bytes = static_cast<std::byte*>(std::aligned_alloc(4096, size()));
  MappedView own;
  std::string reason;
  uint32_t abort_word = 0;
  bool left = false, refused = false;
  uint64_t entered = 0;
  uint32_t awaited = 0;
  bool asked = false;
  std::string told;  // RankLines, as they came.
};

// Whether a frame may begin so, behind what has come.
bool is_allowed(const FrameHeader& header, bool left) {
  if (left) return false;
  const bool signals = header.signal < g_layout.signal_count_max;
  const auto cause = header.signal >> 24;
  switch (header.kind) {
    case FrameKind::kPut:
      return signals && header.offset <= g_layout.bytes() &&
             header.bytes <= g_layout.bytes() - header.offset;
    case FrameKind::kPost:
      return signals;
    case FrameKind::kEnter:
      return header.lane < kEntryLaneCount && header.offset > 0;
    case FrameKind::kAbort:
      return cause >= 1 && cause <= 6 && (header.signal & 0xffffff) >= 1 &&
             (header.signal & 0xffffff) <= g_layout.world_size &&
             header.add <= RankHeader::kReasonBytesMax;
    case FrameKind::kLeave:
      return true;
    case FrameKind::kAwait:
      return header.signal <= g_layout.world_size;
    case FrameKind::kAsk:
      return true;
    case FrameKind::kTell:
      return header.add % sizeof(RankLine) == 0 && header.add <= kRankLinesMax * sizeof(RankLine);
  }
  return false;
}

bool are_of_this_world(std::span<const std::byte> lines) {
  for (; !lines.empty(); lines = lines.subspan(sizeof(RankLine))) {
    RankLine line;
    std::memcpy(&line, lines.data(), sizeof(line));
    if (line.rank >= g_layout.world_size || line.awaited > g_layout.world_size) return false;
  }
  return true;
}

// Adds to `written` what it writes of the segment.
void read_whole(std::span<const std::byte> bytes, Memory& memory, std::vector<Range>& written) {
  FrameHeader header;
  while (bytes.size() >= sizeof(header)) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    if (!is_allowed(header, memory.left)) {
      memory.refused = true;
      return;
    }
    bytes = bytes.subspan(sizeof(header));
    uint64_t follow = 0;
    if (header.kind == FrameKind::kPut) follow = header.bytes;
    if (header.kind == FrameKind::kEnter) follow = sizeof(EntryFrame);
    if (header.kind == FrameKind::kAbort || header.kind == FrameKind::kTell) follow = header.add;
    const bool whole = bytes.size() >= follow;
    const auto what = bytes.first(whole ? follow : bytes.size());
    auto& signal = memory.own.control.signals[header.signal % g_layout.signal_count_max].value;
    if (header.kind == FrameKind::kPut && !what.empty()) {
      std::memcpy(memory.own.segment + header.offset, what.data(), what.size());
      written.push_back({header.offset, what.size()});
    }
    if (!whole) return;
    bytes = bytes.subspan(follow);
    switch (header.kind) {
      case FrameKind::kPut:
      case FrameKind::kPost:
        signal += header.add;
        break;
      case FrameKind::kEnter: {
        EntryFrame entry;
        std::memcpy(&entry, what.data(), sizeof(entry));
        const size_t place =
            size_t{kPeer} * kEntryLaneCount * 2 + size_t{header.lane} * 2 + header.offset % 2;
        EntrySlot& slot = memory.own.control.entries[place];
        slot.seq = header.offset;
        slot.fingerprint = entry.fingerprint;
        slot.other_lane = entry.other_lane;
        std::copy(std::begin(entry.words), std::end(entry.words), slot.words);
        memory.entered = std::max(memory.entered, entry.entered);
        break;
      }
      case FrameKind::kAbort:
        if (memory.abort_word != 0) break;
        memory.abort_word = header.signal;
        memory.reason.assign(reinterpret_cast<const char*>(what.data()), what.size());
        break;
      case FrameKind::kLeave:
        memory.left = true;
        memory.entered = std::max(memory.entered, header.offset);
        break;
      case FrameKind::kAwait:
        memory.awaited = header.signal;
        break;
      case FrameKind::kAsk:
        memory.asked = true;
        break;
      case FrameKind::kTell:
        memory.refused = !are_of_this_world(what);
        if (memory.refused) return;
        memory.told.append(reinterpret_cast<const char*>(what.data()), what.size());
        break;
    }
  }
}

void add(std::string& bytes, const auto& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The sentence of a refusal, or "".
std::string receive(std::span<const std::byte> bytes, size_t piece, size_t budget, bool discards,
                    Memory& memory) {
  Tape tape(bytes, piece, bytes.size() % 2 == 1);
  Inbox inbox(kPeer, memory.own, g_layout);
  if (discards) inbox.discard();
  std::string sentence;
  while (!tape.ended() && sentence.empty()) {
    const Result<bool> stored = inbox.receive(tape, budget);
    if (!stored.ok()) sentence = stored.status().message();
  }
  memory.reason = inbox.reason();
  memory.abort_word = inbox.abort_word();
  memory.left = inbox.left();
  memory.entered = inbox.entered();
  memory.awaited = inbox.awaited();
  memory.asked = inbox.take_asked();
  for (const RankLine& line : inbox.take_told()) add(memory.told, line);
  memory.refused = !sentence.empty();
  return sentence;
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> all(7);
  all.reserve(16);
  for (const uint64_t size : {8, 100, 3000}) {
    add(all[0],
        FrameHeader{.kind = FrameKind::kPut, .signal = 5, .add = 2, .offset = 77, .bytes = size});
    all[0].append(size, 'p');
  }
  add(all[1], FrameHeader{.kind = FrameKind::kPost, .signal = 15, .add = 3});
  for (uint8_t lane = 0; lane < kEntryLaneCount; ++lane) {
    add(all[2], FrameHeader{.kind = FrameKind::kEnter, .lane = lane, .offset = uint64_t{3} + lane});
    add(all[2],
        EntryFrame{.fingerprint = 9, .other_lane = 8, .words = {1, 2, 3, 4, 5}, .entered = 6});
  }
  add(all[3],
      FrameHeader{
          .kind = FrameKind::kAbort, .signal = abort_word(AbortCause::kAborted, 2), .add = 6});
  all[3] += "reason";
  add(all[4], FrameHeader{.kind = FrameKind::kLeave, .offset = 7});
  for (const uint32_t word : {2u, 0u, 1u + g_layout.world_size})
    add(all[5], FrameHeader{.kind = FrameKind::kAwait, .signal = word});
  add(all[6], FrameHeader{.kind = FrameKind::kAsk});
  add(all[6], FrameHeader{.kind = FrameKind::kTell, .add = 2 * sizeof(RankLine)});
  for (const uint32_t rank : {1u, 2u})
    add(all[6], RankLine{.rank = rank, .awaited = 3, .entered = 9});
  // The last bytes of the segment, and one more.
  for (const uint64_t beyond : {0, 1}) {
    add(all.emplace_back(),
        FrameHeader{.kind = FrameKind::kPut, .offset = g_layout.bytes() - 8 + beyond, .bytes = 8});
    all.back().append(8, 'e');
  }
  // A put so large that its bytes come at their place, and what follows it in one piece with its
  // end.
  std::string long_put;
  add(long_put, FrameHeader{.kind = FrameKind::kPut, .signal = 1, .add = 1, .bytes = 4096});
  long_put.append(4096, 'l');
  all.push_back(all[0] + all[1] + all[2] + all[3] + all[4]);
  all.push_back(all[1] + long_put + all[2]);
  all.push_back(all[6] + all[1] + all[6]);
  return all;
}

std::vector<std::string> words() { return seeds(); }

}  // namespace sk::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sk::fuzz;
  const auto bytes = std::as_bytes(std::span(data, size));
  static Memory expected, whole, cut, ignored, untouched;
  static std::vector<Range> written;
  static uint64_t runs = 0;
  for (Memory* each : {&expected, &whole, &cut, &ignored}) each->clear(written);
  written.clear();
  read_whole(bytes, expected, written);
  const std::string sentence = receive(bytes, SIZE_MAX, SIZE_MAX, false, whole);
  require(whole.equals(expected, written), "it stores what the bytes say");
  require(receive(bytes, 1 + size % 97, 1 + size % 501, false, cut) == sentence &&
              cut.equals(expected, written),
          "the pieces do not matter");
  require(receive(bytes, 1 + size % 4001, SIZE_MAX, true, ignored) == sentence &&
              ignored.left == expected.left && ignored.abort_word == expected.abort_word,
          "nor does it where nothing is stored any more");
  // Of this input or one of those before it.
  if (runs++ % 256 != 0) return 0;
  require(whole.equals_everywhere(expected) && cut.equals_everywhere(expected), "and nothing else");
  require(ignored.equals_everywhere(untouched), "nothing at all, there");
  return 0;
}
