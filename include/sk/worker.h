/* The rank program's half of cells on ranks: requests in, text, displays and errors out.
 *
 * Beside include/sk/exec.h, which is for whoever asks, and says how the two halves meet. */
#ifndef SK_WORKER_H_
#define SK_WORKER_H_

#include "sk/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

/** This process as a rank. One per process. */
typedef struct sk_worker sk_worker;

enum sk_worker_flags {
  /** Capture descriptors 1 and 2: C printf, os.write and children's output become streams of the
   *  rank, in order with sk_worker_stream(). Text outside a cell goes to the last cell. */
  SK_WORKER_CAPTURE = 1,
  /** An interrupt sends SIGINT to this process's group (or main thread, if it leads no group).
   *  Without it an interrupt only sets sk_worker_cancelled(). The program installs the handler.
   *  It comes between cells, too, where one was given and sk_worker_next() is not called for it. */
  SK_WORKER_SIGINT = 2,
  /** The program waits in an event loop of its own, on the descriptors of sk_worker_fds(), and
   *  calls sk_worker_next() with a timeout of 0. An interrupt is told there first. With
   *  SK_WORKER_SIGINT the process alone, not its group, gets SIGINT once 300 ms have passed without
   *  sk_worker_interrupted(): then code keeps the loop from turning. One that turns gets none. */
  SK_WORKER_EVENT_LOOP = 4
};

/** Zero means default. Fields are only ever appended. */
typedef struct sk_worker_config {
  uint32_t struct_size;
  uint32_t flags;       /**< enum sk_worker_flags; unknown bits are refused. */
  const char* language; /**< "python 3.11.2", for status pages; NULL is "". */
  int32_t stack_signal; /**< A real-time signal whose handler libsk installs, to see where the main
                             thread is (sk_session_stack()); 0: native stacks are not taken. */
  int32_t language_stack_signal; /**< On it, the language's own handler, installed before the call,
                                      writes its stack, innermost frame first, and returns; */
  int32_t language_stack_fd; /**< to this descriptor of a file (memfd_create()), which libsk empties
                                  before and reads after. Both 0: it cannot. */
  int32_t reserved;          /**< 0. */
  /** Not 0 while a SIGINT has come to the language and waits for its code to look; read by a thread
   * of libsk's, until sk_worker_leave(). NULL: nobody can say. */
  const volatile int32_t* signal_waits;
} sk_worker_config;

/** Where the controller started this process as a template (SK_SESSION_TEMPLATE): says that it is
 *  warm, waits, and returns in every process that is forked from it with `*out_forked` 1; elsewhere
 *  it returns at once with 0. A forked process leads a session of its own and has the environment,
 *  directory and descriptors 1 and 2 of its rank, as if the controller had started the program;
 *  what the program has opened, installed and loaded before is there, too. Call it when all that
 *  every rank needs is loaded, before the first thread and before sk_worker_join(), which follows.
 *  A language does before and after it what it does around fork(2): in a forked process it renews
 *  random seeds, and what it keeps of the environment and of the process's number. SK_TEMPLATE_FD
 *  is removed from the environment. What is buffered for C's streams is flushed before.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (a bad SK_TEMPLATE_FD; more than one thread),
 *          SK_ERR_TRUST, SK_ERR_SYSTEM, SK_ERR_PEER_LOST (this is the template, and the controller
 *          is gone: exit). @threads The only one. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_template(int32_t* out_forked) SK_NOEXCEPT;

/** In a template, before sk_worker_template(): what it is about to do, for whoever opened the
 * session, who gets it as SK_EVENT_NOTE under the tag "template". A template that loads for long
 * says something now and then: each note gives it the whole start_timeout_ms anew. UTF-8, at most
 * 65,536 bytes, of which one that is no text counts as three; copied. Where this process is no
 * template the call does nothing.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (no text; a bad SK_TEMPLATE_FD), SK_ERR_OUT_OF_RANGE (too
 *          long), SK_ERR_PEER_LOST (the controller is gone: exit). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_template_note(const char* text, uint64_t bytes) SK_NOEXCEPT;

/** Joins the controller over the descriptor that SK_WORKER_FD names and starts the I/O thread.
 *  SK_WORKER_FD is removed from the environment, so that children do not take it for theirs. Call
 *  it from the thread that will run cells: that one gets the interrupts. The caller owns
 *  `*out_worker`. `config` may be NULL.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (no or a bad SK_WORKER_FD, RANK or WORLD_SIZE),
 *          SK_ERR_TRUST (the other end runs as another user), SK_ERR_BUSY (joined before),
 *          SK_ERR_SYSTEM, SK_ERR_TRANSPORT. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_join(const sk_worker_config* config,
                                             sk_worker** out_worker) SK_NOEXCEPT;

/** What to do next. Pointers stay valid until the next sk_worker_next(). */
typedef struct sk_request {
  uint32_t struct_size; /**< Set by the caller. */
  int32_t kind;         /**< enum sk_request_kind; 0: the timeout ran out. */
  uint64_t id;          /**< EXECUTE: the cell; else what sk_worker_reply() answers. */
  const char* code;     /**< With a NUL behind `code_bytes`. */
  uint64_t code_bytes;
  uint64_t cursor;         /**< COMPLETE, INSPECT: byte position in `code`. */
  int64_t execution_count; /**< EXECUTE: this cell's number; 0: the language's own. */
  int32_t silent;          /**< EXECUTE: no history, no result display. */
  int32_t store_history;   /**< EXECUTE. */
  int32_t detail;          /**< INSPECT: 0 or 1. */
  int32_t reserved;
  const char* expressions; /**< EXECUTE: JSON, "" on all ranks but the cell's lowest. */
  int32_t comm_kind;       /**< COMM: enum sk_comm_kind; `code` is its data (JSON). */
  int32_t reserved2;
  const char* comm;     /**< COMM: its id. */
  const char* target;   /**< COMM: the target's name, for SK_COMM_OPEN. */
  const char* metadata; /**< COMM: JSON. */
  const sk_mime* buffers;
  uint64_t buffer_count;
} sk_request;

