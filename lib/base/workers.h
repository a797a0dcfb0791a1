// How many threads of a rank may run tiles, whoever says how many there are.
#ifndef SK_LIB_BASE_WORKERS_H_
#define SK_LIB_BASE_WORKERS_H_

#include <cstdint>

namespace sk {

// Workers of a rank, whether asked for or by the number of cores. A launcher promises no more: the
// ranks would refuse it.
inline constexpr uint32_t kWorkersMax = 256;

}  // namespace sk

#endif  // SK_LIB_BASE_WORKERS_H_
