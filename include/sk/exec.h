/* Cells on ranks: run source text on many rank processes of this host, read one merged stream back.
 *
 * Two halves. The session half, here, is for whoever asks (a notebook front end, a C program): it
 * starts a controller process, which starts the ranks, watches them and merges what they print. The
 * worker half, sk/worker.h, is for the rank program, in whatever language: it takes requests, runs
 * them, and hands back text, displays and errors.
 *
 *   front end --session half--> controller process --> rank process: main thread (worker half)
 *                                                                    + libsk I/O thread
 *
 * The I/O thread never runs code of the language: heartbeat, interrupt, capture and flush go on
 * while a cell spins. Text is UTF-8; bytes that are not are replaced by U+FFFD on the way.
 * No call of either half waits for ever, and none calls back into the language. */
#ifndef SK_EXEC_H_
#define SK_EXEC_H_

#include "sk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One representation of a display: MIME type and bytes. Text types are UTF-8 without a NUL at the
 *  end; binary types (image/png) are the raw bytes, not base64. Borrowed for the call. */
typedef struct sk_mime {
  const char* type;
  const void* data;
  uint64_t bytes;
} sk_mime;

enum sk_stream { SK_STREAM_STDOUT = 1, SK_STREAM_STDERR = 2 };

enum sk_display_kind {
  SK_DISPLAY_DATA = 1,       /**< A display. */
  SK_DISPLAY_RESULT = 2,     /**< The value of the cell's last expression. */
  SK_DISPLAY_UPDATE = 3,     /**< Replaces the displays that carry the same `display_id`. */
  SK_DISPLAY_CLEAR = 4,      /**< Removes this cell's outputs so far; no MIME types. */
  SK_DISPLAY_CLEAR_WAIT = 5, /**< As CLEAR, once the next output comes. */
  SK_DISPLAY_PAGE =
      6 /**< A text for the front end's pager (help); at most one is shown per cell. */
};

/** How a cell, or one rank's part of it, ended. */
enum sk_cell_status {
  SK_CELL_OK = 1,
  SK_CELL_ERROR = 2,  /**< An exception; also an interrupt or a rank's death. */
  SK_CELL_ABORTED = 3 /**< Never started: an earlier cell failed, was interrupted, or the end. */
};

/** What the main thread of a rank is asked to do. */
enum sk_request_kind {
  SK_REQUEST_EXECUTE = 1,
  SK_REQUEST_COMPLETE = 2,    /**< Names that continue `code` at `cursor`. */
  SK_REQUEST_INSPECT = 3,     /**< What the name at `cursor` is. */
  SK_REQUEST_IS_COMPLETE = 4, /**< Whether `code` can be run as it is. */
  SK_REQUEST_SHUTDOWN = 5,    /**< Leave the loop, call sk_worker_leave(), exit. */
  SK_REQUEST_COMM = 20,       /**< A message of a comm; sk/talk.h. Ends with sk_worker_done(). */
  SK_REQUEST_ACTION = 50      /**< As EXECUTE, but `code` is the name of an action, see
                                   sk_exec_options.kind. */
};

enum sk_is_complete {
  SK_COMPLETE_UNKNOWN = 0,
  SK_COMPLETE_COMPLETE = 1,
  SK_COMPLETE_INCOMPLETE = 2, /**< `strings[0]`, if given, is the indent of the next line. */
  SK_COMPLETE_INVALID = 3
};

/** A controller with its ranks, seen from the one who asks. */
typedef struct sk_session sk_session;

enum sk_session_flags {
  /** The rank program calls sk_worker_template() before sk_worker_join(): it is started once, and
   *  ranks are forked from it once it is warm. */
  SK_SESSION_TEMPLATE = 1,
  /** Whoever reads events can type a notebook's magics: sentences that say what can be done name
   *  them. Without it they are such as are right in every language. */
  SK_SESSION_NOTEBOOK = 2
};

