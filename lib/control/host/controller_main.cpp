// The controller process before its loop: what its ranks share, and who may speak to it.
#include <signal.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <utility>

#include "lib/control/host/controller_host.h"
#include "lib/control/host/facts.h"
#include "transport/bootstrap/secret_fd.h"
#include "transport/local/secret.h"

namespace sk::control {

using local::HeldFor;

Status serve_session(int session_fd, int door_fd) {
  local::Fd fd(session_fd);
  ::signal(SIGPIPE, SIG_IGN);  // This process is ours; writes to a dead peer report EPIPE.
  SK_RETURN_IF_ERROR(local::check_peer_is_same_user(fd.get()));
  SK_ASSIGN_OR_RETURN(auto link, local::Link::adopt(std::move(fd)));
  SK_ASSIGN_OR_RETURN(auto poller, local::Poller::create());
  // Three servers may live in rank 0 at once: PyTorch's store, JAX's coordinator, libsk's.
  // PyTorch's start meets elsewhere in a rank, so its port is no other server's either.
  SK_ASSIGN_OR_RETURN(const local::HeldPort torch_port, local::hold_port(HeldFor::kThisUser));
  SK_ASSIGN_OR_RETURN(const local::HeldPort jax_port, local::hold_port(HeldFor::kThisUser));
  SK_ASSIGN_OR_RETURN(const local::HeldPort sk_port, local::hold_port(HeldFor::kAnyoneAsks));
  Job job;
  SK_ASSIGN_OR_RETURN(job.id, local::random_hex(8));
  SK_ASSIGN_OR_RETURN(local::Fd secret, local::make_job_secret());
  SK_ASSIGN_OR_RETURN(job.secret_fd, name_secret_fd(secret.get(), kRankSecretFd));
  job.ports = {torch_port.port, jax_port.port};
  job.sk_port = sk_port.port;
  if (std::getenv("OMP_NUM_THREADS") == nullptr) job.cores = host_facts().cpus;
  char host_name[HOST_NAME_MAX + 1] = {};
  if (gethostname(host_name, HOST_NAME_MAX) == 0) job.host = host_name;
  return run_controller(std::move(poller), std::move(link), local::Fd(door_fd), std::move(job),
                        std::move(secret));
}

}  // namespace sk::control
