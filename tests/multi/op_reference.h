// A case once more, without threads or sessions: the plan that the communicator makes of it, run by
// the reference executor with its ready tasks in random order, twice back to back.
#ifndef SK_TESTS_MULTI_OP_REFERENCE_H_
#define SK_TESTS_MULTI_OP_REFERENCE_H_

#include <string>

#include "tests/multi/oracle.h"

namespace sk::testing_ops {

// "" if both runs end with what the oracle says, bit for bit; any one rank may ask.
std::string differs_in_reference(sk_comm* comm, const Case& c, int ranks);

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_OP_REFERENCE_H_
