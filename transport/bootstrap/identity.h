// Who this process is, by the variables of whatever started it: one row for each launcher.
//
// Variables are inherited by everything a rank starts, and batch scripts carry some of them without
// having been started as a rank. What is not clear here is refused with a sentence, for two wrong
// guesses would be two worlds of one with plausible results.
#ifndef SK_TRANSPORT_BOOTSTRAP_IDENTITY_H_
#define SK_TRANSPORT_BOOTSTRAP_IDENTITY_H_

#include <optional>
#include <string>

#include "transport/bootstrap/bootstrap.h"

namespace sk {

struct Identity {
  std::string launcher;  // For sentences: "Open MPI".
  std::string rank_variable, world_size_variable;
  int rank = 0;
  int world_size = 1;
  int local_rank = -1;         // -1: the launcher does not say.
  int local_size = 0;          // Ranks on this host; 0: likewise.
  bool one_host = false;       // By the launcher's own count,
  bool several_hosts = false;  // as this is.
  std::string hosts;           // What said so: "OMPI_COMM_WORLD_LOCAL_SIZE is 2".
  std::string job;         // Of this start of this job alone; empty: nothing tells it from others.
  std::string start;       // As much of that as all hosts of the start have in common,
  std::string start_hint;  // and by which variables.
  std::string job_hint;    // What the launcher would have named it by.
  std::string how;         // The end of a sentence that says what to set on every rank.
  // Without an address: all ranks are on this host, and know a name that nobody else has.
  bool can_meet_here() const { return one_host && !job.empty(); }
};

// nullopt: no launcher started this process as one of several, or SK_BOOTSTRAP=single says so.
Result<std::optional<Identity>> read_identity(const EnvLookup& env);

// For what starts ranks itself: takes those variables out of this process's environment by which a
// rank would be another launcher's, too. Before the process has threads.
void forget_launchers();

// A variable that must be a number; the sentence of an error names it and what is allowed.
Result<int> read_number(const EnvLookup& env, const char* name, int least, int most);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_IDENTITY_H_
