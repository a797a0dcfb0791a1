/* Operations: collectives, GEMM fused with all-reduce or all-gather, packed weights, plans.
 *
 * All are collective unless said otherwise: every rank of the communicator calls the same thing in
 * the same order; ranks that do not get SK_ERR_DESYNC on every rank, which names who called
 * something else than the most and in what it differs, and no byte is moved. (A collective on one
 * rank and a send or receive on another that wait for each other end too: one of the two gets
 * SK_ERR_DESYNC, all others SK_ERR_ABORTED with the same sentence, and the communicator can only be
 * freed.) Every call waits until the caller may reuse all its buffers. On a GPU it waits only until
 * every rank has called it, enqueues one launch for all ranks, and returns; what goes wrong later,
 * later calls say (and sk_comm_synchronize(), sk_comm_query()), and the communicator can only be
 * freed then. Memory from sk_alloc() is read and written in place by peers; any other memory is
 * staged. `in == out` is in-place; any other overlap is SK_ERR_INVALID_ARGUMENT. Whether a call is
 * in-place, and which of its memory is symmetric, is part of what ranks call: where they differ in
 * it they get SK_ERR_DESYNC. Pointers need the alignment of one element. Integers wrap around. bf16
 * and f16 are reduced in f32, f32 in f32, in rank order, rounded once: the result is the same bits
 * on every rank, in every transport (but a NaN is any NaN: sign and payload may differ). So it is
 * whatever floating-point modes the callers' threads have (rounding, subnormal numbers, traps): on
 * the CPU libsk computes in the default one, its callbacks run in it, and a call that returns has
 * set the caller's again.
 *
 * Errors of every call: SK_ERR_INVALID_ARGUMENT, SK_ERR_BAD_HANDLE, SK_ERR_BUSY, SK_ERR_FORKED,
 * SK_ERR_DESYNC, SK_ERR_PEER_LOST, SK_ERR_ABORTED, SK_ERR_TIMEOUT, SK_ERR_NO_MEMORY. The first five
 * change nothing and leave the communicator usable. What the first four refuse on one rank is no
 * call: peers that made it wait for this rank's next one, and take that for it if it looks the
 * same. So make the call again, right, or end all with sk_comm_abort(). After the next three the
 * communicator can only be freed, unless a local call waited for its turn. So it can after one that
 * failed half-way for want of memory or for another reason (SK_ERR_INTERNAL, SK_ERR_TRANSPORT), for
 * which all other ranks get SK_ERR_ABORTED with its sentence; sk_comm_query() says which it is. On
 * a GPU also SK_ERR_UNSUPPORTED (matrices of f64), which changes nothing, and SK_ERR_DEVICE, after
 * which the process must restart where it says so.
 * Threads: one at a time per communicator. Since 0.1. */
#ifndef SK_OP_H_
#define SK_OP_H_

#include "sk/base.h"
#include "sk/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sk_dtype { SK_F32 = 1, SK_F64 = 2, SK_BF16 = 3, SK_F16 = 4, SK_I32 = 5, SK_I64 = 6 };

/** SK_AVG (the sum over ranks divided by their number) is for floating types only. */
enum sk_redop { SK_SUM = 1, SK_PROD = 2, SK_MIN = 3, SK_MAX = 4, SK_AVG = 5 };

/** A look at what else there is to do while a call waits for other threads' calls. It runs on the
 *  thread that called, which is passed over meanwhile, and may call libsk; to free what the call
 *  waits for, the sk_op or sk_plan that it runs, or to finalize its context, is SK_ERR_BUSY. So
 *  is a wait inside of some twenty others, each from a function of the one before. A child that it
 *  forks is not to return from it: where it does, the call is SK_ERR_FORKED there.
 *  @return 0: wait on; anything else, and an exception of C++: give up, with SK_ERR_BUSY.
 *  @since 0.1 */
typedef int32_t (*sk_turn_fn)(void* user);

/** Where a call runs. NULL stands for all zero: the calling thread, or the default stream of the
 *  communicator's GPU; the communicator's timeout. */
