// Unix sockets by which ranks of a host hand each other descriptors.
//
// Names are abstract and random: they live and die with the socket, and belong to one network
// namespace. Whoever is of another user, or does not know a secret, is not heard.
#ifndef SK_TRANSPORT_SHM_SOCKET_H_
#define SK_TRANSPORT_SHM_SOCKET_H_

#include <sys/socket.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "transport/shm/fd.h"
#include "transport/shm/memory.h"

namespace sk::shm {

// Of one packet; the kernel's own limit is 253.
inline constexpr size_t kDescriptorsMax = 32;

// With what errno says; where descriptors ran out, with how many there may be.
Status socket_error(const std::string& what);

// Up to `connections` may wait there.
Result<Fd> listen_at(const Secret& name, int connections);

enum class Dialed {
  kConnected,
  kFull,     // Nobody has taken those who came before: to be tried again.
  kRefused,  // Nobody listens there any more.
};
// SK_ERR_TRUST where another user listens. `whom`: for sentences.
Result<Dialed> dial(const Secret& name, const std::string& whom, Fd& socket);

// Takes one connection that waits at `listener`; false: none does. One of another user is closed,
// and leaves `connection` empty: one look at each, so that strangers who keep coming keep nobody
// here.
Result<bool> accept_one(const Fd& listener, Fd& connection);

enum class Carried {
  kDone,
  kLater,   // No room, or nothing there.
  kBroken,  // The other end is gone.
};
// A packet, whole or not at all.
Result<Carried> send_packet(const Fd& socket, std::span<const std::byte> bytes,
                            std::span<const int> descriptors);
struct Packet {
  size_t size = 0;  // Perhaps more than there was room for.
  std::vector<Fd> descriptors;
  bool cut = false;  // Some found no room, in the packet or in this process.
};
Result<Carried> receive_packet(const Fd& socket, std::span<std::byte> bytes, Packet& packet);
// Another descriptor of the same connection; programs that are executed get none.
Result<Fd> duplicate(const Fd& connection, const std::string& what);

// Why descriptors of a packet that can be trusted found no room.
Status no_descriptors_left(const std::string& whose);

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_SOCKET_H_
