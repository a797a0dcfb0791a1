// A socket that later processes of this user find by a name: in a folder that is theirs alone.
#ifndef SK_TRANSPORT_LOCAL_NAMED_SOCKET_H_
#define SK_TRANSPORT_LOCAL_NAMED_SOCKET_H_

#include <string>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::local {

// Listens under `name` (lower-case letters, digits, dashes; at most 64) in
// $XDG_RUNTIME_DIR/superkernel or /tmp/superkernel-UID, mode 0700, and removes names there that
// nobody listens at any more. SK_ERR_BUSY when somebody listens under this one, SK_ERR_TRUST when
// the folder is not ours alone.
Result<Fd> listen_by_name(const std::string& name);

// Connects, without waiting; the descriptor does not block. SK_ERR_PEER_LOST when nobody listens,
// SK_ERR_BUSY when who does takes nobody in now, SK_ERR_TRUST when another user listens.
Result<Fd> connect_by_name(const std::string& name);

// The next connection of a listening socket, of this user only; SK_ERR_PEER_LOST without one.
Result<Fd> accept_same_user(int listener);

void remove_name(const std::string& name);

}  // namespace sk::local

#endif  // SK_TRANSPORT_LOCAL_NAMED_SOCKET_H_
