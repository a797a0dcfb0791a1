// Descriptors: how many this process has and may have. Its limit follows what is needed.
#ifndef SK_LIB_BASE_DESCRIPTORS_H_
#define SK_LIB_BASE_DESCRIPTORS_H_

#include <cstdint>
#include <string>

#include "lib/base/status.h"

namespace sk {

// "40 of at most 40 descriptors are open (ulimit -n; the hard limit is 40)".
std::string descriptors_text();

// Sees to it that this process may open `wanted` more: raises its soft limit to that, up to the
// hard one, and never lowers it. No higher than needed: a program that calls select() can have no
// descriptor above 1023, and gets none where it would have got along with its own limit.
// SK_ERR_NO_MEMORY where fewer than `least` can be had; `what` says what they are for.
Status make_room_for_descriptors(uint64_t least, uint64_t wanted, const std::string& what);

}  // namespace sk

#endif  // SK_LIB_BASE_DESCRIPTORS_H_
