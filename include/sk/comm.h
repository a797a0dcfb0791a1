/* Communicators: a fixed set of ranks that call the same things in the same order.
 *
 * A rank is a process or a thread. Those of one host share memory; between hosts there is TCP, with
 * TLS 1.3 under the job's secret (docs/env.md), and a thread in each rank, which moves bytes while
 * the program computes. A communicator is used by one thread at a time; different ones are
 * independent. Every wait is bounded by the communicator's timeout and ends at once when a peer
 * dies or a rank aborts, and some seconds after a host has fallen silent (SK_ERR_TRANSPORT). Where
 * a communicator over hosts needs more descriptors than the process's soft limit allows
 * (RLIMIT_NOFILE), that limit is raised to what it needs, up to the hard one; never lowered. */
#ifndef SK_COMM_H_
#define SK_COMM_H_

#include "sk/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Opaque. Created by sk_comm_create(), released by sk_comm_free(). */
typedef struct sk_comm sk_comm;

/** How the ranks find each other. */
enum sk_bootstrap {
  SK_BOOTSTRAP_AUTO = 0,    /**< ENV where a launcher started this process, else world of one. */
  SK_BOOTSTRAP_ENV = 1,     /**< As sk run, torchrun, mpirun or srun says (see docs/env.md). */
  SK_BOOTSTRAP_THREADS = 2, /**< Threads of this process that give the same `name`. */
  SK_BOOTSTRAP_CALLBACK = 3 /**< The caller's own all-gather. */
};

/** Gathers `bytes` bytes of every rank, in rank order, into `out` (world_size * bytes).
 *  @return 0, or anything else to make sk_comm_create() fail. So does an exception of C++. */
typedef int32_t (*sk_allgather_fn)(void* user, const void* in, size_t bytes, void* out);

/** A look at what else there is to do while a call waits, such as an interpreter's signals. It runs
 *  on the thread that called. Of the communicator it may call sk_comm_abort(), which ends the wait;
 *  what one thread at a time may call is SK_ERR_BUSY, and so is freeing what the call was given. An
 *  exception of C++ ends the communicator. A child that it forks is not to return from it: where it
 *  does, the call is SK_ERR_FORKED there, and goes on in the parent. @since 0.1 */
typedef void (*sk_waiting_fn)(void* user);

/** Where a communicator's memory is and its calls run; as DLPack counts, but for the CPU. */
enum sk_device_type {
  SK_DEVICE_CPU = 0,
  /** One GPU of this machine, which all ranks share as threads of one process: THREADS, or a world
   *  of one. Calls take memory of that GPU (sk_alloc() gives it; managed memory is fine, too),
   *  wherever it comes from. They enqueue and return, see sk_run_options.stream. */
  SK_DEVICE_CUDA = 2
};

enum sk_comm_flags {
  /** Plans use puts only, as if no peer's memory could be mapped. For tests and comparison. */
  SK_COMM_PUT_ONLY = 1
};

/** Zero means default. Fields are only ever appended. All ranks must give the same values, but for
 *  `rank`, `bootstrap_user`, `cancel_fd`, `timeout_ms`, `waiting` and its user. On the CPU they may
 * differ in `workers` and `symmetric_bytes_max` (the least holds for all) and in SK_COMM_PUT_ONLY
 * (all do as one asks). */