typedef struct sk_run_options {
  uint32_t struct_size;
  int32_t device_type; /**< With device_id: the communicator's; both 0: that too. */
  int32_t device_id;
  int32_t reserved; /**< 0. */
  void* stream; /**< On a GPU a CUstream (cudaStream_t) of its primary context, NULL: the default
                     stream; the launch waits for what is on it, and what comes on it later for
                     the launch. While one is captured all ranks pass that one. Not the per-thread
                     default stream, which is another one in each thread. On the CPU NULL. */
  int64_t timeout_ms; /**< 0: the communicator's. Also of the wait for a turn, where threads' calls
                           come one after another: of sk_comm_self(), of local operations. */
  sk_turn_fn waiting; /**< Called about every 50 ms while the call waits for its turn; NULL: nothing
                           is. (While it waits for other ranks, sk_comm_config.waiting is.) */
  void* waiting_user; /**< Passed to `waiting`. */
} sk_run_options;

/** out[i] = op over ranks of in[i], i < count. MIN and MAX return NaN where any rank has NaN. */
SK_NODISCARD SK_API sk_status sk_allreduce(sk_comm* comm, const void* in, void* out, int64_t count,
                                           int32_t dtype, int32_t op,
                                           const sk_run_options* options) SK_NOEXCEPT;

/** out[r * count + i] = in[i] of rank r. In-place: in == out + rank * count elements. */
SK_NODISCARD SK_API sk_status sk_allgather(sk_comm* comm, const void* in, void* out, int64_t count,
                                           int32_t dtype,
                                           const sk_run_options* options) SK_NOEXCEPT;

/** out[i] = op over ranks of in[rank * count + i]; `in` has world_size * count elements. In-place:
 *  out == in + rank * count elements (the rest of `in` keeps its values). */
SK_NODISCARD SK_API sk_status sk_reduce_scatter(sk_comm* comm, const void* in, void* out,
                                                int64_t count, int32_t dtype, int32_t op,
                                                const sk_run_options* options) SK_NOEXCEPT;

/** out[i] = in[i] of rank `root`. `in` is read on the root only; in == out is fine. */
SK_NODISCARD SK_API sk_status sk_broadcast(sk_comm* comm, const void* in, void* out, int64_t count,
                                           int32_t dtype, int32_t root,
                                           const sk_run_options* options) SK_NOEXCEPT;

/** Returns once every rank has called it. On a GPU what the ranks enqueue behind it waits, too, for
 *  all that they had enqueued before it. */
SK_NODISCARD SK_API sk_status sk_barrier(sk_comm* comm, const sk_run_options* options) SK_NOEXCEPT;

/** Waits until all work on `options->stream` is done, at most the timeout, and says what became of
 *  this communicator's calls so far. Not collective. On the CPU calls are done when they return.
 *  @return as the calls themselves. SK_ERR_TIMEOUT leaves work and communicator as they are where
 *          sk_comm_info.over is SK_OK. */
SK_NODISCARD SK_API sk_status sk_comm_synchronize(sk_comm* comm,
                                                  const sk_run_options* options) SK_NOEXCEPT;

/** Point to point: only the two ranks call, counts and types must match. Sends to one peer and
 *  receives from it are matched in order, beside the collectives. `peer` is not this rank. */
SK_NODISCARD SK_API sk_status sk_send(sk_comm* comm, const void* in, int64_t count, int32_t dtype,
                                      int32_t peer, const sk_run_options* options) SK_NOEXCEPT;
SK_NODISCARD SK_API sk_status sk_recv(sk_comm* comm, void* out, int64_t count, int32_t dtype,
                                      int32_t peer, const sk_run_options* options) SK_NOEXCEPT;

/** A matrix or vector, borrowed for the call. Strides in elements. */
typedef struct sk_tensor {
  uint32_t struct_size;
  int32_t dtype; /**< enum sk_dtype. */
  void* data;
  int32_t ndim;        /**< 1 to 8. */
  int32_t device_type; /**< Where it lies: the communicator's. */
  int32_t device_id;
  int32_t reserved; /**< 0. */
  int64_t shape[8];
  int64_t strides[8];
} sk_tensor;

/** Weights laid out for the tiles of this CPU, or of the communicator's GPU, in whose memory they
 * lie then. Opaque, immutable, reference counted; they may outlive the communicator. */
