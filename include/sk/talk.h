/* What cells and those who run them say to each other beside outputs: input, comms, and answers
 * that do not wait for a busy rank.
 *
 * Input: a rank asks for a line and waits. Ranks of a cell that ask the same are asked as one, and
 * all get the answer; prompts that differ come one after the other, with "[3] " before them.
 *
 * Comms are Jupyter's: a channel with an id between an object in a front end and one in a rank,
 * which carries JSON and buffers (ipywidgets lives on it). A comm that a rank opened belongs to
 * that rank. One that the session opened is opened on every live rank, which shares it. */
#ifndef SK_TALK_H_
#define SK_TALK_H_

#include "sk/exec.h"
#include "sk/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sk_input_state {
  SK_INPUT_NONE = 0,   /**< No answer yet: the timeout ran out, or a signal came. */
  SK_INPUT_TEXT = 1,   /**< A line, without the newline. */
  SK_INPUT_EOF = 2,    /**< The user ended the input. */
  SK_INPUT_REFUSED = 3 /**< Nobody can be asked; the text is a sentence that says why. */
};

enum sk_comm_kind { SK_COMM_OPEN = 1, SK_COMM_MSG = 2, SK_COMM_CLOSE = 3 };

/* ---- the session half ------------------------------------------------------------------- */

/** Answers SK_EVENT_INPUT. `text` NULL with 0 bytes is the end of input. An answer to a `request`
 *  that is over does nothing, for that may cross with its end. At most 1 MiB.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_OUT_OF_RANGE, SK_ERR_PEER_LOST, SK_ERR_TIMEOUT.
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_answer(sk_session* session, uint64_t request,
                                                const char* text, uint64_t bytes) SK_NOEXCEPT;

/** A message of a comm. Borrowed for the call. Fields are only ever appended. */
typedef struct sk_comm_message {
  uint32_t struct_size;
  int32_t kind;       /**< enum sk_comm_kind. */
  const char* comm;   /**< The comm's id, 1 to 1,024 bytes. */
  const char* target; /**< SK_COMM_OPEN: the target's name, 1 to 1,024 bytes; else NULL. */
  const char* data;   /**< JSON; NULL is {}. */
  uint64_t data_bytes;
  const char* metadata;   /**< JSON; NULL is {}. */
  const sk_mime* buffers; /**< `type` does not count and may be NULL. */
  uint64_t buffer_count;
} sk_comm_message;

/** Sends a comm's message to its owner; OPEN to every live rank. The rank's main thread handles it
 *  after what was sent before, cells too. What the handler puts out, and its end as
 *  SK_EVENT_CELL_DONE, carry `*out_cell`; a rank's text is tagged. A comm that nobody has, or
 * wants, is closed by SK_EVENT_COMM, whose data says why. At most 64 MiB together.
 *  @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_comm(sk_session* session, const sk_comm_message* message,
                                              uint64_t* out_cell) SK_NOEXCEPT;

/* ---- the worker half -------------------------------------------------------------------- */

/** What sk_worker_input() brought. */
typedef struct sk_input {
  uint32_t struct_size; /**< Set by the caller. */
  int32_t state;        /**< enum sk_input_state. */
  const char* text;     /**< With a NUL behind `bytes`; valid until the next call of this kind. */
  uint64_t bytes;
} sk_input;

/** Asks the session for a line and waits for it. Flush the language's streams before, and call it
 *  without the language's lock. With SK_INPUT_NONE the question stays open: the next call with the
 *  same prompt goes on waiting for it. `prompt` NULL withdraws the question and returns at once.
 *  `password` 1: not to be shown. A prompt has at most 64 KiB.
 *
 *  An interrupt ends the question. What the cell does about an interrupt may ask: once its code has
 *  heard of it, by sk_worker_interrupted(), by this call's SK_ERR_ABORTED, or by the SIGINT that an
 *  SK_INPUT_NONE lets it look for. Then nobody takes its rank for stuck until the next interrupt.
 *  @return SK_OK, SK_ERR_ABORTED (the cell was interrupted, whatever the answer),
 *          SK_ERR_BUSY (another thread waits here), SK_ERR_INVALID_ARGUMENT, SK_ERR_OUT_OF_RANGE,
 *          SK_ERR_PEER_LOST.
 *  @threads One at a time. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_input(sk_worker* worker, const char* prompt,
                                              int32_t password, int64_t timeout_ms,
                                              sk_input* input) SK_NOEXCEPT;

/** Sends a comm's message to the front end, after everything that was put out before.
 *  @return as sk_worker_stream(), SK_ERR_OUT_OF_RANGE. @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_comm(sk_worker* worker,
                                             const sk_comm_message* message) SK_NOEXCEPT;

/** What the answer to the open cell carries beside its outputs: a JSON object, for a notebook
 *  `user_expressions` and `payload`. Goes out with sk_worker_done(). At most 16 MiB.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (no open cell), SK_ERR_OUT_OF_RANGE.
 *  @threads The one that joined. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_cell_reply(sk_worker* worker, const char* json,
                                                   uint64_t bytes) SK_NOEXCEPT;

/** A name that can be completed and inspected while the rank is busy. */
typedef struct sk_name {
  const char* name; /**< "x", or a member: "x.size". */
  const char* help; /**< What inspection shows; NULL or "": nothing. */
} sk_name;

/** Replaces what the I/O thread knows of `root` and its members, from then on used to answer
 *  COMPLETE and INSPECT while the main thread is in a cell; no names: `root` is gone. Cheap to call
 *  for what a cell changed. All roots together hold at most 8 MiB.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (a name that is neither `root` nor below it, unless
 *          `root` is ""), SK_ERR_OUT_OF_RANGE (no room; `root` is forgotten).
 *  @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_worker_snapshot(sk_worker* worker, const char* root,
                                                 const sk_name* names, uint64_t count) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_TALK_H_ */