typedef struct sk_comm_config {
  uint32_t struct_size;         /**< sizeof(sk_comm_config) where the caller was compiled. */
  int32_t bootstrap;            /**< enum sk_bootstrap. */
  int32_t rank;                 /**< For THREADS and CALLBACK; else 0, or as the launcher says. */
  int32_t world_size;           /**< For THREADS and CALLBACK; else 0, or as the launcher says. */
  const char* name;             /**< Which group of this process's THREADS; NULL is "". Else which
                                     of the communicators that the job's processes make at the same
                                     time: threads that do so give each its own name. */
  sk_allgather_fn allgather;    /**< For CALLBACK. */
  void* bootstrap_user;         /**< Passed to `allgather`. */
  int64_t timeout_ms;           /**< Longest wait for a peer in any call; 0 is 300,000. From 0 to
                                     2^40, some 35 years. */
  uint32_t flags;               /**< enum sk_comm_flags; unknown bits are refused. */
  int32_t workers;              /**< Threads per rank that run tiles, the caller's included; 0 is
                                     one for each core that falls to this rank, at least 1. Where
                                     ranks differ all have the least. On a GPU: blocks that stay
                                     resident, rank 0's number; 0 is all that fall to a rank. */
  uint64_t symmetric_bytes_max; /**< Address space for sk_alloc(); 0 is the machine's memory, or the
                                     GPU's. No memory is taken before it is allocated. */
  int32_t cancel_fd; /**< A descriptor that ends sk_comm_create() with SK_ERR_ABORTED once it can be
                          read, as an eventfd or a pipe. It stays the caller's, is not read, and
                          must stay open meanwhile. 0: none, so it cannot be descriptor 0.
                        CALLBACK's own waits do not see it. */
  int32_t reserved;  /**< 0. */
  int32_t device_type;   /**< enum sk_device_type. */
  int32_t device_id;     /**< Which GPU, as the driver counts, from 0; of the CPU 0. */
  sk_waiting_fn waiting; /**< Called about every 50 ms while a call on the CPU waits for other
                              ranks; NULL: nothing is. Calls on a GPU do not call it. */
  void* waiting_user;    /**< Passed to `waiting`. */
} sk_comm_config;

/** Connects all ranks; returns when every rank has called it. `config` may be NULL. In a rank that
 *  has joined a session (sk_worker_join()) it ends early, too, when its cell is interrupted or when
 *  a rank of the session dies.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (also launchers that disagree), SK_ERR_TIMEOUT
 *          (naming the ranks that did not come), SK_ERR_ABORTED (cancelled or interrupted, here or
 *          where they meet), SK_ERR_PEER_LOST, SK_ERR_NO_MEMORY, SK_ERR_TRANSPORT, SK_ERR_TRUST,
 *          SK_ERR_FORKED (in a forked child, whether it has called sk_init() or not);
 *          SK_ERR_UNSUPPORTED (a field that is set and that this library is too old to know; no
 *          driver, no kernels for this GPU, too many ranks for it, ranks on it that are processes),
 *          SK_ERR_DEVICE. Ranks that are refused for what they ask do not come: others wait.
 *  @threads Any. Waits. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_comm_create(sk_context* context, const sk_comm_config* config,
                                             sk_comm** out_comm) SK_NOEXCEPT;

/** Makes a communicator of those ranks of `comm` that are left, so that they go on without the
 *  others: whose process has ended, who have freed theirs, or whose host fell silent. One that is
 *  lost by its silence alone has a quarter of the time, at most ten seconds, to come all the same.
 *  Of two hosts that both reach rank 0's and not each other, one goes: the one with fewer ranks,
 *  else that of the higher ranks, which hear SK_ERR_TRANSPORT and whom they do not reach.
 *  Communicators of which one comes of the other are shrunk one after the other, in the same order
 *  on all ranks; else SK_ERR_DESYNC, and nothing was made. Collective over all that are left, in
 *  whatever state `comm` is; where nobody is lost it is another communicator of the same ranks.
 *  Ranks are numbered anew, in the order in which they were. All else is as it was asked for of
 *  `comm`, `waiting` and its user included. `comm` stays, and its owner frees it.
 *
 *  `timeout_ms`: the longest wait for the others, from 0 to 2^40; 0 is the communicator's timeout.
 *  Who is alive and does not come is waited for that long, and named; once all have come, hosts
 *  have ten seconds more to connect, at most. Who dies meanwhile is left out, too. On several hosts
 * ranks meet at the address of the launcher's rank 0, without which they cannot. While it waits the
 * ranks in sentences are the launcher's. sk_comm_abort() of `comm` ends it on this rank, and so
 * does what ends sk_comm_create() in a session.
 *  @return as sk_comm_create(); SK_ERR_UNSUPPORTED also where `comm` was made with
 *          SK_BOOTSTRAP_THREADS or SK_BOOTSTRAP_CALLBACK, is of a GPU, or where rank 0 of several
 *          hosts is gone; SK_ERR_TRANSPORT where the others have gone on without this rank, whose
 *          connection was lost; SK_ERR_BAD_HANDLE, SK_ERR_BUSY.
 *  @threads One at a time per communicator. Waits. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_comm_shrink(sk_comm* comm, int64_t timeout_ms,
                                             sk_comm** out_comm) SK_NOEXCEPT;

/** Releases the communicator and all memory of sk_alloc() and sk_register() on it. Not collective:
 *  peers that still wait for this rank end with SK_ERR_PEER_LOST. Where
 *  memory is registered and calls have failed it waits until no peer is inside one that could touch
 *  it; on a GPU, until launches have ended. It waits, too, for local operations (sk_call()) and
 *  others that any thread may call; those that wait for their turn are refused (SK_ERR_BUSY), and
 *  those that come meanwhile. SK_ERR_TIMEOUT says that this took longer than the communicator's
 *  timeout; nothing is released then, and it may be tried again.
 *  @return SK_OK, SK_ERR_BAD_HANDLE, SK_ERR_TIMEOUT, SK_ERR_FORKED; SK_ERR_BUSY, also inside a
 *          function that a call on it calls (log, `waiting`, a tile); SK_ERR_ABORTED where the
 *          function of sk_context_set_interrupted() ended its wait: nothing is released then.
 *  @threads One at a time. @since 0.1 */
