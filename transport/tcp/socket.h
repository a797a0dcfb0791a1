// TCP sockets that forked children do not have: one that kept them would hide from the peers that
// the rank has ended.
#ifndef SK_TRANSPORT_TCP_SOCKET_H_
#define SK_TRANSPORT_TCP_SOCKET_H_

#include <memory>
#include <string>
#include <vector>

#include "transport/bootstrap/address.h"
#include "transport/stream/pipe.h"

namespace sk::tcp {

// Owns a descriptor that does not block.
class Socket {
 public:
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }  // -1: in a forked child.

 private:
  friend struct OpenSockets;
  explicit Socket(int fd) : fd_(fd) {}
  int fd_;
};

using SocketPtr = std::unique_ptr<Socket>;

// At a port of `address` between `first` and `last`; any, where both are 0.
Result<SocketPtr> listen_at(const Address& address, int first, int last, Address* bound);
// Null: nobody is there yet, or the process has no descriptor left, as `*failed` says.
SocketPtr accept_one(const Socket& listener, Status* failed);
// Not yet connected where `under_way`; an error names the errno: SK_ERR_PEER_LOST where nobody
// listens there.
Result<SocketPtr> dial(const Address& address, bool* under_way);
// Of one that was under way and has become writable.
Status dialed(const Socket& socket);

// The stream of a connected socket.
std::unique_ptr<stream::Pipe> make_pipe(SocketPtr socket, int64_t silence_ms);

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_SOCKET_H_
