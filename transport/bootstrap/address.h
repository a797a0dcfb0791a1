// Where ranks meet, as sockets see it.
#ifndef SK_TRANSPORT_BOOTSTRAP_ADDRESS_H_
#define SK_TRANSPORT_BOOTSTRAP_ADDRESS_H_

#include <sys/socket.h>

#include <span>
#include <vector>

#include "transport/bootstrap/env.h"

namespace sk {

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool loopback() const;
  std::string text() const;  // "127.0.0.1:29500"
  bool operator==(const Address& other) const;
};

// The Unix sockets of a job on one host: names that are nowhere in the file system, so they end
// with their process. Anybody may take one first, therefore both sides look whose the other is, and
// whoever listens does so at every name that it gets: the last one is of this meeting alone, so
// where all ranks have met as often nobody has seen it before; the others are always the same, for
// ranks that have not.
//
// Elsewhere every address that MASTER_ADDR stands for, with the port. Refused without a job secret:
// on the loopback other users are as near as on a network.
Result<std::vector<Address>> resolve(const JobEnv& job);

// The name of a Unix socket that stands for `what` of this user; `digest` has 32 bytes.
Address abstract_address(const char* what, std::span<const std::byte> digest);

// SK_ERR_TRUST when the other end of a Unix socket is another user's.
Status check_same_user(int fd, const JobEnv& job);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_ADDRESS_H_
