// Task events as Chrome/Perfetto JSON.
#ifndef SK_LIB_COMM_TRACE_H_
#define SK_LIB_COMM_TRACE_H_

#include <string>

#include "lib/exec/executor.h"

namespace sk {

// One "X" event per task for its work and, where it waited over a microsecond, one for the wait.
// Of products also what becomes of them. pid is the rank, tid the queue, ts and dur microseconds of
// CLOCK_MONOTONIC.
std::string trace_json(const TraceBuffer& trace, uint32_t rank);

}  // namespace sk

#endif  // SK_LIB_COMM_TRACE_H_