typedef struct sk_packed sk_packed;

enum sk_gemm_flags {
  SK_GEMM_TRANSPOSE_A = 1, /**< `a` holds the transpose: shape [K, M]. */
  SK_GEMM_TRANSPOSE_B = 2  /**< `b` holds the transpose: shape [N, K]. */
};

/** Packs B of shape [K, N] ([N, K] with SK_GEMM_TRANSPOSE_B) once for many products. `b` may be
 *  changed or freed after the return. Not collective. On a GPU it is work of the default stream,
 * for which the call waits, at most the communicator's timeout; the weights fit every communicator
 * of that GPU.
 *  @threads Any. */
SK_NODISCARD SK_API sk_status sk_pack(sk_comm* comm, const sk_tensor* b, uint32_t flags,
                                      sk_packed** out_packed) SK_NOEXCEPT;

/** Waits for other threads' calls that were given them, 300 s at most: then SK_ERR_TIMEOUT, they
 *  stay, and it may be tried again.
 *  @return SK_OK, SK_ERR_BAD_HANDLE, SK_ERR_TIMEOUT, SK_ERR_FORKED; SK_ERR_BUSY inside a function
 *          that such a call calls.
 *  @threads Any. */
SK_API sk_status sk_packed_free(sk_packed* packed) SK_NOEXCEPT;

/** C = sum over ranks of A_r * B_r, on every rank: a GEMM, then an all-reduce, overlapped.
 *  A is [M, K], B is [K, N], C is [M, N] with the same M, N, K on every rank; rows contiguous
 *  (innermost stride 1), leading strides free. Strides, transposes and whether B is packed are part
 *  of what ranks call: the same on every rank, else SK_ERR_DESYNC. A and B have one dtype of f32,
 *  bf16, f16, f64; C has it too, or f32. Give B as `b`, or packed as `packed` and `b` NULL.
 *  Products are summed in f32 (f64 for f64), partial sums of the ranks in rank order, rounded once.
 *  Where a CPU's own bf16 instructions are used (AVX512_BF16, AMX; SK_CPU_ISA chooses others),
 *  elements that are subnormal, and sums within a rank that would be, count as zero. */
SK_NODISCARD SK_API sk_status sk_allreduce_gemm(sk_comm* comm, const sk_tensor* a,
                                                const sk_tensor* b, const sk_packed* packed,
                                                sk_tensor* c, uint32_t flags,
                                                const sk_run_options* options) SK_NOEXCEPT;

/** C = (A_0 below A_1 below ... A_world-1) * B on every rank, which has its own A and B: an
 *  all-gather of A, then a GEMM, overlapped: products of a rank's rows begin when these arrive.
 *  A is [M, K], B is [K, N], C is [world_size * M, N] with the same M, N, K on every rank; all
 *  else is as in sk_allreduce_gemm(). It is A that peers read in place where it is memory of
 *  sk_alloc(). Products are summed in f32 (f64 for f64) and rounded once. */
SK_NODISCARD SK_API sk_status sk_allgather_gemm(sk_comm* comm, const sk_tensor* a,
                                                const sk_tensor* b, const sk_packed* packed,
                                                sk_tensor* c, uint32_t flags,
                                                const sk_run_options* options) SK_NOEXCEPT;

/** A plan: what every rank does, task by task, and which signals order it. Immutable. Every plan
 *  that this header hands out has passed validation (docs/plan-format.md). */
typedef struct sk_plan sk_plan;

enum sk_op_kind {
  SK_OP_BARRIER = 1,
  SK_OP_ALLREDUCE = 2,
  SK_OP_ALLGATHER = 3,
  SK_OP_REDUCE_SCATTER = 4,
  SK_OP_BROADCAST = 5,
  SK_OP_SEND_RECV = 6,
  SK_OP_ALLREDUCE_GEMM = 7,
  SK_OP_ALLGATHER_GEMM = 8
};

enum sk_plan_flags {
  SK_PLAN_SYMMETRIC_IN = 1,  /**< `in` (A) will be memory of sk_alloc(); not of a BARRIER. */
  SK_PLAN_SYMMETRIC_OUT = 2, /**< `out` (C) will be memory of sk_alloc(); not of a BARRIER. */
  SK_PLAN_IN_PLACE = 4       /**< ALLREDUCE, ALLGATHER and REDUCE_SCATTER. */
};

