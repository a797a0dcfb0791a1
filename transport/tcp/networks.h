// At which of this host's addresses ranks of others reach it.
#ifndef SK_TRANSPORT_TCP_NETWORKS_H_
#define SK_TRANSPORT_TCP_NETWORKS_H_

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "transport/bootstrap/address.h"

namespace sk::tcp {

// `wanted`: interfaces and networks by commas ("eth0,10.1.0.0/16,fd00::/8"), as SK_NET has them,
// whose addresses come in that order. "": all but loopback and link-local ones, first the one of
// `proven`, whatever its port, then IPv4. At most `most`.
Result<std::vector<Address>> own_addresses(const std::string& wanted, size_t most,
                                           const Address* proven = nullptr);

// "LOW-HIGH", as SK_PORT_RANGE has it; {0, 0} where that is "".
Result<std::pair<int, int>> port_range(const std::string& text);

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_NETWORKS_H_