/** Waits up to `timeout_ms` (at most 3,600,000) for a request. Call it without the language's lock.
 *  A signal that arrives meanwhile ends the wait early, with kind 0, so that its handler can run;
 *  so does a change of sk_worker_group().
 *  When the controller is gone the call is SK_ERR_PEER_LOST: exit.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (an EXECUTE is still open: call sk_worker_done()),
 *          SK_ERR_PEER_LOST, SK_ERR_BUSY. @threads The one that joined. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_next(sk_worker* worker, int64_t timeout_ms,
                                             sk_request* request) SK_NOEXCEPT;

/** For an event loop: `*out_requests` is readable while sk_worker_next() may have something,
 *  `*out_interrupts` while sk_worker_interrupted() may. Owned by the worker: only to be polled.
 *  @return SK_OK, SK_ERR_BAD_HANDLE, SK_ERR_INVALID_ARGUMENT (a NULL; joined without
 *          SK_WORKER_EVENT_LOOP). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_fds(sk_worker* worker, int32_t* out_requests,
                                            int32_t* out_interrupts) SK_NOEXCEPT;

/** Takes an interrupt over: the program will end the open cell's code itself, and no SIGINT follows
 *  for this one. `*out_cell` is the open cell where it was interrupted, else 0: it has ended,
 *  sk_worker_next() will refuse it, or the interrupt was taken over before.
 *  @return as sk_worker_fds(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_interrupted(sk_worker* worker,
                                                    uint64_t* out_cell) SK_NOEXCEPT;

/** Text printed by the rank. Copied. Waits (at most until the cell is interrupted or 60 s) while
 *  more than 4 MiB are on the way; once the program has taken the interrupt over, or has heard of
 * it by a refusal here, it waits again. Goes out within 20 ms: a rank that is killed sooner loses
 * it (what it wrote to captured descriptors is never lost). No bytes: nothing is printed; what was
 *  written to captured descriptors so far goes out, before all that is written to either later. A
 *  language that prints through both calls it where it goes from one to the other.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_ABORTED (interrupted while waiting),
 *          SK_ERR_TIMEOUT, SK_ERR_PEER_LOST. The same for the next three. @threads Any. @since 0.1
 */
SK_NODISCARD SK_API sk_status sk_worker_stream(sk_worker* worker, int32_t stream, const char* text,
                                               uint64_t bytes) SK_NOEXCEPT;

/** A display, result, update or clear: enum sk_display_kind. `display_id` may be NULL. `metadata`
 * is the text of a JSON object as Jupyter's messages carry beside the data (the width of an image),
 *  at most 1 MiB, or NULL. At most 64 MiB together, else SK_ERR_OUT_OF_RANGE. */
SK_NODISCARD SK_API sk_status sk_worker_display(sk_worker* worker, int32_t kind,
                                                const sk_mime* mimes, uint64_t mime_count,
                                                const char* display_id,
                                                const char* metadata) SK_NOEXCEPT;

enum sk_error_flags {
  /** It failed only because a peer did (SK_ERR_PEER_LOST, SK_ERR_ABORTED of a collective). */
  SK_ERROR_CONSEQUENCE = 1,
  SK_ERROR_INTERRUPT = 2 /**< The language's answer to an interrupt (KeyboardInterrupt). */
};

/** The exception that ends the cell on this rank; sk_worker_done(SK_CELL_ERROR) follows. The
 *  traceback is lines as the language shows them (ANSI colours allowed), oldest first, without
 *  the rank program's own frames. */
SK_NODISCARD SK_API sk_status sk_worker_error(sk_worker* worker, const char* ename,
                                              const char* evalue, const char* const* traceback,
                                              uint64_t traceback_count, uint32_t flags) SK_NOEXCEPT;

