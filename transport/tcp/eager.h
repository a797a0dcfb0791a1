// Which pairs of ranks are connected when their communicator is made.
#ifndef SK_TRANSPORT_TCP_EAGER_H_
#define SK_TRANSPORT_TCP_EAGER_H_

#include <cstdint>
#include <vector>

namespace sk::tcp {

// Ranks of other hosts to which `rank` has a stream from the start, ascending; the same from both
// sides. All of them where no rank has more than `all_up_to` such. Else every rank has at least one
// to each other host, and the first ranks of hosts have each other: of two hosts with a and b
// ranks, a <= b, the i-th one there has every j-th one here for which j mod a = i.
// `host_of`: as Bootstrap has it.
std::vector<uint32_t> eager_peers(const std::vector<int>& host_of, uint32_t rank,
                                  uint32_t all_up_to);

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_EAGER_H_
