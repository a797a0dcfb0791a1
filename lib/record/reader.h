// Flight records as others read them. What a file says is a stranger's word: a number is believed
// where it can be, and what cannot be is told in a sentence.
#ifndef SK_LIB_RECORD_READER_H_
#define SK_LIB_RECORD_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/record/layout.h"

namespace sk::record {

struct Call {
  uint64_t number = 0;  // Of the communicator's calls, from 1.
  CallState state = CallState::kEntered;
  bool pair = false;
  uint64_t seq = 0;  // Of its lane: ranks that are in the same call have the same.
  int64_t entered_ns = 0, left_ns = 0;
  uint64_t bytes = 0;
  int32_t code = 0;
  std::string kind, text;
};

struct OpTotal {
  std::string kind, text;
  uint64_t calls = 0, failures = 0, bytes = 0;
  int64_t ns = 0;
};

struct CommView {
  Stage stage = Stage::kFree;
  uint32_t area = 0, serial = 0;
  uint32_t rank = 0, world_size = 1;
  uint64_t comm = 0;  // 0: they have not met.
  std::string job, launcher, name, far;
  int64_t began_ns = 0, over_ns = 0, timeout_ns = 0;
  int32_t over_code = 0;
  std::string over_sentence;
  std::optional<uint32_t> awaited;  // A rank.
  std::vector<bool> here;           // By rank; empty: not known.
  std::vector<Call> calls;          // By number, the last is the latest.
  uint32_t torn = 0;                // Records that were being written, or make no sense.
  bool writing = false;             // The one behind the latest is among them.
  std::vector<OpTotal> totals;

  bool is_here(uint32_t other) const { return other < here.size() && here[other]; }
};

struct ProcessView {
  uint64_t space = 0, start_time = 0;
  int64_t pid = 0;  // As it is called in its own space.
  End end = End::kUnknown;
  int32_t end_code = 0;
  int64_t end_wall_ns = 0, began_ns = 0, began_wall_ns = 0;
  std::string host, program;
  std::vector<CommView> comms;  // Free areas are left out.
};

// Waits for nobody. SK_ERR_PEER_LOST: the file is not there, or no longer; SK_ERR_TRUST: it is
// another user's; SK_ERR_INVALID_ARGUMENT: it is no record, or not a whole one.
Result<ProcessView> read_record(const std::string& path);

}  // namespace sk::record

#endif  // SK_LIB_RECORD_READER_H_
