// How ranks of other hosts would reach this one.
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/base/status.h"
#include "tools/sk_doctor/checks.h"
#include "transport/bootstrap/identity.h"
#include "transport/local/fd.h"
#include "transport/tcp/networks.h"
#include "transport/tcp/socket.h"

namespace sk::doctor {
namespace {

constexpr size_t kAddressesMax = 8;  // As a rank has at most.
constexpr int kPortsTried = 64;      // Of a range, from its lower end.
constexpr int kPortLooks = 3;
constexpr useconds_t kPortLookUs = 3'000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Without its port, which is 0 here.
std::string host_text(const Address& address) {
  const std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

// "eth0 10.0.0.1, lo 127.0.0.1": what is up.
std::string interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return fmt::format("not known: {}", std::strerror(errno));
  std::string out;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    const int family = it->ifa_addr != nullptr ? it->ifa_addr->sa_family : AF_UNSPEC;
    if ((it->ifa_flags & IFF_UP) == 0 || (family != AF_INET && family != AF_INET6)) continue;
    Address address;
    address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, it->ifa_addr, address.bytes);
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", it->ifa_name, host_text(address));
  }
  freeifaddrs(list);
  return out.empty() ? "no interface is up" : out;
}

// One port at a time, given back at once: a rank of this or another job that looks as well, or
// whose communicator is being made, is to find it free. Who has it for that long has it no more at
// the third look.
bool can_listen(const Address& address, int port, Status* last) {
  for (int look = 0; look < kPortLooks; ++look) {
    if (look > 0) usleep(kPortLookUs);
    Address bound;
    const auto socket = tcp::listen_at(address, port, port, &bound);
    if (socket.ok()) return true;
    *last = socket.status().clone();
  }
  return false;
}

}  // namespace

bool loopback_is_up() {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const local::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  any.sin_port = htons(9);  // Nothing is sent.
  return !socket.open() ||  // Which other lines tell.
         connect(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0;
}

void check_network(Findings* findings) {
  findings->info("network", fmt::format("up: {}", interfaces()));
  if (!loopback_is_up()) {
    findings->limit("network",
                    "the loopback has no 127.0.0.1 or is down: what meets at it on this host "
                    "(PyTorch, JAX, notebooks) cannot; ranks of libsk share memory",
                    "ip link set lo up");
  }
  const std::string wanted = variable("SK_NET");
  const auto chosen = tcp::own_addresses(wanted, kAddressesMax);
  if (!chosen.ok()) {
    if (wanted.empty()) {
      findings->limit("network", chosen.status().message(),
                      "ranks of this host need none; for several hosts bring an interface up");
    } else {
      findings->fault("network", chosen.status().message(),
                      "unset SK_NET, or name one of the interfaces above or its network");
    }
    return;
  }
  std::string text;
  for (const Address& each : chosen.value()) text += (text.empty() ? "" : ", ") + host_text(each);
  findings->ok("network", fmt::format("reached by other hosts' ranks at {} ({})", text,
                                      wanted.empty() ? "SK_NET is not set" : "SK_NET=" + wanted));
}

void check_master(Findings* findings) {
  const std::string master = variable("MASTER_ADDR");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (master.empty() || getaddrinfo(master.c_str(), nullptr, &hints, &list) != 0) return;
  Address address;
  address.bytes = list->ai_addrlen;
  std::memcpy(&address.storage, list->ai_addr, list->ai_addrlen);
  freeaddrinfo(list);
  const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  const bool any = address.family() == AF_INET ? in->sin_addr.s_addr == htonl(INADDR_ANY)
                                               : IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) != 0;
  if (!any && !address.loopback()) return;
  findings->limit("environment",
                  fmt::format("MASTER_ADDR is \"{}\", which each host takes for itself: ranks of "
                              "other hosts do not find rank 0 there",
                              master),
                  "set MASTER_ADDR to rank 0's address in a network that all are in");
}

void check_ports(const Identity* identity, Findings* findings) {
  // One rank of a host is enough, and others at the same time would be in its way.
  if (identity != nullptr && identity->local_rank > 0) return;
  const std::string wanted = variable("SK_PORT_RANGE");
  const auto range = tcp::port_range(wanted);
  if (!range.ok()) {
    findings->fault("ports", range.status().message(), "SK_PORT_RANGE=29500-29599");
    return;
  }
  const auto addresses = tcp::own_addresses(variable("SK_NET"), kAddressesMax);
  if (!addresses.ok()) return;  // Which the network's line says.
  const auto [low, high] = range.value();
  const int ranks = identity != nullptr && identity->local_size > 0 ? identity->local_size
                    : identity != nullptr                           ? 1
                                                                    : usable_cpus();
  const int there = wanted.empty() ? 1 : high - low + 1, tried = std::min(there, kPortsTried);
  for (const Address& address : addresses.value()) {
    Status last;
    int free = 0;
    for (int i = 0; i < tried; ++i) free += can_listen(address, low == 0 ? 0 : low + i, &last);
    const std::string where = host_text(address);
    const std::string text =
        wanted.empty()
            ? "any port of the kernel's"
            : fmt::format("{}{} of the {} ports of SK_PORT_RANGE={}",
                          tried < there && free == tried ? "at least " : "", free, there, wanted);
    const std::string advice =
        fmt::format("give a range with {} free ports at least, one for each rank", ranks);
    if (free == 0) {
      findings->fault("ports",
                      wanted.empty()
                          ? fmt::format("no rank can listen at {}: {}", where, last.message())
                          : fmt::format("no port of SK_PORT_RANGE={} is free at {}: {}", wanted,
                                        where, last.message()),
                      wanted.empty() ? "look at the address's interface (ip address)"
                                     : "ss -tlnp shows who has them; " + advice);
    } else if (!wanted.empty() && free < std::min(ranks, kPortsTried)) {
      findings->limit(
          "ports",
          fmt::format("{} can be listened at, at {}: enough for {} ranks", text, where, free),
          advice);
    } else {
      findings->ok("ports", fmt::format("{} can be listened at, at {}", text, where));
    }
  }
}

}  // namespace sk::doctor
