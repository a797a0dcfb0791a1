// The jobs of this user on this host, as their flight records and /proc have them.
#ifndef SK_TOOLS_SK_STATUS_JOBS_H_
#define SK_TOOLS_SK_STATUS_JOBS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/record/folder.h"
#include "lib/record/reader.h"

namespace sk::status {

// What "since" is counted from: taken once, before the records are read.
struct Now {
  int64_t monotonic_ns = 0, wall_ns = 0;
  uint64_t space = 0;  // own_process_space().
};
Now now();

enum class Life {
  kRunning,
  kStopped,    // By SIGSTOP, a terminal or a debugger.
  kEnded,      // Nobody, or nobody but a zombie, is there.
  kInvisible,  // In a PID namespace of which nothing is seen here.
};

struct Process {
  record::ProcessView view;
  std::string path;  // Of its record.
  Life life = Life::kInvisible;
  int64_t pid = 0;  // As it is called here, or, of one that is not seen, as it was called there.
};

// Where a rank of a communicator stands.
enum class State {
  kMeeting,  // It looks for the other ranks.
  kInCall,
  kOutside,  // Between two calls.
  kOver,     // An error ended the communicator.
  kFreed,    // Its owner has freed it.
  kStopped,  // Whatever it is in does not go on.
  kEnded,
  kInvisible,  // Its record can be read; whether it lives cannot be seen from here.
  kMissing,    // No record is here, and one should be.
};
const char* state_word(State state);  // "in_call".

struct RankRow {
  uint32_t rank = 0;
  std::shared_ptr<const Process> process;  // Null: kMissing.
  const record::CommView* comm = nullptr;
  State state = State::kMissing;
  const record::Call* call = nullptr;  // The latest; null: none yet.
  bool in_call = false;                // It has not left that.
  bool entering = false;               // What was being written when it was looked at.
  std::optional<uint64_t> entered;     // The last call of all ranks that it has entered.
};

struct Comm {
  std::string name;
  uint64_t id = 0;  // 0: its ranks have not met.
  uint32_t world_size = 1;
  std::vector<RankRow> rows;   // By rank; those missing here too.
  std::vector<int> elsewhere;  // Ranks of other hosts.
  // Who is behind all others, none where nobody is, or where it cannot be said.
  std::vector<int> behind;
  uint64_t least = 0, most = 0;  // Calls of all ranks that were entered, where some are behind.
  bool ended() const;            // No process of it lives.
};

struct Job {
  std::string name, launcher;
  std::vector<Comm> comms;
};

struct Found {
  Now at;
  std::vector<std::string> folders;  // That were looked at.
  std::vector<Job> jobs;
  std::vector<std::string> unreadable;  // A sentence for each file.
};

// Reads all; waits for nobody.
Found find_jobs(const record::Settings& settings, const record::EnvLookup& env);

// Those whose name begins with `name`.
void keep_jobs(const std::string& name, std::vector<Job>& jobs);

// How long ago a moment of that process's CLOCK_MONOTONIC was, and when by the clock of the day.
struct Moment {
  double ago_s = 0;
  int64_t wall_ns = 0;
};
Moment moment_of(const Process& process, int64_t monotonic_ns, const Now& at);

// Removes the records of processes that have ended; how many there were.
size_t forget_ended(const std::vector<Job>& jobs);

}  // namespace sk::status

#endif  // SK_TOOLS_SK_STATUS_JOBS_H_
