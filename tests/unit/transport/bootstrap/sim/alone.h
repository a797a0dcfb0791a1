// Connecting hosts where every rank has a host to itself, as far as sessions go.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_ALONE_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_ALONE_H_

#include <memory>

#include "transport/bootstrap/bootstrap.h"
#include "transport/session.h"

namespace sk::sim {

// connect_tcp() with an endpoint for this host's ranks that has memory and nothing else.
Result<std::unique_ptr<Endpoint>> connect_alone(Bootstrap& bootstrap, int64_t timeout_ns);

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_ALONE_H_
