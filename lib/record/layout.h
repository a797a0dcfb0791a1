// The flight record of a process, as it lies in its file (ADR 35): a page about the process, then
// one area for each of its communicators of several ranks.
//
// One thread at a time writes an area, with plain stores in an order that a reader can trust also
// where the writer was killed between two of them: what says that something is there is stored
// last, with release. Readers take every number in it for a stranger's.
#ifndef SK_LIB_RECORD_LAYOUT_H_
#define SK_LIB_RECORD_LAYOUT_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "lib/base/world.h"

namespace sk::record {

inline constexpr uint64_t kMagic = 0x64726f6365724b53;  // "SKrecord".
inline constexpr uint32_t kVersion = 1;                 // Grows with every change.

inline constexpr uint64_t kHeadBytes = 4096;
inline constexpr uint64_t kAreaBytes = 32768;
inline constexpr uint32_t kAreasMax = 256;  // Communicators beyond that are not recorded.

// How a process ended, by whoever knew first: itself at its exit, or what had started it.
enum class End : uint32_t {
  kUnknown = 0,
  kExited = 1,    // `end_code` is its exit status.
  kSignaled = 2,  // The signal that killed it.
  kGone = 3,      // Somebody found that it is not there any more.
};

struct ProcessHead {
  uint64_t magic;  // Stored last when the file is made.
  uint32_t version;
  std::atomic<uint32_t> areas;  // So many are behind this page.
  // Which process: as ProcessName (transport/session.h) has it.
  uint64_t space, start_time;
  int32_t pid;
  std::atomic<uint32_t> end;  // End. Of a process that lives kUnknown.
  std::atomic<int32_t> end_code;
  std::atomic<int64_t> end_wall_ns;
  // The same moment by CLOCK_MONOTONIC and CLOCK_REALTIME.
  int64_t began_ns, began_wall_ns;
  char host[65];
  char program[128];
};
static_assert(sizeof(ProcessHead) <= kHeadBytes);

enum class Stage : uint32_t {
  kFree = 0,     // Nobody's.
  kMeeting = 1,  // Its ranks look for each other.
  kStands = 2,
  kOver = 3,   // An error ended it.
  kFreed = 4,  // Its owner has freed it; another may take the area.
};

// One line of memory each. Two to the power of `kCallsLog2` of them, by number.
struct alignas(64) CallRecord {
  // number << 2 | CallState; 0 while it is written. Numbers count a communicator's calls from 1.
  std::atomic<uint64_t> stamp;
  std::atomic<int64_t> entered_ns;  // CLOCK_MONOTONIC_COARSE: good to some milliseconds.
  std::atomic<int64_t> left_ns;
  std::atomic<uint64_t> seq;  // Among the calls of its lane, which ranks share; pairs: kPairBit.
  std::atomic<uint64_t> bytes;
  std::atomic<uint32_t> line;  // Of `lines`: which operation.
  std::atomic<int32_t> code;   // sk_status; written where it failed.
};
static_assert(sizeof(CallRecord) == 64);

enum class CallState : uint32_t { kEntered = 1, kDone = 2, kFailed = 3 };
inline constexpr uint64_t kPairBit = uint64_t{1} << 63;  // In `seq`: a call between two ranks.
inline constexpr uint32_t kCallsLog2 = 8, kCalls = 1u << kCallsLog2;

// An operation as it was called, and what its calls came to. Given once, never taken back. When no
// line is left, calls count in one of their kind, whose text has no sizes.
struct OpLine {
  std::atomic<uint32_t> there;  // 1: the texts are written.
  char kind[28];
  char text[128];
  std::atomic<uint64_t> calls;  // That have ended, whichever way.
  std::atomic<uint64_t> failures;
  std::atomic<uint64_t> bytes;
  std::atomic<int64_t> ns;
};
static_assert(sizeof(OpLine) == 192);
inline constexpr uint32_t kLines = 64, kOwnLines = 48;

struct Area {
  std::atomic<uint32_t> stage;
  std::atomic<uint32_t> serial;  // How often the area was given.
  std::atomic<uint32_t> rank, world_size;
  std::atomic<uint64_t> comm;  // The same on all its ranks; 0 until they have met.
  std::atomic<int64_t> began_ns, over_ns;
  std::atomic<int64_t> timeout_ns;
  std::atomic<int32_t> over_code;
  std::atomic<uint32_t> here_known;  // `here` is written.
  char job[160];                     // As the launcher names the start; "": none did.
  char launcher[32];
  char name[64];                                // The communicator's.
  char far[16];                                 // What links ranks of other hosts: "tcp", "tls".
  char over_sentence[224];                      // Written before kOver.
  std::array<uint8_t, kWorldSizeMax / 8> here;  // Bit r: rank r is on this host.

  alignas(64) std::atomic<uint32_t> awaited;  // 1 + the rank that a wait has been for a while.
  alignas(64) std::array<OpLine, kLines> lines;
  std::array<CallRecord, kCalls> calls;
};
static_assert(sizeof(Area) <= kAreaBytes);

}  // namespace sk::record

#endif  // SK_LIB_RECORD_LAYOUT_H_
