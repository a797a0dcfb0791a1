// In the place of the system's calls, by the linker (--wrap): those of a fiber go to its network,
// all others to the system.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "tests/unit/transport/bootstrap/sim/library.h"
#include "tests/unit/transport/bootstrap/sim/network.h"

using sk::sim::Network;

namespace {

const sockaddr_in& v4(const sockaddr* address) {
  return *reinterpret_cast<const sockaddr_in*>(address);
}

// Empty: not of a socket of one host.
std::string name_in(const sockaddr* address, socklen_t bytes) {
  if (address->sa_family != AF_UNIX) return "";
  return std::string(reinterpret_cast<const char*>(address), bytes).substr(sizeof(sa_family_t));
}

timespec time_of(int64_t ns) { return {ns / sk::sim::kS, ns % sk::sim::kS}; }

int64_t ns_of(const timespec& time) { return time.tv_sec * sk::sim::kS + time.tv_nsec; }

void tell_address(sockaddr* out, socklen_t* bytes, const sk::sim::Place& place) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(place.address);
  address.sin_port = htons(place.port);
  memcpy(out, &address, std::min<size_t>(*bytes, sizeof(address)));
  *bytes = sizeof(address);
}

int tell_number(void* out, socklen_t* bytes, int number) {
  memcpy(out, &number, std::min<size_t>(*bytes, sizeof(number)));
  *bytes = sizeof(number);
  return 0;
}

}  // namespace

#define SK_SIM_REAL(result, name, ...) \
  result __real_##name(__VA_ARGS__);   \
  result __wrap_##name(__VA_ARGS__)

extern "C" {

SK_SIM_REAL(int, socket, int family, int type, int protocol) {
  Network* const network = Network::current();
  return network ? network->socket(family, type) : __real_socket(family, type, protocol);
}

SK_SIM_REAL(int, bind, int fd, const sockaddr* address, socklen_t bytes) {
  Network* const network = Network::current();
  if (!network) return __real_bind(fd, address, bytes);
  if (address->sa_family == AF_INET) return network->bind(fd, v4(address));
  if (address->sa_family == AF_UNIX) return network->bind_name(fd, name_in(address, bytes));
  return network->bind_any6(fd, ntohs(reinterpret_cast<const sockaddr_in6*>(address)->sin6_port));
}

SK_SIM_REAL(int, listen, int fd, int backlog) {
  Network* const network = Network::current();
  return network ? network->listen(fd, backlog) : __real_listen(fd, backlog);
}

SK_SIM_REAL(int, accept4, int fd, sockaddr* address, socklen_t* bytes, int flags) {
  Network* const network = Network::current();
  return network ? network->accept(fd) : __real_accept4(fd, address, bytes, flags);
}

SK_SIM_REAL(int, connect, int fd, const sockaddr* address, socklen_t bytes) {
  Network* const network = Network::current();
  if (!network) return __real_connect(fd, address, bytes);
  if (address->sa_family == AF_INET) return network->connect(fd, v4(address));
  if (address->sa_family == AF_UNIX) return network->connect_name(fd, name_in(address, bytes));
  errno = ENETUNREACH;
  return -1;
}

SK_SIM_REAL(int, getsockname, int fd, sockaddr* address, socklen_t* bytes) {
  Network* const network = Network::current();
  if (!network) return __real_getsockname(fd, address, bytes);
  const sk::sim::Socket* const it = network->find(fd);
  if (it == nullptr) return -1;
  tell_address(address, bytes, it->local);
  return 0;
}

SK_SIM_REAL(int, getsockopt, int fd, int level, int option, void* out, socklen_t* bytes) {
  Network* const network = Network::current();
  if (!network) return __real_getsockopt(fd, level, option, out, bytes);
  sk::sim::Socket* const it = network->find(fd);
  if (it == nullptr) return -1;
  if (level == SOL_SOCKET && option == SO_ERROR)
    return tell_number(out, bytes, std::exchange(it->error, 0));
  if (level == SOL_SOCKET && option == SO_PEERCRED) {
    *static_cast<ucred*>(out) = {.pid = 1, .uid = geteuid(), .gid = getegid()};
    return 0;
  }
  errno = ENOPROTOOPT;
  return -1;
}

SK_SIM_REAL(int, setsockopt, int fd, int level, int option, const void* in, socklen_t bytes) {
  Network* const network = Network::current();
  if (!network) return __real_setsockopt(fd, level, option, in, bytes);
  return network->find(fd) != nullptr ? 0 : -1;
}

SK_SIM_REAL(ssize_t, send, int fd, const void* bytes, size_t count, int flags) {
  Network* const network = Network::current();
  return network ? network->send(fd, bytes, count) : __real_send(fd, bytes, count, flags);
}

SK_SIM_REAL(ssize_t, recv, int fd, void* room, size_t count, int flags) {
  Network* const network = Network::current();
  return network ? network->receive(fd, room, count) : __real_recv(fd, room, count, flags);
}

SK_SIM_REAL(ssize_t, sendmsg, int fd, const msghdr* message, int flags) {
  Network* const network = Network::current();
  if (!network) return __real_sendmsg(fd, message, flags);
  std::string all;
  for (size_t i = 0; i < message->msg_iovlen; ++i)
    all.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  return network->send(fd, all.data(), all.size(), false);
}

SK_SIM_REAL(ssize_t, recvmsg, int fd, msghdr* message, int flags) {
  Network* const network = Network::current();
  if (!network) return __real_recvmsg(fd, message, flags);
  ssize_t all = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    const iovec& part = message->msg_iov[i];
    const ssize_t came = network->receive(fd, part.iov_base, part.iov_len);
    if (came < 0) return all > 0 ? all : -1;
    all += came;
    if (size_t(came) < part.iov_len) break;
  }
  return all;
}

