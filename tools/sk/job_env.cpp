#include "tools/sk/job_env.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "transport/local/secret.h"

namespace sk::tools {
namespace {

bool has_secret() {
  return std::getenv("SK_JOB_SECRET_FD") != nullptr ||
         std::getenv("SK_JOB_SECRET_FILE") != nullptr || std::getenv("SK_JOB_SECRET") != nullptr;
}

std::string name_of(const std::string& line) { return line.substr(0, line.find('=')); }

}  // namespace

JobEnvironment::JobEnvironment(JobEnvironment&& other) noexcept
    : world_size_(other.world_size_),
      held_(std::exchange(other.held_, {})),
      secret_(std::move(other.secret_)),
      common_(std::move(other.common_)) {}

JobEnvironment::~JobEnvironment() {
  for (const int fd : held_) close(fd);
}

// Bound with SO_REUSEADDR and not listening: the kernel gives the port to nobody who asks for any
// free one, and the rank that is told the number can still bind and listen, as servers set
// SO_REUSEADDR. So there is no moment at which another program could take it by chance.
Result<int> JobEnvironment::reserve_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("cannot reserve a port: socket");
  held_.push_back(fd);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return system_error("cannot reserve a port on 127.0.0.1");
  }
  return int(ntohs(address.sin_port));
}

Result<JobEnvironment> JobEnvironment::create(int world_size, int workers) {
  JobEnvironment job;
  job.world_size_ = world_size;
  // Three servers may live in rank 0 at once: PyTorch's store, JAX's coordinator, libsk's.
  SK_ASSIGN_OR_RETURN(const int torch_port, job.reserve_port());
  SK_ASSIGN_OR_RETURN(const int jax_port, job.reserve_port());
  SK_ASSIGN_OR_RETURN(const int sk_port, job.reserve_port());
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
    job.common_.push_back(fmt::format("SK_JOB_SECRET_FD={}", job.secret_.get()));
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
