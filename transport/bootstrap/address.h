// Where rank 0 listens, as sockets see it.
#ifndef SK_TRANSPORT_BOOTSTRAP_ADDRESS_H_
#define SK_TRANSPORT_BOOTSTRAP_ADDRESS_H_

#include <sys/socket.h>

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
};

// Every address that MASTER_ADDR stands for, with the port. Refuses what other hosts can reach
// when there is no job secret.
Result<std::vector<Address>> resolve(const JobEnv& job);

}  // namespace sk

#endif  // SK_TRANSPORT_BOOTSTRAP_ADDRESS_H_
