// The jobs of this user on this host, as their flight records and /proc have them.
#ifndef SK_TOOLS_SK_STATUS_JOBS_H_
#define SK_TOOLS_SK_STATUS_JOBS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/sk_status/process.h"

namespace sk::status {

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
  kMissing,    // No record is here, and nobody knows the rank to be of another host.
};
const char* state_word(State state);  // "in_call".

struct RankRow {
  uint32_t rank = 0;
  ProcessPtr process;  // Null: kMissing.
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
  int64_t began_wall_ns = 0;     // When the first of its ranks began to make it.
  bool ended() const;            // No process of it lives.
};

struct Job {
  std::string name, launcher;
  std::vector<Comm> comms;  // First those of which a process lives, then by age.
  bool ended() const;
  int64_t began_wall_ns() const;  // Of the first communicator.
};

struct Found {
  Look look;
  std::vector<Job> jobs;  // First those of which a process lives, then the latest.
};

Found find_jobs(const record::Settings& settings, const record::EnvLookup& env);

// Those whose name begins with `name`.
void keep_jobs(const std::string& name, std::vector<Job>& jobs);

// Removes records of processes that have ended, of jobs whose name begins so; where that is empty
// also those that say nothing. `unseen`: also of processes that cannot be seen from here.
struct Forgotten {
  size_t removed = 0;
  size_t unseen = 0;  // That stay.
};
Forgotten forget(const Look& look, const std::string& job, bool unseen);

}  // namespace sk::status

#endif  // SK_TOOLS_SK_STATUS_JOBS_H_
