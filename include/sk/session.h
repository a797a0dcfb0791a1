/* What a session can tell of its ranks, and what can be done about those that are lost.
 *
 * Beside include/sk/exec.h, which starts a session and runs cells. Each call here sends a question
 * and returns; the answer is an event of sk_session_poll(). */
#ifndef SK_SESSION_H_
#define SK_SESSION_H_

#include "sk/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What the session and its ranks are: the answer is a SK_EVENT_REPLY with `request` set to
 *  `*out_request` and a JSON object as `text`:
 *  {"world_size", "epoch", "running_cell" (0: none), "queued_cells",
 *   "host": {"name", "cpus", "memory_bytes", "memory_available_bytes", "controller_pid"},
 *   "ranks": [{"rank", "state": "starting" | "idle" | "busy" | "interrupting" | "stuck" | "dead" |
 *     "reviving", "pid" (0: no process), "host", "language", "incarnation" (times revived),
 *     "cause" (of dead or stuck), "rss_bytes", "last_cell" (0: none), "last_cell_seconds"}]}.
 *  Keys are only ever added. @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_status(sk_session* session,
                                                uint64_t* out_request) SK_NOEXCEPT;

/** Starts dead and stuck ranks again: stuck ones are killed first, the others are not touched.
 *  `ranks` as in sk_exec(), NULL for all that are dead or stuck. The answer is a SK_EVENT_REPLY:
 *  with SK_OK `strings[0]` has the ranks, SK_EVENT_RANK tells for each that it starts and is ready,
 *  and cells that name it wait; else (a rank named is alive or coming up already, nothing is dead
 *  or stuck) `text` says why and nothing changed.
 *  @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_revive(sk_session* session, const char* ranks,
                                                uint64_t* out_request) SK_NOEXCEPT;

/** Where the main threads of ranks are now, also while they are busy: taken by their I/O threads,
 *  at most 0.4 s. The answer is a SK_EVENT_REPLY with a text that groups ranks with equal stacks.
 *  A system call that must not be restarted ends early with EINTR, as for any signal. `ranks` as
 *  in sk_exec(). @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_stack(sk_session* session, const char* ranks,
                                               uint64_t* out_request) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_SESSION_H_ */
