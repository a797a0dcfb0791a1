// Starts the ranks of a job, watches them, and leaves none behind.
#ifndef SK_TOOLS_SK_LAUNCH_H_
#define SK_TOOLS_SK_LAUNCH_H_

#include <cstdint>

#include "tools/sk/job_env.h"

namespace sk::tools {

struct LaunchConfig {
  int world_size = 1;
  bool tag = false;         // Output goes through Relay.
  bool keep_going = false;  // When a rank fails, the others are not ended.
  int64_t timeout_ns = 0;   // 0: none.
  char** command = nullptr;
};

// Returns the exit status of the job: 0 when every rank ended with 0; else that of the rank that
// failed first, 128 + N for one killed by signal N; 124 when the time ran out; 126 or 127 when the
// program could not be started. Says on stderr which rank it was. SIGINT, SIGTERM and SIGHUP are
// passed on to all ranks; a second one ends them.
Result<int> launch(const LaunchConfig& config, const JobEnvironment& environment);

}  // namespace sk::tools

#endif  // SK_TOOLS_SK_LAUNCH_H_
