/* Status codes, version, errors, log callback, context: what every other header of libsk uses.
 *
 * Every function returns a status; the sentence that says what was wrong is the thread's
 * sk_last_error(). No function exits the process, prints other than the log that was asked for, or
 * installs a signal handler. A callback returns or throws: it does not longjmp, end its thread or
 * let it be cancelled. A forked child's calls are SK_ERR_FORKED until it has called sk_init(); what
 * was its parent's stays so, and it meets no other ranks (docs/threads.md). */
#ifndef SK_BASE_H_
#define SK_BASE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define SK_NOEXCEPT noexcept
#else
#define SK_NOEXCEPT
#endif

#define SK_API __attribute__((visibility("default")))
#define SK_NODISCARD __attribute__((warn_unused_result))

#define SK_VERSION_MAJOR 0
#define SK_VERSION_MINOR 1
#define SK_VERSION_PATCH 0

/** What a call returns: SK_OK or one of enum sk_status_code. */
typedef int32_t sk_status;

/** Codes are part of the ABI: never renumbered. The tens digit is the class. */
enum sk_status_code {
  SK_OK = 0,
  /* Class 1, the caller: nothing was changed, the object stays usable. Peers that made the call
     which was refused here still wait in it: make it again, right, or call sk_comm_abort(); the
     next call would meet theirs of before. DESYNC alone was told to all. */
  SK_ERR_INVALID_ARGUMENT = 10, /**< An argument is outside what the call allows. */
  SK_ERR_OUT_OF_RANGE = 11,     /**< A buffer or index is too small or too large. */
  SK_ERR_UNSUPPORTED = 12,      /**< Valid, but this build or machine cannot do it. */
  SK_ERR_BAD_HANDLE = 13,       /**< Null, freed, or not such a handle. */
  SK_ERR_BUSY = 14,             /**< A thread is inside a call on this object: another one, or
                                   this one, where a function that it calls came here. */
  SK_ERR_FORKED = 15,           /**< Called in a forked child of the process that called sk_init. */
  SK_ERR_DESYNC = 16,           /**< Ranks called different things; every rank gets this. */
  SK_ERR_TILE = 17,             /**< A user's tile failed its call, whose results are anything. */
  /* Class 2: the communicator is over, unless the call waited for a turn (sk_comm_query()). */
  SK_ERR_PEER_LOST = 20, /**< A rank died, or will not come; the sentence names it. */
  SK_ERR_ABORTED = 21,   /**< sk_comm_abort(), or a function of the caller's ended a wait. */
  /* Class 3, time. */
  SK_ERR_TIMEOUT = 30, /**< A bounded wait ran out; the sentence names whom or what it was for. */
  /* Class 4, resources. */
  SK_ERR_NO_MEMORY = 40, /**< Memory, shared memory or file descriptors ran out. */
  /* Class 5, the machine below. */
  SK_ERR_TRANSPORT = 50, /**< A connection failed. */
  SK_ERR_SYSTEM = 51,    /**< A system call failed; the sentence holds its errno. */
  SK_ERR_DEVICE = 52,    /**< A GPU or its driver failed; the sentence holds its error. */
  /* Class 6, trust. */
  SK_ERR_TRUST = 60, /**< A peer could not show that it belongs to this job. */
  /* Class 7, our bug. */
  SK_ERR_INTERNAL = 70
};

/** "SK_ERR_TIMEOUT" for SK_ERR_TIMEOUT; "SK_ERR_?" for a number that is no code. Static memory.
 *  @threads Any. @since 0.1 */
SK_API const char* sk_status_name(sk_status status) SK_NOEXCEPT;

/** The sentence of this thread's last failed call; "" if none failed yet. Valid until this
 *  thread's next call into libsk. @threads Any. @since 0.1 */
SK_API const char* sk_last_error(void) SK_NOEXCEPT;

/** The version of the library at run time, major * 1000000 + minor * 1000 + patch.
 *  @threads Any. @since 0.1 */
SK_API int32_t sk_version(void) SK_NOEXCEPT;

enum sk_log_level { SK_LOG_DEBUG = 0, SK_LOG_INFO = 1, SK_LOG_WARN = 2, SK_LOG_ERROR = 3 };
#define SK_LOG_ALL (-1) /**< sk_config.log_level: DEBUG and above. 0 there is the default. */
/** Receives one log line, valid for the call only, from any thread of libsk; see docs/log.md. */
typedef void (*sk_log_fn)(void* user, int32_t level, const char* component, const char* message);

/** One embedding of the library. Several may live in a process; they share no state. */
typedef struct sk_context sk_context;

/** Zero means default. Fields are only ever appended. */
typedef struct sk_config {
  uint32_t struct_size; /**< sizeof(sk_config) where the caller was compiled. */
  int32_t log_level;    /**< Least level that is logged; 0 stands for SK_LOG_WARN. */
  sk_log_fn log;        /**< NULL: stderr gets the lines if `log_level` is not 0, else none. */
  void* log_user;       /**< Passed to `log`. */
} sk_config;

/** Makes a context. `config` may be NULL. The caller owns `*out_context` until sk_finalize().
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT, SK_ERR_NO_MEMORY. @threads Any. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_init(const sk_config* config,
                                      sk_context** out_context) SK_NOEXCEPT;

/** Releases a context. Its communicators must have been freed. Waits for other threads' calls on
 *  it and on its sk_comm_self(), 300 s at most: then SK_ERR_TIMEOUT, the context stays as it was,
 *  and it may be tried again. Calls that wait for their turn there are refused (SK_ERR_BUSY), and
 *  so are those that come meanwhile. Behind SK_OK nothing of the caller's is called any more: log,
 *  tiles, functions that are asked while a call waits.
 *  @return SK_OK, SK_ERR_BAD_HANDLE, SK_ERR_FORKED, SK_ERR_TIMEOUT; SK_ERR_BUSY when a communicator
 *          is alive, and inside a function that a call on the context calls; SK_ERR_ABORTED where
 *          the function of sk_context_set_interrupted() ended its wait: nothing is released then.
 *  @threads One at a time per context. @since 0.1 */
SK_API sk_status sk_finalize(sk_context* context) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_BASE_H_ */