/** What to plan. A field that the kind does not use must be 0. Fields are only ever appended. */
typedef struct sk_plan_desc {
  uint32_t struct_size;
  int32_t kind;      /**< enum sk_op_kind. */
  int32_t dtype;     /**< enum sk_dtype; not of a BARRIER. */
  int32_t out_dtype; /**< GEMM: type of C; 0 is `dtype`, as it always is elsewhere. */
  int32_t op;        /**< Reductions: enum sk_redop. */
  int32_t root;      /**< BROADCAST: the root; SEND_RECV: the sender. */
  int32_t peer;      /**< SEND_RECV: the receiver. */
  uint32_t flags;    /**< enum sk_plan_flags. */
  int64_t count;     /**< As in the call; neither of a BARRIER nor of a GEMM. */
  int64_t m, n, k;   /**< GEMM. */
} sk_plan_desc;

/** Plans, validates and makes ready to run, workspace included, without a peer: a rank that lacks
 *  what it takes says so here, and not to peers that wait in the first run. The caller owns
 *  `*out_plan`, which may outlive `comm`: it can be dumped and freed then, and no longer run
 *  (SK_ERR_BAD_HANDLE). */
SK_NODISCARD SK_API sk_status sk_plan_create(sk_comm* comm, const sk_plan_desc* desc,
                                             sk_plan** out_plan) SK_NOEXCEPT;

/** Runs a plan. Collective; of a plan of SEND_RECV, ranks that are neither end return at once and
 *  touch nothing. Memory is as the plan's flags say: with SK_PLAN_IN_PLACE `in` and `out` overlap
 * as in the call, without it they are apart; what a SYMMETRIC flag names is memory of sk_alloc() or
 *  sk_register(), and without the flag may be any. For GEMM, A and C are contiguous and `in` points
 *  at A, `weights` is the packed B; else `weights` is NULL.
 *  @threads One at a time per communicator, also of several plans; of sk_comm_self() any: runs wait
 *           for each other, those of one plan, too. */
SK_NODISCARD SK_API sk_status sk_plan_run(sk_plan* plan, const void* in, const sk_packed* weights,
                                          void* out, const sk_run_options* options) SK_NOEXCEPT;

/** Writes all ranks' tasks as text, which sk_plan_check() reads back; of a plan that each rank
 * makes for itself (docs/plan-format.md, plans of many ranks) this rank's alone, which it does not.
 *  `*out_size` gets the length without the NUL, so a first call may pass capacity 0.
 *  @return SK_OK, or SK_ERR_OUT_OF_RANGE when `capacity` was too small (the text is cut). */
SK_NODISCARD SK_API sk_status sk_plan_dump(const sk_plan* plan, char* buffer, size_t capacity,
                                           size_t* out_size) SK_NOEXCEPT;

/** Parses and validates a plan text: SK_OK, or SK_ERR_INVALID_ARGUMENT with line or rule.
 *  @threads Any. */
SK_NODISCARD SK_API sk_status sk_plan_check(const char* text, size_t length) SK_NOEXCEPT;

/** Makes a plan of a text of sk_plan_dump(), changed or not, for sk_plan_run() on `comm`. The text
 *  must pass sk_plan_check() and its target be such a world as this: as many ranks, mapped as they
 *  are here, weights packed as here, not more workers, signals or bytes a put. All ranks must run
 *  the same plan (else SK_ERR_DESYNC); where it is of a call that sk_plan_run() has no arguments
 *  for, that says so. No peer is needed to make it. It is made ready to run, as above.
 *  @return SK_OK; SK_ERR_INVALID_ARGUMENT with line, rule or field; SK_ERR_UNSUPPORTED on a GPU,
 *          and for what cannot be run here; SK_ERR_NO_MEMORY. */
SK_NODISCARD SK_API sk_status sk_plan_parse(sk_comm* comm, const char* text, size_t length,
                                            sk_plan** out_plan) SK_NOEXCEPT;

SK_API sk_status sk_plan_free(sk_plan* plan) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_OP_H_ */