/** Zero means default; times are at most 2^40. Fields are only appended. Borrowed for the call. */
typedef struct sk_session_config {
  uint32_t struct_size;    /**< sizeof(sk_session_config) where the caller was compiled. */
  int32_t ranks;           /**< How many rank processes, 1 to 4096. */
  const char* const* argv; /**< The rank program and its arguments, NULL at the end; looked up in
                                PATH. It calls sk_worker_join(). Python: python3 -m libsk.kernel. */
  const char* const* env;  /**< "NAME=value" lines over this process's environment; NULL: none. */
  const char* cwd;         /**< Where the ranks start; NULL: here. */
  const char* sk_path;     /**< The `sk` program that becomes the controller; NULL: SK_PROGRAM, this
                                program if it is `sk`, the one beside libsk, the one in PATH. */
  int64_t start_timeout_ms; /**< Longest wait for a rank's sk_worker_join(); 0 is 60,000. */
  int64_t lease_ms;     /**< How long controller and ranks outlive a lost session; 0: not at all. */
  uint32_t flags;       /**< enum sk_session_flags; unknown bits are refused. */
  uint32_t reserved;    /**< 0. */
  int64_t interrupt_ms; /**< From an interrupt to the end of its cell without the ranks that do
                             not stop; 0 is 1,500. */
  const char* name;     /**< Under which sk_session_attach() finds the session while its lease runs
                             (sk/session.h): 1 to 64 lower-case letters, digits, dashes; NULL: it
                             cannot be found. */
  const char* token;    /**< What that call must show, 16 to 256 bytes that others cannot guess. */
} sk_session_config;

/** Starts the controller, which starts the ranks. Returns when the controller answers; that ranks
 *  are ready, or could not start, comes as events. The caller owns `*out_session`.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_SYSTEM (no controller program, no process),
 *          SK_ERR_NO_MEMORY, SK_ERR_TIMEOUT. @threads Any. Waits. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_open(const sk_session_config* config,
                                              sk_session** out_session) SK_NOEXCEPT;

/** Zero means default. Fields are only ever appended. */
typedef struct sk_exec_options {
  uint32_t struct_size;
  int32_t silent;            /**< 1: no history, no result display. */
  int32_t no_history;        /**< 1: do not store in the language's history. */
  int32_t go_on_after_error; /**< 1: cells queued behind run even if this one fails. */
  int64_t execution_count;   /**< The number that the language gives to this cell; 0: its own. */
  /** 0 or SK_REQUEST_EXECUTE: `code` is source text. SK_REQUEST_ACTION: it is the name of an action
   *  that every language has: "hostname" prints the host's name; "reset" forgets the user's names;
   *  "facts" displays application/vnd.superkernel.facts+json, one object {"host": ..., "cpu": ...,
   *  "cores": ..., "memory": bytes, "gpus": [...], "versions": ..., ...}; "magic %%NAME" (or %NAME)
   *  fails if the language has no such magic. One that does not know an action fails, too. */
  int32_t kind;
  int32_t allow_input;     /**< 1: ranks may ask for input (sk/talk.h); 0: they are refused. */
  const char* expressions; /**< A JSON object of name to expression, which the cell's lowest rank
                                evaluates after the cell; its answer is in CELL_DONE. NULL: none. */
  const char* tag; /**< The caller's own, at most 1 MiB; comes back with CELL_START, also to a
                        session that attaches later. NULL: none. */
} sk_exec_options;

