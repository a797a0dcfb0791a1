// Ranks that meet and do not all reach each other: who goes, so that the others go on.
#ifndef SK_TRANSPORT_TCP_PARTING_H_
#define SK_TRANSPORT_TCP_PARTING_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace sk::tcp {

// `apart`: pairs that do not reach each other, the lesser rank first. Who has most of these goes
// first, of several the highest rank, until no pair is left; never rank 0, where all meet.
// Ascending; by all ranks alike, for it is a matter of `apart` alone.
std::vector<uint32_t> who_goes(std::set<std::pair<uint32_t, uint32_t>> apart);

}  // namespace sk::tcp

#endif  // SK_TRANSPORT_TCP_PARTING_H_