SK_SIM_REAL(int, shutdown, int fd, int how) {
  Network* const network = Network::current();
  return network ? network->shut(fd) : __real_shutdown(fd, how);
}

SK_SIM_REAL(int, close, int fd) {
  Network* const network = Network::current();
  if (!network || !network->owns(fd)) return __real_close(fd);
  const bool stands = sk::sim::planted == sk::sim::Bug::kDescriptorKept && network->refused(fd);
  return stands ? 0 : network->close(fd);
}

SK_SIM_REAL(int, poll, pollfd* entries, nfds_t count, int timeout_ms) {
  Network* const network = Network::current();
  return network ? network->poll(entries, count, timeout_ms)
                 : __real_poll(entries, count, timeout_ms);
}

SK_SIM_REAL(int, eventfd, unsigned first, int flags) {
  Network* const network = Network::current();
  return network ? network->event() : __real_eventfd(first, flags);
}

SK_SIM_REAL(ssize_t, write, int fd, const void* bytes, size_t count) {
  Network* const network = Network::current();
  if (!network || !network->owns(fd)) return __real_write(fd, bytes, count);
  sk::sim::Socket* const it = network->find(fd);
  if (it == nullptr) return -1;
  ++it->count;
  return ssize_t(count);
}

SK_SIM_REAL(ssize_t, read, int fd, void* room, size_t count) {
  Network* const network = Network::current();
  if (!network || !network->owns(fd)) return __real_read(fd, room, count);
  sk::sim::Socket* const it = network->find(fd);
  if (it == nullptr) return -1;
  const uint64_t rung = std::exchange(it->count, 0);
  memcpy(room, &rung, std::min(count, sizeof(rung)));
  return ssize_t(count);
}

// SIOCOUTQ alone: a kernel has sent what it was given.
SK_SIM_REAL(int, ioctl, int fd, unsigned long what, void* out) {
  Network* const network = Network::current();
  if (!network || !network->owns(fd)) return __real_ioctl(fd, what, out);
  *static_cast<int*>(out) = 0;
  return 0;
}

SK_SIM_REAL(int, epoll_create1, int flags) {
  Network* const network = Network::current();
  return network ? network->event() : __real_epoll_create1(flags);
}

SK_SIM_REAL(int, epoll_ctl, int epoll, int what, int fd, epoll_event* event) {
  Network* const network = Network::current();
  return network ? 0 : __real_epoll_ctl(epoll, what, fd, event);
}

// Nobody drives an endpoint here but who waits, and who leaves asks each peer anyway.
SK_SIM_REAL(int, epoll_wait, int epoll, epoll_event* events, int most, int timeout_ms) {
  Network* const network = Network::current();
  if (!network) return __real_epoll_wait(epoll, events, most, timeout_ms);
  network->fibers().wait_or_die_later(network->now_ns() + timeout_ms * sk::sim::kMs);
  return 0;
}

