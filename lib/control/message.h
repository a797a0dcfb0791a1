// The messages of the control plane as plain values: what the core classes exchange.
//
// The wire form is control.capnp; codec.h translates and checks. Nothing here knows about sockets.
#ifndef SK_LIB_CONTROL_MESSAGE_H_
#define SK_LIB_CONTROL_MESSAGE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/world.h"
#include "sk/exec.h"
#include "sk/output.h"
#include "sk/talk.h"
#include "sk/worker.h"

namespace sk::control {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kRankCountMax = kWorldSizeMax;
inline constexpr uint64_t kShownLinesMax = 1'000'000;  // Of Configure.
inline constexpr uint64_t kShownBytesMax = 64ull << 20;
inline constexpr uint64_t kKeptBytesMax = 1ull << 30;
inline constexpr uint64_t kMetadataBytesMax = 1u << 20;  // Of one display.
inline constexpr uint64_t kPromptBytesMax = 64 * 1024;
inline constexpr uint64_t kCommNameMax = 1024;
inline constexpr uint32_t kAbsentGroupsMax = 16;  // Of Absent.
inline constexpr uint64_t kAbsentWhyMax = 1024;
inline constexpr uint64_t kNoteNameMax = 256;
inline constexpr uint64_t kWaitsInMax = 256;                 // Of Heartbeat.
inline constexpr uint64_t kFailuresMax = 4 * kRankCountMax;  // Of one event; a rank has one or two.

struct Hello {
  uint32_t version = kProtocolVersion;
  uint32_t rank = 0;
  uint32_t pid = 0;
  bool captures = false;
  std::string language;
};

struct Welcome {
  uint32_t version = kProtocolVersion;
  uint32_t ranks = 0;  // These four: to a session that attached.
  uint64_t last_cell = 0;
  std::string last_tag;
  uint32_t pid = 0;
};

struct Heartbeat {
  uint64_t cell = 0;                  // The open cell, or 0.
  std::string waits_in{};             // The collective that waits for peers; "": none does.
  std::vector<uint32_t> waits_for{};  // Those that have not entered it. Sorted.
  bool lingers = false;               // As Done's; only where no cell is open.
  bool left = false;  // The interrupted cell's code has ended; what it ended with is written out.
};

struct Open {
  uint32_t version = kProtocolVersion;
  uint32_t ranks = 0;
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "NAME=value", over the controller's own environment.
  std::string cwd;
  uint64_t start_timeout_ms = 60'000;
  uint64_t lease_ms = 0;
  bool forks = false;         // Ranks are forked from a template of argv.
  uint64_t interrupt_ms = 0;  // From the first interrupt to the cell's end without the stuck ranks.
  std::string name;           // Under which a later front end finds the session; "": it cannot.
  std::string token;          // What that one must show.
  bool notebook = false;      // Sentences name magics, not calls of the C ABI.
};

// Goes on with a session whose front end was lost.
struct Attach {
  uint32_t version = kProtocolVersion;
  std::string token;
};

struct Ack {
  uint64_t cell = 0;
};

// For the front end that comes after this one.
struct Note {
  std::string name;
  std::string text;
  bool kept = true;  // False: forgotten.
};

// Which ranks are there: to every rank, whenever that changed. Communicators of an earlier epoch
// are over.
struct RankGroup {
  uint64_t epoch = 0;
  std::vector<uint32_t> missing;
  uint16_t torch_port = 0;  // Where rank 0's servers of this epoch listen; 0: as before.
  uint16_t jax_port = 0;
  bool wanted = false;  // A rank waits in a cell for all to meet under this epoch.
};

// A rank's: its communicators of `epoch` are over, so that all ranks need a new one.
struct Regroup {
  uint64_t epoch = 0;
  bool after_cell = false;  // Not before the cell that runs has ended on all its ranks.
};

// To a rank in a cell: which others will enter no collective of it any more, and why.
struct Absent {
  struct Group {
    std::vector<uint32_t> ranks;  // Sorted.
    std::string why;
    bool operator==(const Group&) const = default;
  };
  uint64_t cell = 0;
  std::vector<Group> groups;
};

struct Execute {
  uint64_t cell = 0;
  std::string ranks;  // "" is all.
  std::string code;
  bool silent = false;
  bool store_history = true;
  bool go_on = false;
  int64_t execution_count = 0;
  uint32_t kind = SK_REQUEST_EXECUTE;  // Or SK_REQUEST_ACTION.
  bool allow_input = false;
  std::string expressions;  // JSON, or "".
  std::string tag;          // The front end's own, handed back with the cell's first event.
};

struct Interrupt {
  uint64_t cell = 0;   // Of the session: 0 is whatever runs, and all that waits.
  uint32_t level = 0;  // As in control.capnp.
};

// Kinds of Ask beside those of sk_request_kind that the main thread of a rank answers: the first
// two are the controller's own (`code` is a rank set), the third goes to I/O threads of ranks too.
enum AskKind : uint32_t { kAskStatus = 30, kAskRevive = 31, kAskStack = 32 };

struct Ask {
  uint64_t request = 0;
  uint32_t kind = 0;  // sk_request_kind or AskKind.
  std::string code;
  uint64_t cursor = 0;
  int32_t detail = 0;
  bool snapshot = false;  // The I/O thread answers: the main thread is busy.
};

struct Mime {
  std::string type;
  std::string data;
  bool operator==(const Mime&) const = default;
};

struct Reply {
  uint64_t request = 0;
  int32_t status = SK_OK;
  int32_t answer = 0;
  uint64_t start = 0;
  uint64_t end = 0;
  std::vector<std::string> strings;
  std::vector<Mime> mimes;
  std::string text;
  uint64_t total = 0;  // To LogRequest: all bytes of the text, or all displays.
  std::string metadata{};
  bool operator==(const Reply&) const = default;
};

struct StreamRecord {
  uint32_t stream = SK_STREAM_STDOUT;
  std::string text;
  bool operator==(const StreamRecord&) const = default;
};

struct DisplayRecord {
  uint32_t kind = SK_DISPLAY_DATA;
  std::vector<Mime> mimes;
  std::string display_id;
  std::string metadata{};  // A JSON object as text, or "".
  bool operator==(const DisplayRecord&) const = default;
};

struct ErrorRecord {
  std::string ename;
  std::string evalue;
  std::vector<std::string> traceback;
  uint32_t flags = 0;
  bool operator==(const ErrorRecord&) const = default;
};

// Ranks that failed alike, to the last byte.
struct RankErrors {
  std::vector<uint32_t> ranks;
  ErrorRecord error;
  bool operator==(const RankErrors&) const = default;
};

// One thing that a rank put out.
struct Record {
  int64_t time_ns = 0;  // The rank's monotonic clock.
  std::variant<StreamRecord, DisplayRecord, ErrorRecord> body;
  bool operator==(const Record&) const = default;
};

struct Output {
  uint64_t cell = 0;
  uint64_t seq = 0;  // Of records[0]; the next ones follow without a gap.
  std::vector<Record> records;
};

struct Done {
  Done() = default;
  Done(uint64_t of_cell, uint32_t how, uint64_t last, int64_t wall = 0, int64_t cpu = 0,
       std::string answer = {})
      : cell(of_cell),
        status(how),
        seq_last(last),
        wall_ns(wall),
        cpu_ns(cpu),
        reply(std::move(answer)) {}
  uint64_t cell = 0;
  uint32_t status = SK_CELL_OK;
  uint64_t seq_last = 0;
  int64_t wall_ns = 0;
  int64_t cpu_ns = 0;
  std::string reply;     // JSON of sk_worker_cell_reply(), or "".
  bool lingers = false;  // Other threads of the rank use communicators, whatever cell runs.
};

struct RankTime {
  uint32_t rank = 0;
  int64_t wall_ns = 0;
  int64_t cpu_ns = 0;
  bool operator==(const RankTime&) const = default;
};

// A rank waits for a line of text.
struct InputRequest {
  uint64_t cell = 0;
  uint64_t request = 0;  // The rank's own count.
  std::string prompt;
  bool password = false;
  bool withdrawn = false;
  uint32_t interrupts = 0;  // Of level 0 that the code which asks has heard in this cell.
};

struct InputReply {
  uint64_t request = 0;
  uint32_t state = SK_INPUT_NONE;
  std::string text;  // The line, or why it is refused.
};

struct Comm {
  uint64_t cell = 0;  // Collects what the handler puts out; 0 from a rank.
  uint32_t kind = SK_COMM_MSG;
  std::string id;
  std::string target;
  std::string data;      // JSON.
  std::string metadata;  // JSON.
  std::vector<std::string> buffers;
  bool operator==(const Comm&) const = default;
};

// One sk_event: what the session sees, merged over ranks.
struct Event {
  uint32_t kind = SK_EVENT_NONE;
  uint64_t seq = 0;
  uint64_t cell = 0;
  std::string ranks;
  bool all_ranks = false;
  int32_t status = 0;
  uint32_t stream = 0;
  uint32_t display = 0;
  std::string text;
  std::string ename;
  std::string evalue;
  std::vector<std::string> traceback;
  std::vector<Mime> mimes;
  std::string display_id;
  std::string metadata{};
  Reply reply;
  std::vector<RankTime> times;
  Comm comm;
  std::string tag;
  std::vector<RankErrors> errors;  // Of kind ERROR, by lowest rank.
  bool operator==(const Event&) const = default;
};

struct Shutdown {};

struct Fragment {
  uint64_t total_bytes = 0;
  uint64_t offset = 0;
  std::string data;
};

// How output is shown from the next cell on; 0 leaves as it is.
struct Configure {
  uint32_t tag = 0;  // enum sk_tag_mode.
  uint64_t shown_lines = 0;
  uint64_t shown_bytes = 0;
  uint64_t kept_bytes = 0;
};

struct LogRequest {
  uint64_t request = 0;
  uint32_t what = SK_LOG_TEXT;
  uint64_t cell = 0;
  int64_t execution_count = 0;
  std::string ranks;  // "" is all that the cell ran on.
  uint64_t offset = 0;
  uint64_t limit = 0;
};

using Message =
    std::variant<Hello, Welcome, Heartbeat, Open, Execute, Interrupt, Ask, Reply, Output, Done,
                 Event, Shutdown, Fragment, InputRequest, InputReply, Comm, Attach, Ack, RankGroup,
                 Configure, LogRequest, Note, Regroup, Absent>;

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_MESSAGE_H_