/** Queues a cell and returns. One cell runs at a time, in order of the calls; its outputs and its
 *  end come as events that carry `*out_cell`. `ranks` is a set, "0-3,5", "0-6:2", "!0", or, as of
 *  the cell's turn, "alive" (the ranks that can run cells), "one" (the lowest of those), "local"
 *  (those on this host), "host:NAME", or "all", which NULL means too. A cell that names a dead or
 *  stuck rank is never run on fewer: it ends with an error that says which and what can be done.
 *  `code` is copied, at most 64 MiB. `out_cell` may be NULL; cells count 1, 2, 3.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_OUT_OF_RANGE (a rank that the session does not
 *          have, too much code), SK_ERR_PEER_LOST (no controller any more), SK_ERR_TIMEOUT (it
 *          takes no input).
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_exec(sk_session* session, const char* ranks, const char* code,
                                      uint64_t code_bytes, const sk_exec_options* options,
                                      uint64_t* out_cell) SK_NOEXCEPT;

/** Asks one rank (the lowest idle one) outside the queue of cells: `kind` is COMPLETE, INSPECT or
 *  IS_COMPLETE. `cursor` and the positions in the answer count bytes of `code`. The answer is a
 *  SK_EVENT_REPLY with `request` set to `*out_request`. Where no rank is idle the lowest one's I/O
 *  thread answers, from sk_worker_snapshot(); with status SK_ERR_BUSY when no rank is there.
 *  `detail` is INSPECT's level, 0 or 1.
 *  @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_ask(sk_session* session, int32_t kind, const char* code,
                                             uint64_t code_bytes, uint64_t cursor, int32_t detail,
                                             uint64_t* out_request) SK_NOEXCEPT;

/** Interrupts the running cell and drops the queued ones (they end as ABORTED). On each busy rank
 *  libsk's collectives that are under way now end with SK_ERR_ABORTED, and the language's main
 *  thread gets SIGINT. After a third of `interrupt_ms` a system call in which it waits is ended
 *  once more (EINTR), for it may have begun that just behind the signal; a language that joined
 *  without a stack_signal gets SIGINT again instead. After all of it, or at the third call, the
 *  cell ends with an error that names the ranks that are stuck, and where; those run no cells until
 *  they answer or are revived, the others go on. Where a rank's code asks for input about it,
 * nobody is stuck until the next call, and its answer begins the count of calls anew. Without a
 * running cell, stuck ranks get SIGINT again, with SK_WORKER_EVENT_LOOP several in a row. Cells
 * that are queued after this call are run, also where the interrupted one has not ended yet.
 *  @return SK_OK, SK_ERR_PEER_LOST, SK_ERR_TIMEOUT. @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_interrupt(sk_session* session) SK_NOEXCEPT;

/** Interrupts this cell and no other: while it runs as sk_session_interrupt() does, but what is
 *  queued behind it is run; before that it ends as ABORTED. Nothing happens where it has ended, for
 *  that may cross with this call. For who shares a session with others.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (`cell` is 0), SK_ERR_PEER_LOST, SK_ERR_TIMEOUT.
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_cancel(sk_session* session, uint64_t cell) SK_NOEXCEPT;

enum sk_event_kind {
  SK_EVENT_NONE = 0,       /**< The timeout ran out. */
  SK_EVENT_STATUS = 1,     /**< `status`: enum sk_session_state; `text` says why. */
  SK_EVENT_RANK = 2,       /**< `ranks` are now in `status`, enum sk_rank_state; `text` says why. */
  SK_EVENT_CELL_START = 3, /**< The cell left the queue. */
  SK_EVENT_STREAM = 4,     /**< `text` on `stream`. Append it as it is: tags are in it. */
  SK_EVENT_DISPLAY = 5,    /**< `display` (enum sk_display_kind), `mimes`, `display_id`. */
  SK_EVENT_ERROR = 6,      /**< At most one per cell, of all ranks that failed: `ename`, `evalue`,
                                `traceback`; each rank's own is in `errors`. */
  SK_EVENT_CELL_DONE = 7,  /**< Last of its cell; `status`: enum sk_cell_status; `text`: what the
                                lowest rank gave to sk_worker_cell_reply(). */
  SK_EVENT_REPLY = 8, /**< To sk_session_ask() and its kin: `status` is a sk_status; `answer`, ...;
                           `text` is why not, or what was asked for. */
  SK_EVENT_NOTE = 9,  /**< To a session that attached: `text` of sk_session_keep() under `tag`. To
                           any session, under "template": of sk_worker_template_note(). */
  SK_EVENT_CELL_QUEUED =
      10,              /**< To a session that attached: `cell` waits in the queue; its `tag`. */
  SK_EVENT_INPUT = 20, /**< `ranks` of `cell` wait for sk_session_answer() with `request`; `text`
                            is the prompt, `answer` 1 for a password. One is open at a time. */
  SK_EVENT_INPUT_END = 21, /**< `request` needs no answer any more. */
  SK_EVENT_COMM = 22 /**< A comm's message from `ranks`: `answer` is enum sk_comm_kind, `comm`,
                          `target`, `text` (JSON data), `metadata` (JSON), `mimes` (buffers). */
};

enum sk_session_state {
  SK_SESSION_STARTING = 1, /**< Ranks are coming up; cells wait. */
  SK_SESSION_READY = 2,    /**< Every rank can run cells. */
  SK_SESSION_DEGRADED =
      3,              /**< Not every rank can; cells that name such a rank end with an error. */
  SK_SESSION_OVER = 4 /**< The controller ended or is lost; the last event. */
};

enum sk_rank_state {
  SK_RANK_READY = 1,   /**< Again, after it was stuck or revived. */
  SK_RANK_STUCK = 2,   /**< Did not answer an interrupt; its cell was ended without it. */
  SK_RANK_DEAD = 3,    /**< `text` has the cause: exit code or signal, last lines on stderr. */
  SK_RANK_STARTING = 4 /**< It is revived; READY follows, or DEAD. */
};

