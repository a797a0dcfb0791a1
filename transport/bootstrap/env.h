// Where the ranks of a job meet, and which job it is. docs/env.md has the table.
#ifndef SK_TRANSPORT_BOOTSTRAP_ENV_H_
#define SK_TRANSPORT_BOOTSTRAP_ENV_H_

#include <array>
#include <string>

#include "transport/bootstrap/bootstrap.h"
#include "transport/bootstrap/identity.h"

namespace sk {

struct JobEnv {
  int rank = 0;
  int world_size = 1;
  bool one_host = false;       // The ranks meet at a Unix socket: no address, no port.
  bool several_hosts = false;  // The launcher counted more than this one.
  std::string hosts;           // What says so: "LOCAL_WORLD_SIZE is 2".
  std::string launcher;        // With `start`, for sentences.
  std::string start;           // What the launcher calls this start of the job.
  std::string how;             // Likewise, how its ranks are told of a variable.
  std::string start_hint;      // By which variables starts on several hosts are told apart.
  std::string rank_variable, world_size_variable;  // What said so, for sentences.
  std::string address;                             // Where rank 0 listens.
  int port = 0;
  std::string port_variable;         // The one `port` came from, for sentences.
  bool any_address = false;          // SK_LISTEN=any.
  std::string secret;                // Empty: none was given.
  std::array<std::byte, 16> job{};   // Equal for the ranks of one start of one job.
  std::array<std::byte, 16> name{};  // Of the communicator.
  uint64_t meetings = 0;             // On one host: of this name that this rank had before.

  std::string place() const;  // Where they meet, for sentences.
  // As a sentence: where members find who waits for them.
  std::string awaited_at() const;
};

// Reads and checks all of it for `identity`; the sentence of an error names the variable and what
// is allowed. `name`: the communicator's.
Result<JobEnv> read_job_env(const EnvLookup& env, const Identity& identity,
                            const std::string& name);

// What SK_LISTEN says: true for "any".
Result<bool> listens_anywhere(const EnvLookup& env);

// The secret of SK_JOB_SECRET_FD, SK_JOB_SECRET_FILE or SK_JOB_SECRET, the first that is set;
// empty when none is. `here`: of ranks that meet on this host. There the first does not count, for
// of two ranks that inherited it one may have been started through what closes its descriptors.
Result<std::string> read_job_secret(const EnvLookup& env, bool here = false);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_ENV_H_
