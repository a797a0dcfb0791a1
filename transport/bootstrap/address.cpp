#include "transport/bootstrap/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "transport/bootstrap/secret.h"

namespace sk {
namespace {

Status check_exposed(const JobEnv& job, const std::vector<Address>& addresses) {
  if (!job.secret.empty()) return {};
  const bool all_loopback = std::all_of(addresses.begin(), addresses.end(),
                                        [](const Address& a) { return a.loopback(); });
  const bool on_this_host = all_loopback && !job.any_address;
  return error(SK_ERR_TRUST,
               "{} can be reached by {} and there is no job secret: set SK_JOB_SECRET_FD, "
               "SK_JOB_SECRET_FILE or SK_JOB_SECRET to the same 16 bytes or more on every rank{}; "
               "ranks that are all on one host need neither that nor an address where "
               "LOCAL_WORLD_SIZE is WORLD_SIZE and SK_JOB_ID is theirs alone",
               job.any_address ? "SK_LISTEN=any" : fmt::format("MASTER_ADDR \"{}\"", job.address),
               on_this_host ? "every user of this host" : "other hosts", job.how);
}

constexpr int kLastingNames = 4;

// Containers that share the host's network may repeat a launcher's name, which has a PID in it, so
// the PIDs' space is part of it.
Result<std::vector<Address>> here(const JobEnv& job) {
  SK_ASSIGN_OR_RETURN(const std::string space, process_space());
  std::vector<Address> out;
  for (int i = 0; i <= kLastingNames; ++i) {
    const bool lasting = i < kLastingNames;
    const std::string which =
        lasting ? fmt::format("name {}", i) : fmt::format("meeting {}", job.meetings);
    // The lasting ones are without the secret: a rank that has another must be told so.
    const std::string key = lasting ? "" : job.secret;
    SK_ASSIGN_OR_RETURN(const Mac digest,
                        hmac(as_bytes(key), {as_bytes("sk meeting place"), job.job, job.name,
                                             as_bytes(space), as_bytes(which)}));
    out.push_back(abstract_address("meet", digest));
  }
  return out;
}

}  // namespace

Address abstract_address(const char* what, std::span<const std::byte> digest) {
  std::string name = fmt::format("superkernel-{}-{}-", what, geteuid());
  for (const std::byte b : digest) name += fmt::format("{:02x}", unsigned(b));
  Address out;
  auto* un = reinterpret_cast<sockaddr_un*>(&out.storage);
  un->sun_family = AF_UNIX;
  std::memcpy(un->sun_path + 1, name.data(), name.size());  // The NUL before it: an abstract name.
  out.bytes = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return out;
}

bool Address::operator==(const Address& other) const {
  return bytes == other.bytes && std::memcmp(&storage, &other.storage, bytes) == 0;
}

bool Address::loopback() const {
  if (family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&storage);
    return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

std::string Address::text() const {
  if (family() == AF_UNIX) return "a socket of this host";
  char host[NI_MAXHOST], service[NI_MAXSERV];
  const int code = getnameinfo(get(), bytes, host, sizeof(host), service, sizeof(service),
                               NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) return fmt::format("an address of family {}", family());
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host, service)
                              : fmt::format("{}:{}", host, service);
}

Status check_same_user(int fd, const JobEnv& job) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) {
    return system_error("getsockopt(SO_PEERCRED)");
  }
  if (peer.uid == geteuid()) return {};
  return error(SK_ERR_TRUST,
               "process {} of user {} is at {}, and the ranks are user {}'s: set SK_JOB_ID to "
               "something that nobody else knows, one value on all ranks",
               peer.pid, peer.uid, job.place(), geteuid());
}

Result<std::vector<Address>> resolve(const JobEnv& job) {
  if (job.one_host) return here(job);
  addrinfo hints{};
  // No AI_ADDRCONFIG: with it, a host that has only its loopback finds no address at all.
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code =
      getaddrinfo(job.address.c_str(), std::to_string(job.port).c_str(), &hints, &list);
  if (code != 0) {
    return error(SK_ERR_TRANSPORT, "MASTER_ADDR \"{}\" cannot be resolved: {}", job.address,
                 code == EAI_SYSTEM ? std::generic_category().message(errno)
                                    : std::string(gai_strerror(code)));
  }
  std::vector<Address> out;
  for (const addrinfo* it = list; it != nullptr; it = it->ai_next) {
    if (it->ai_family != AF_INET && it->ai_family != AF_INET6) continue;
    Address address;
    address.bytes = it->ai_addrlen;
    std::memcpy(&address.storage, it->ai_addr, it->ai_addrlen);
    out.push_back(address);
  }
  freeaddrinfo(list);
  if (out.empty()) {
    return error(SK_ERR_TRANSPORT, "MASTER_ADDR \"{}\" has no IPv4 or IPv6 address", job.address);
  }
  SK_RETURN_IF_ERROR(check_exposed(job, out));
  return out;
}

}  // namespace sk