SK_API sk_status sk_comm_free(sk_comm* comm) SK_NOEXCEPT;

/** Ends every rank's current and later calls with SK_ERR_ABORTED, naming this rank. `reason` is
 *  copied, up to 200 bytes; NULL is "". @threads Any, also while another is inside a call.
 *  @since 0.1 */
SK_API sk_status sk_comm_abort(sk_comm* comm, const char* reason) SK_NOEXCEPT;

/** What this rank is. Zero `struct_size` first, as in every struct. */
typedef struct sk_comm_info {
  uint32_t struct_size;
  int32_t rank;
  int32_t world_size;
  int32_t local_rank;       /**< Rank among those of this host. */
  int32_t local_size;       /**< Ranks on this host. */
  int32_t workers;          /**< Threads, or a GPU's blocks, that run this rank's tiles. */
  int32_t mapped;           /**< 1 when all peers' symmetric memory can be loaded and stored. */
  uint64_t symmetric_bytes; /**< Bytes held by sk_alloc() now. */
  uint64_t calls;           /**< Collective calls finished; on a GPU: enqueued. */
  uint64_t plans;           /**< Plans in the cache. */
  int32_t over;     /**< SK_OK, or why no call can succeed any more: SK_ERR_PEER_LOST, ... On a GPU
                         also what has become of the calls enqueued so far, as far as is known. */
  int32_t reserved; /**< 0. */
} sk_comm_info;

/** @threads One at a time per communicator. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_comm_query(const sk_comm* comm, sk_comm_info* info) SK_NOEXCEPT;

/** Symmetric memory: collective, the same `bytes` on every rank; peers can reach it without a copy.
 *  64-byte aligned, zero-filled. Lives until sk_free() or sk_comm_free(). On a GPU it is the GPU's
 *  memory, and both wait for the communicator's launches to end before they give it back.
 *  @return SK_OK, SK_ERR_INVALID_ARGUMENT (bytes is 0), SK_ERR_OUT_OF_RANGE (symmetric_bytes_max),
 *          SK_ERR_NO_MEMORY (on every rank when one has none), SK_ERR_DESYNC, or a lost peer.
 *  @threads One at a time per communicator. Waits. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_alloc(sk_comm* comm, uint64_t bytes, void** out) SK_NOEXCEPT;

/** Collective: every rank gives back the memory of the same sk_alloc(). NULL is refused. On a GPU
 *  SK_ERR_TIMEOUT may say that launches had not ended within the communicator's timeout; the memory
 *  stays, and it may be tried again.
 *  @threads One at a time per communicator. Waits. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_free(sk_comm* comm, void* memory) SK_NOEXCEPT;

/** Collective: makes the caller's memory symmetric where the ranks can reach it: threads of one
 *  process always; between processes SK_ERR_UNSUPPORTED (memory that was not shared when it was
 *  made cannot be mapped later; use sk_alloc()). The memory must outlive sk_deregister() or
 *  sk_comm_free(). SK_ERR_INVALID_ARGUMENT for what is symmetric already, in part or as a whole. Of
 *  a communicator that can only be freed sk_deregister() returns the error that ended it, once no
 *  peer touches the memory any more; SK_ERR_TIMEOUT where one still may.
 *  @threads One at a time per communicator. Waits. @since 0.1 */
SK_NODISCARD SK_API sk_status sk_register(sk_comm* comm, void* memory, uint64_t bytes) SK_NOEXCEPT;
SK_NODISCARD SK_API sk_status sk_deregister(sk_comm* comm, void* memory) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_COMM_H_ */
