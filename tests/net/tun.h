// A network device of a host whose other end is this process (TUN: packets of IP, no frames).
#ifndef SK_TESTS_NET_TUN_H_
#define SK_TESTS_NET_TUN_H_

#include <string>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::net {

inline constexpr char kTunName[] = "sk0";

// Makes kTunName in the network namespace that the file `space` stands for, and leaves the calling
// thread in it. Reading never waits. The device goes when the descriptor is closed.
Result<local::Fd> open_tun(const std::string& space);

}  // namespace sk::net

#endif  // SK_TESTS_NET_TUN_H_
