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
 *     "cause" (of dead or stuck), "rss_bytes", "last_cell" (0: none), "last_cell_seconds",
 *     "doing" ("", "cell", "comm": handles a comm's message), and while it does that
 *     "execution_count" (of the cell; 0: a hidden one), "elapsed_seconds", and where it waits for
 *     peers, as of half a second ago, "waits_in" (the call) and "waits_for" (ranks)}]}.
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

/** Goes on with a session that was opened with `name` and a lease, and whose front end is gone.
 *  `*out_ranks` gets the number of its ranks; it may be NULL. First come the session's STATUS, its
 *  lost ranks, and its notes (sk_session_keep()). Then every cell that was not acknowledged is told
 *  anew: CELL_START with its tag, a clear, what it has shown so far, and its CELL_DONE if it has
 *  ended; CELL_QUEUED with its tag where it waits for those before it. STATUS once more ends that,
 *  and a cell that runs goes on behind it. Cells count on. What was asked and not answered is not
 *  answered any more. Of one stream's text at least the first and the last MiB are kept, with the
 *  count of what is missing. The caller owns `*out_session`.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_PEER_LOST (there is no such session),
 *          SK_ERR_BUSY (it has a front end, or the token is wrong), SK_ERR_TRUST, SK_ERR_SYSTEM.
 *  @threads Any. Waits, at most 3 s. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_attach(const char* name, const char* token,
                                                sk_session** out_session,
                                                int32_t* out_ranks) SK_NOEXCEPT;

/** Leaves a text for the front end that comes after this one, which gets it as SK_EVENT_NOTE: for
 *  what is lost with a front end, as cells that it has not handed over. `name` has 1 to 256 bytes;
 *  the text replaces what was there under it, and NULL takes that away. All texts have at most
 *  64 MiB: of one that does not fit the name alone is kept, and its event has no text. Only
 *  sessions with a name keep any. `text` is copied. The name "template" is also that of
 *  sk_worker_template_note(), which replaces what is under it.
 *  @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_keep(sk_session* session, const char* name,
                                              const char* text, uint64_t bytes) SK_NOEXCEPT;

/** Says that this cell's outputs and end are kept elsewhere, so that they need not be told again.
 *  Only sessions with a name keep what was not acknowledged. Unknown cells are ignored.
 *  @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_ack(sk_session* session, uint64_t cell) SK_NOEXCEPT;

/** Frees the session as the end of this process would: with a lease it goes on that long, for
 *  sk_session_attach(), and without one its ranks end. Its controller stays a child of the process
 *  that opened it. NULL is fine.
 *  @return SK_OK; SK_ERR_BUSY: a thread is inside a call. @threads One. @since 0.1 */
SK_API sk_status sk_session_leave(sk_session* session) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_SESSION_H_ */