/** What a cell took on one rank, measured there between sk_worker_next() and sk_worker_done(). */
typedef struct sk_rank_time {
  int32_t rank;
  int32_t reserved;
  int64_t wall_ns;
  int64_t cpu_ns; /**< Of all threads of the process, and of children that it waited for. */
} sk_rank_time;

/** How a cell failed on one rank, in the words of that rank alone. Of more than 16 MiB in one event
 *  only the beginning of names and values is there, and one line that says so for a traceback. */
typedef struct sk_rank_error {
  int32_t rank;
  uint32_t flags;               /**< enum sk_error_flags (sk/worker.h). */
  const char* ename;            /**< "ValueError". */
  const char* evalue;           /**< Its message, without a rank's number behind it. */
  const char* const* traceback; /**< Lines, of this rank. */
  uint64_t traceback_count;
} sk_rank_error;

/** One event, already merged over ranks. Fields are only ever appended; those that a kind does not
 *  use are zero. Pointers stay valid until the next sk_session_poll() or sk_session_close() of
 *  this session. C strings are never NULL. */
typedef struct sk_event {
  uint32_t struct_size; /**< Set by the caller: sizeof(sk_event) where it was compiled. */
  int32_t kind;         /**< enum sk_event_kind. */
  uint64_t seq;         /**< 1, 2, 3 ... over the session's events. */
  uint64_t cell;        /**< Of sk_exec(), or 0. */
  uint64_t request;     /**< Of sk_session_ask(), or 0. */
  const char* ranks;    /**< The ranks this came from, as "0-3,5". */
  int32_t all_ranks;    /**< 1: `ranks` are all that the cell runs on. */
  int32_t status;
  int32_t stream;   /**< enum sk_stream. */
  int32_t display;  /**< enum sk_display_kind. */
  const char* text; /**< With a NUL behind `text_bytes`. */
  uint64_t text_bytes;
  const char* ename;
  const char* evalue;
  const char* const* traceback; /**< Lines as the front end shows them. */
  uint64_t traceback_count;
  const sk_mime* mimes;
  uint64_t mime_count;
  const char* display_id;
  int32_t answer; /**< REPLY to IS_COMPLETE: enum sk_is_complete; to INSPECT: 1 when found. */
  int32_t reserved;
  uint64_t start; /**< REPLY to COMPLETE: the bytes [start, end) of `code` are replaced. */
  uint64_t end;
  const char* const* strings; /**< REPLY: matches; the indent. */
  uint64_t string_count;
  const char* metadata;      /**< DISPLAY: a JSON object as text, or ""; COMM too. */
  const sk_rank_time* times; /**< CELL_DONE: of the ranks that ended it themselves, in order. */
  uint64_t time_count;
  const char* comm;   /**< COMM: its id. */
  const char* target; /**< COMM: the target's name, for SK_COMM_OPEN. */
  uint64_t total;     /**< REPLY to sk_session_log(). */
  const char* tag;    /**< CELL_START: of sk_exec_options; first STATUS of a session that attached:
                           the last tag that there was. */
  const sk_rank_error* errors; /**< ERROR: what `ename`, `evalue` and `traceback` tell of all ranks
                                    together, rank by rank from the lowest. One that raised and then
                                    died has two, in that order; there are none of a cell that was
                                    not run. */
  uint64_t error_count;
} sk_event;

/** The next event, waiting up to `timeout_ms` (0: not at all; at most 3,600,000). With SK_OK and
 *  kind SK_EVENT_NONE there was none. After SK_SESSION_OVER every call is SK_ERR_PEER_LOST.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_BUSY, SK_ERR_PEER_LOST.
 *  @threads One at a time; others may call anything else meanwhile. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_poll(sk_session* session, int64_t timeout_ms,
                                              sk_event* event) SK_NOEXCEPT;

/** A descriptor that is readable while sk_session_poll() may have an event: for poll(2) loops.
 *  Owned by the session. Call sk_session_poll(s, 0, &e) until NONE before waiting on it.
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_fd(sk_session* session, int32_t* out_fd) SK_NOEXCEPT;

/** Ends ranks and controller (asks, then SIGTERM after 2 s, then SIGKILL; whole process groups)
 *  and frees the session. Returns when they are gone, at most 10 s later. NULL is fine.
 *  @return SK_OK; SK_ERR_TIMEOUT when the controller had to be killed (the session is freed all the
 *          same); SK_ERR_BUSY: a thread is inside a call. @threads One. Waits. @since 0.1 */
SK_API sk_status sk_session_close(sk_session* session) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_EXEC_H_ */
