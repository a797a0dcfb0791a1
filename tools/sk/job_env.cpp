#include "tools/sk/job_env.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "transport/bootstrap/secret_fd.h"
#include "transport/local/secret.h"

namespace sk::tools {
namespace {

constexpr const char* kSecretFd = "SK_JOB_SECRET_FD";

// That the ranks can all read: of what was inherited, only a descriptor that is still there and
// gives its bytes more than once.
bool has_secret() {
  if (const char* text = std::getenv(kSecretFd); text != nullptr) {
    Result<SecretFd> found = find_secret_fd(text);
    if (found.ok() && !found->pipe) return true;
    unsetenv(kSecretFd);  // It would come before the others.
  }
  return std::getenv("SK_JOB_SECRET_FILE") != nullptr || std::getenv("SK_JOB_SECRET") != nullptr;
}

std::string name_of(const std::string& line) { return line.substr(0, line.find('=')); }

}  // namespace

Result<JobEnvironment> JobEnvironment::create(int world_size, int workers) {
  JobEnvironment job;
  job.world_size_ = world_size;
  // Three servers may live in rank 0 at once: PyTorch's store, JAX's coordinator, libsk's.
  // PyTorch's sets SO_REUSEADDR and no more, so its port can be held against chance only.
  for (const local::HeldFor whom :
       {local::HeldFor::kAnyoneAsks, local::HeldFor::kThisUser, local::HeldFor::kAnyoneAsks}) {
    SK_ASSIGN_OR_RETURN(local::HeldPort held, local::hold_port(whom));
    job.held_.push_back(std::move(held));
  }
  const int torch_port = job.held_[0].port, jax_port = job.held_[1].port;
  const int sk_port = job.held_[2].port;
  SK_ASSIGN_OR_RETURN(const std::string run_id, local::random_hex(8));
  job.common_ = {
      fmt::format("WORLD_SIZE={}", world_size),
      fmt::format("LOCAL_WORLD_SIZE={}", world_size),
      fmt::format("ROLE_WORLD_SIZE={}", world_size),
      "GROUP_RANK=0",
      "GROUP_WORLD_SIZE=1",
      "ROLE_NAME=default",
      "MASTER_ADDR=127.0.0.1",
      fmt::format("MASTER_PORT={}", torch_port),
      fmt::format("SK_MASTER_PORT={}", sk_port),
      "TORCHELASTIC_RESTART_COUNT=0",
      "TORCHELASTIC_MAX_RESTARTS=0",
      fmt::format("TORCHELASTIC_RUN_ID={}", run_id),
      "TORCHELASTIC_USE_AGENT_STORE=False",
      fmt::format("JAX_COORDINATOR_ADDRESS=127.0.0.1:{}", jax_port),
      fmt::format("JAX_NUM_PROCESSES={}", world_size),
  };
  if (workers > 0) job.common_.push_back(fmt::format("SK_WORKERS={}", workers));
  if (!has_secret()) {
    SK_ASSIGN_OR_RETURN(job.secret_, local::make_job_secret());
    SK_ASSIGN_OR_RETURN(const std::string name,
                        name_secret_fd(job.secret_.get(), job.secret_.get()));
    job.common_.push_back(fmt::format("{}={}", kSecretFd, name));
  }
  return job;
}

std::vector<std::string> JobEnvironment::of_rank(int rank) const {
  std::vector<std::string> lines = common_;
  for (const char* name : {"RANK", "LOCAL_RANK", "ROLE_RANK", "JAX_PROCESS_ID"}) {
    lines.push_back(fmt::format("{}={}", name, rank));
  }
  const size_t own = lines.size();
  for (char** it = environ; *it != nullptr; ++it) {
    const std::string name = name_of(*it);
    const bool overridden = std::any_of(lines.begin(), lines.begin() + ptrdiff_t(own),
                                        [&](const auto& line) { return name_of(line) == name; });
    if (!overridden) lines.emplace_back(*it);
  }
  return lines;
}

}  // namespace sk::tools
