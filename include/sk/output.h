/* How the output of cells is shown and kept: tags, limits, and the logs of past cells. */
#ifndef SK_OUTPUT_H_
#define SK_OUTPUT_H_

#include "sk/exec.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How text of some ranks, but not all, is marked. */
enum sk_tag_mode {
  SK_TAG_SET = 1,  /**< "[0-3,5] text"; what all ranks have is not marked. The default. */
  SK_TAG_NONE = 2, /**< Nothing is marked. */
  SK_TAG_SPEC = 3, /**< "[rank    3] text" on each line of each rank, ranks one after the other,
                        nothing put together. */
  SK_TAG_HOST = 4  /**< As SET, with the host's name: "[node7 0-3] text". */
};

/** Zero leaves as it is. Fields are only ever appended. */
typedef struct sk_session_settings {
  uint32_t struct_size;
  int32_t tag;          /**< enum sk_tag_mode. */
  uint64_t shown_lines; /**< Lines that one cell shows at most, 16 to 1,000,000; 10,000 unless set.
                             The beginning and the end stay, a display between them says how much
                             is missing and how to see it: sk_session_log(), `%sk log N`. */
  uint64_t shown_bytes; /**< Likewise bytes of text, 4096 to 64 MiB; 1 MiB unless set: notebook
                             servers drop streams above 3 MB in 3 s. */
  uint64_t kept_bytes;  /**< Kept of each rank's text in a cell, for sk_session_log(): 64 KiB to
                             1 GiB; 64 MiB unless set. */
} sk_session_settings;

/** Changes how output is shown and kept, from the next cell that starts.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_OUT_OF_RANGE, SK_ERR_PEER_LOST, SK_ERR_TIMEOUT.
 *  Nothing changes unless SK_OK. @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_configure(sk_session* session,
                                                   const sk_session_settings* settings) SK_NOEXCEPT;

enum sk_log_what {
  SK_LOG_TEXT = 1,   /**< All that was printed, of one rank as it came (both streams), of several
                          ranks merged as a cell shows it, but whole. */
  SK_LOG_DISPLAY = 2 /**< One display or result of one rank, as the rank made it. */
};

/** Zero means default. Fields are only ever appended. Borrowed for the call. */
typedef struct sk_log_query {
  uint32_t struct_size;
  int32_t what;            /**< enum sk_log_what; 0 is TEXT. */
  uint64_t cell;           /**< Of sk_exec(); 0: as the next field says. */
  int64_t execution_count; /**< The newest cell with this one; 0: the newest cell. */
  const char* ranks;       /**< "3" or "0-3"; NULL: all that the cell ran on. */
  uint64_t offset;         /**< TEXT: the first byte; DISPLAY: which one, 0, 1 ... */
  uint64_t limit;          /**< TEXT: bytes at most; 0 is 1 MiB; never more than 16 MiB. */
} sk_log_query;

/** Asks for what a cell put out, also while it runs. The answer is a SK_EVENT_REPLY with `request`
 *  set to `*out_request`. TEXT: `text`, which is bytes [start, end) of `total`; ask on at `end`.
 *  DISPLAY: `mimes`, `metadata`, and in `total` how many there are. Kept are the newest 256 cells,
 *  as far as 1 GiB in a temporary file and 64 MiB of memory go; of a rank that printed more than
 *  is kept, the first and the last half, with a line between them that says how much is missing.
 *  The reply's status is SK_ERR_OUT_OF_RANGE, with a sentence in `text`, for a cell that is not
 *  kept, a rank that did not run it, a display that there is not, or more than 16 MiB to be merged.
 *  @return as sk_exec(). @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_session_log(sk_session* session, const sk_log_query* query,
                                             uint64_t* out_request) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_OUTPUT_H_ */
