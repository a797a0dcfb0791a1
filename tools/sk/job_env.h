// What `sk run` tells a rank by its environment: torchrun's contract, JAX's, and libsk's own
// (docs/env.md). Ports stay reserved for as long as the object lives.
#ifndef SK_TOOLS_SK_JOB_ENV_H_
#define SK_TOOLS_SK_JOB_ENV_H_

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "transport/local/fd.h"
#include "transport/local/link.h"

namespace sk::tools {

class JobEnvironment {
 public:
  static Result<JobEnvironment> create(int world_size, int workers);
  // "NAME=value" lines for `rank`: this process's environment with the job's variables put over it.
  std::vector<std::string> of_rank(int rank) const;
  // The job's secret: ranks inherit it under the same number. -1: the caller gave its own.
  int secret_fd() const { return secret_.get(); }

 private:
  JobEnvironment() = default;
  int world_size_ = 1;
  std::vector<local::HeldPort> held_;
  local::Fd secret_;
  std::vector<std::string> common_;  // Equal for all ranks.
};

}  // namespace sk::tools

#endif  // SK_TOOLS_SK_JOB_ENV_H_