/** The language has left the cell's code with an error: the sk_worker_error() that follows in this
 *  cell is of this moment, however long the error takes to be written out. Ranks that fail at
 *  nearly the same time are put in order by it. The last call holds; without one it is the time of
 *  sk_worker_error().
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (no cell is open). @threads The one that joined.
 *  @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_code_ended(sk_worker* worker) SK_NOEXCEPT;

/** How many threads that the open cell has begun will go on when it ends: they may still call what
 *  the other ranks wait for. It counts in a process whose communicators were used beside the
 *  calling thread before, and until the next cell; without it none is expected to.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (no cell is open; a negative count). @threads The one
 *          that joined. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_threads(sk_worker* worker, int32_t count) SK_NOEXCEPT;

/** From now on what the calling thread puts out (streams, displays, messages of comms) belongs to
 *  `cell`, one that this rank was given, also while another one runs: for threads that outlive the
 *  cell which began them. 0: to the open cell, or between cells to the last one, as without it.
 *  With a cell its output goes out at once, behind all that was written to captured descriptors.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT. @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_output_cell(sk_worker* worker, uint64_t cell) SK_NOEXCEPT;

/** Ends the open EXECUTE: enum sk_cell_status OK or ERROR. Flushes C's stdout and stderr and the
 *  captured descriptors first. After the return no interrupt of this cell is sent any more (one
 *  that was may still be pending in the language). */
SK_NODISCARD SK_API sk_status sk_worker_done(sk_worker* worker, int32_t status) SK_NOEXCEPT;

/** The answer to COMPLETE, INSPECT or IS_COMPLETE. Fields are only ever appended. */
typedef struct sk_reply {
  uint32_t struct_size;
  int32_t answer; /**< IS_COMPLETE: enum sk_is_complete; INSPECT: 1 when found. */
  uint64_t start; /**< COMPLETE: bytes [start, end) of `code` are replaced. */
  uint64_t end;
  const char* const* strings; /**< COMPLETE: matches; IS_COMPLETE: the indent. */
  uint64_t string_count;
  const sk_mime* mimes; /**< INSPECT. */
  uint64_t mime_count;
} sk_reply;

/** @return as sk_worker_stream(). @threads The one that joined. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_reply(sk_worker* worker, uint64_t id,
                                              const sk_reply* reply) SK_NOEXCEPT;

/** 1 once the open cell was interrupted, 2 where SK_WORKER_EVENT_LOOP's SIGINT was sent for that
 *  (until the next interrupt), else 0 (or no worker). Cheap: for loops in C.
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API int32_t sk_worker_cancelled(const sk_worker* worker) SK_NOEXCEPT;

/** Which ranks are there. Communicators over all ranks last within one epoch: make new ones, under
 *  a name that has the epoch in it, when it changes and nobody is missing; end creations of an
 *  earlier one (sk_comm_config.cancel_fd). */
typedef struct sk_group {
  uint32_t struct_size;  /**< Set by the caller. */
  int32_t missing_count; /**< Ranks that are dead or coming up. */
  int32_t first_missing; /**< The least of them, or -1. */
  int32_t wanted; /**< 1: a rank has asked for this epoch in a cell and waits for all to meet; 0: it
                       began without that, by a loss, when all were there, by SK_AFTER_CELL. */
  uint64_t epoch; /**< 0 until all ranks have joined; counted at each loss, each whole group, and
                       each sk_worker_regroup(). */
  /** MASTER_PORT from now on, and the port of JAX_COORDINATOR_ADDRESS: new ones where ranks were
   *  revived, as a survivor's server may still have the old ones. 0: as they were. */
  int32_t master_port;
  int32_t coordinator_port;
} sk_group;

/** The group as the controller told it last; a rank's death is told at once.
 *  @return SK_OK, SK_ERR_BAD_HANDLE, SK_ERR_INVALID_ARGUMENT. @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_group(const sk_worker* worker, sk_group* group) SK_NOEXCEPT;

/** For sk_worker_regroup(), in place of a time. */
enum { SK_AFTER_CELL = -1 };

/** Says that communicators of `epoch` are over here (sk_comm_info.over) or did not come about.
 *  Every rank then hears of a new epoch, also one that has not noticed. Waits for that, at most
 *  `timeout_ms` (0: not at all; at most 3,600,000). SK_AFTER_CELL: the epoch begins once the cell
 *  that runs has ended on all its ranks, so that a slower one finds the communicator as the others
 *  did; not waited for. Does nothing where the epoch is another by now, or where ranks are missing.
 *  @return SK_OK (look at sk_worker_group()), SK_ERR_BAD_HANDLE, SK_ERR_INVALID_ARGUMENT,
 *          SK_ERR_PEER_LOST. @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_regroup(sk_worker* worker, uint64_t epoch,
                                                int64_t timeout_ms) SK_NOEXCEPT;

/** Sends what is still queued (at most 2 s), ends the I/O thread and frees the worker. What is
 *  written to descriptors 1 and 2 afterwards is still seen. NULL is fine. @threads The one that
 *  joined. @since 0.1 */
SK_API sk_status sk_worker_leave(sk_worker* worker) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_WORKER_H_ */
