/* Traces: when each task waited and ran, as Chrome/Perfetto JSON, rank as process, worker as
 * thread. Off by default; on, a task costs two clock readings. A product also says what becomes of
 * it ("epilogue"): "reduce" adds up the other ranks' parts, which are "partial".
 *
 * On a GPU a worker is a block. It waits for a task, and stores the one before, beside its work, so
 * its spans may overlap; a wait is shown once the work before has ended. What a captured graph
 * repeats is not recorded. */
#ifndef SK_TRACE_H_
#define SK_TRACE_H_

#include "sk/base.h"
#include "sk/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Starts recording this rank's tasks, at most `event_count_max` (0: 65,536; later ones are counted
 *  and dropped). Not collective. Restarting forgets what was recorded. On a GPU the events lie in
 *  its memory, and launches under way are waited for, at most the communicator's timeout.
 *  @threads One at a time per communicator. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_trace_start(sk_comm* comm, uint64_t event_count_max) SK_NOEXCEPT;
SK_NODISCARD SK_API sk_status sk_trace_stop(sk_comm* comm) SK_NOEXCEPT;

/** Writes this rank's events as a JSON object {"traceEvents": [...]}; times in microseconds of
 *  CLOCK_MONOTONIC, so that ranks of one host share an axis. Two-call pattern as sk_plan_dump().
 *  On a GPU it waits for what was launched, at most the communicator's timeout, and says under
 *  "clock" by how much the GPU's clock advances ("step_ns") and how far its times may lie from
 *  CLOCK_MONOTONIC ("error_ns").
 *  @threads One at a time per communicator. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_trace_dump(const sk_comm* comm, char* buffer, size_t capacity,
                                            size_t* out_size) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_TRACE_H_ */
