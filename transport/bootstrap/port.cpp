#include "transport/bootstrap/port.h"

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>

#include "lib/base/lasting.h"
#include "transport/bootstrap/address.h"
#include "transport/bootstrap/kinds.h"

namespace sk {
namespace {

constexpr int64_t kPortWaitNs = 5'000'000'000;
constexpr int64_t kPortLookNs = 20'000'000;
constexpr int64_t kNameWaitNs = 60'000'000'000;
constexpr int64_t kNameLookNs = 250'000'000;

struct Turn {
  std::mutex mutex;
  std::condition_variable freed;
  bool taken = false;
};

Turn& turn() {
  static Lasting<Turn> instance;
  return *instance;
}

std::vector<Address> any_addresses(int port) {
  Address v4, v6;
  auto* in4 = reinterpret_cast<sockaddr_in*>(&v4.storage);
  in4->sin_family = AF_INET;
  in4->sin_port = htons(uint16_t(port));
  v4.bytes = sizeof(*in4);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&v6.storage);
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(uint16_t(port));
  v6.bytes = sizeof(*in6);
  return {v4, v6};
}

// A descriptor that has the address and does not listen yet, or -1 with errno.
int bind_once(const Address& address) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  // The launcher may hold the port with a bound socket that does not listen, so that nobody else
  // gets it; with SO_REUSEADDR on both that is no conflict.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.family() == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (bind(fd, address.get(), address.bytes) == 0) return fd;
  const int code = errno;
  close(fd);
  errno = code;
  return -1;
}

// A listening descriptor, or -1 with errno.
int listen_once(const Address& address) {
  const int fd = bind_once(address);
  if (fd < 0 || listen(fd, SOMAXCONN) == 0) return fd;
  const int code = errno;
  close(fd);
  errno = code;
  return -1;
}

// A service may learn a host's name only after the host has started: in Kubernetes, a pod's.
Result<std::vector<Address>> resolve_patiently(const JobEnv& job, int64_t deadline_ns,
                                               const Cancel& cancel) {
  const int64_t give_up_ns = std::min(deadline_ns, bootstrap_clock_ns() + kNameWaitNs);
  while (true) {
    Result<std::vector<Address>> addresses = resolve(job);
    const bool unknown = !addresses.ok() && addresses.status().code() == SK_ERR_TRANSPORT;
    if (!unknown || bootstrap_clock_ns() >= give_up_ns) return addresses;
    std::vector<pollfd> none;
    SK_RETURN_IF_ERROR(std::move(cancel.poll(none, kNameLookNs).status()));
  }
}

// Debian gives a host's name an address of its loopback, in /etc/hosts, for itself alone.
Status check_reachable(const JobEnv& job, const std::vector<Address>& addresses) {
  const bool here = std::all_of(addresses.begin(), addresses.end(),
                                [](const Address& address) { return address.loopback(); });
  if (!here || job.any_address || !job.several_hosts) return {};
  return error(SK_ERR_INVALID_ARGUMENT,
               "the environment variable MASTER_ADDR is \"{}\", which is {} on rank 0's host, and "
               "{}: it must be an address at which other hosts reach rank 0, or SK_LISTEN must be "
               "\"any\" where they know it by that name",
               job.address, addresses.front().text(), job.hosts);
}

// Listens at every address of `job` that is this host's own, at least one.
Result<std::vector<int>> listen_at(const JobEnv& job, int64_t deadline_ns, const Cancel& cancel) {
  SK_ASSIGN_OR_RETURN(std::vector<Address> addresses, resolve_patiently(job, deadline_ns, cancel));
  SK_RETURN_IF_ERROR(check_reachable(job, addresses));
  if (job.any_address) addresses = any_addresses(job.port);
  const int64_t give_up_ns = std::min(deadline_ns, bootstrap_clock_ns() + kPortWaitNs);
  while (true) {
    std::vector<int> fds;
    std::string tried;
    bool in_use = false;
    for (const Address& address : addresses) {
      const int fd = listen_once(address);
      if (fd >= 0) {
        fds.push_back(fd);
        continue;
      }
      in_use = in_use || errno == EADDRINUSE;
      tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", address.text(),
                           std::generic_category().message(errno));
    }
    if (!fds.empty() && !in_use) return fds;
    for (const int fd : fds) close(fd);
    if (!in_use || bootstrap_clock_ns() >= give_up_ns) {
      return error(SK_ERR_TRANSPORT, "rank 0 cannot listen at MASTER_ADDR \"{}\", {} {} ({}){}",
                   job.address, job.port_variable, job.port, tried,
                   in_use ? ": another program has the port; set SK_MASTER_PORT to a free one on "
                            "every rank"
                          : "");
    }
    std::vector<pollfd> none;
    SK_RETURN_IF_ERROR(std::move(cancel.poll(none, kPortLookNs).status()));
  }
}

}  // namespace

Result<std::unique_ptr<Port>> Port::open(const JobEnv& job, int64_t deadline_ns,
                                         const Cancel& cancel) {
  {
    std::unique_lock lock(turn().mutex);
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::nanoseconds(deadline_ns - bootstrap_clock_ns());
    if (!cancel.wait_until(turn().freed, lock, until, [] { return !turn().taken; })) {
      SK_RETURN_IF_ERROR(cancel.status());
      return error(SK_ERR_TIMEOUT,
                   "another communicator of this process went on meeting its ranks at {} {}",
                   job.port_variable, job.port);
    }
    turn().taken = true;
  }
  std::unique_ptr<Port> port(new Port);
  port->has_turn_ = true;
  SK_ASSIGN_OR_RETURN(port->fds_, listen_at(job, deadline_ns, cancel));
  return port;
}

Result<std::unique_ptr<Port>> Port::open_here(const JobEnv& job, std::vector<NameState>& states) {
  SK_ASSIGN_OR_RETURN(const std::vector<Address> addresses, resolve(job));
  std::unique_ptr<Port> port(new Port);
  bool taken = false;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (states[i] != NameState::kFree) continue;
    const int fd = bind_once(addresses[i]);
    if (fd < 0 && errno != EADDRINUSE) return system_error("cannot listen at " + job.place());
    if (fd < 0) {
      states[i] = NameState::kDumb;
      taken = true;
    } else {
      port->fds_.push_back(fd);
    }
  }
  if (taken) port->give_back();
  for (const int fd : port->fds_) {
    if (listen(fd, SOMAXCONN) != 0) return system_error("cannot listen at " + job.place());
  }
  return port;
}

void Port::give_back() {
  for (const int fd : fds_) close(fd);
  fds_.clear();
}

Port::~Port() {
  give_back();
  if (!has_turn_) return;
  const std::lock_guard lock(turn().mutex);
  turn().taken = false;
  turn().freed.notify_one();
}

}  // namespace sk
