// Those who come to the port of a job and are none of it.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_STRANGERS_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_STRANGERS_H_

#include "tests/unit/transport/bootstrap/sim/plan.h"

namespace sk::sim {

// The body of their process.
void be_stranger(Network& network, const Stranger& stranger, int world_size);

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_STRANGERS_H_
