// Every operation of a communicator once, with whole numbers whose results are known.
#ifndef SK_TESTS_NET_OPERATIONS_H_
#define SK_TESTS_NET_OPERATIONS_H_

#include "sk.h"

namespace sk::net {

// `right` becomes false where a result is another than is due. Messages go to so many ranks behind
// each, at most.
sk_status every_operation(sk_comm* comm, int rank, int world_size, int messages, bool* right);

// Messages from each rank to those that many behind it, one after the other.
sk_status send_to_ranks_behind(sk_comm* comm, int rank, int world_size, int distance, bool* right);

}  // namespace sk::net

#endif  // SK_TESTS_NET_OPERATIONS_H_