SK_SIM_REAL(int, clock_gettime, clockid_t clock, timespec* out) {
  Network* const network = Network::current();
  if (!network) return __real_clock_gettime(clock, out);
  *out = time_of(network->clock_ns());
  return 0;
}

SK_SIM_REAL(ssize_t, getrandom, void* out, size_t count, unsigned flags) {
  Network* const network = Network::current();
  if (!network) return __real_getrandom(out, count, flags);
  for (size_t i = 0; i < count; ++i) static_cast<char*>(out)[i] = char(network->draw());
  return ssize_t(count);
}

// With the mutex held, as a thread that waits for another's turn does.
SK_SIM_REAL(int, pthread_cond_clockwait, pthread_cond_t* condition, pthread_mutex_t* mutex,
            clockid_t clock, const timespec* until) {
  Network* const network = Network::current();
  if (!network) return __real_pthread_cond_clockwait(condition, mutex, clock, until);
  pthread_mutex_unlock(mutex);
  const int64_t left_ns = ns_of(*until) - network->now_ns();
  network->fibers().pause(std::max<int64_t>(left_ns, 1));
  pthread_mutex_lock(mutex);
  return ETIMEDOUT;
}

SK_SIM_REAL(int, getaddrinfo, const char* name, const char* port, const addrinfo* hints,
            addrinfo** out) {
  Network* const network = Network::current();
  if (!network) return __real_getaddrinfo(name, port, hints, out);
  std::vector<uint32_t> addresses;
  in_addr number;
  if (inet_pton(AF_INET, name, &number) == 1) {
    addresses = {ntohl(number.s_addr)};
  } else if (const auto it = network->names.find(name);
             it != network->names.end() && it->second.from_ns <= network->now_ns()) {
    addresses = it->second.addresses;
  }
  if (addresses.empty()) return EAI_NONAME;
  *out = nullptr;
  for (auto it = addresses.rbegin(); it != addresses.rend(); ++it) {
    auto* const entry = new addrinfo{};
    auto* const address = new sockaddr_in{};
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(*it);
    address->sin_port = htons(uint16_t(std::stoi(port)));
    entry->ai_family = AF_INET;
    entry->ai_addr = reinterpret_cast<sockaddr*>(address);
    entry->ai_addrlen = sizeof(*address);
    entry->ai_next = std::exchange(*out, entry);
  }
  return 0;
}

SK_SIM_REAL(void, freeaddrinfo, addrinfo* list) {
  if (!Network::current()) return __real_freeaddrinfo(list);
  while (list != nullptr) {
    addrinfo* const entry = std::exchange(list, list->ai_next);
    delete reinterpret_cast<sockaddr_in*>(entry->ai_addr);
    delete entry;
  }
}

// One interface, with the host's address.
SK_SIM_REAL(int, getifaddrs, ifaddrs** out) {
  Network* const network = Network::current();
  if (!network) return __real_getifaddrs(out);
  auto* const address = new sockaddr_in{};
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(Network::address_of(network->process(network->self()).host));
  static char name[] = "sim0";
  *out = new ifaddrs{};
  (*out)->ifa_name = name;
  (*out)->ifa_flags = 1;  // IFF_UP
  (*out)->ifa_addr = reinterpret_cast<sockaddr*>(address);
  return 0;
}

SK_SIM_REAL(void, freeifaddrs, ifaddrs* list) {
  if (!Network::current()) return __real_freeifaddrs(list);
  delete reinterpret_cast<sockaddr_in*>(list->ifa_addr);
  delete list;
}

}  // extern "C"

// std::chrono::steady_clock::now()
std::chrono::steady_clock::time_point real_steady_now() asm(
    "__real__ZNSt6chrono3_V212steady_clock3nowEv");
std::chrono::steady_clock::time_point sim_steady_now() asm(
    "__wrap__ZNSt6chrono3_V212steady_clock3nowEv");
std::chrono::steady_clock::time_point sim_steady_now() {
  Network* const network = Network::current();
  if (!network) return real_steady_now();
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(network->clock_ns()));
}
