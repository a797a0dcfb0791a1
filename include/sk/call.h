/* Any operation by its number: what sk/ops.h has typed wrappers for.
 *
 * An operation is one record of the library (docs/reference/): operands, attributes, shapes, types.
 * Its arguments are one struct, whose fields are only ever appended, so that a caller that was
 * compiled with fewer goes on. Errors and threads are those of sk/op.h, of a local operation those
 * of sk_comm_self(). Since 0.1. */
#ifndef SK_CALL_H_
#define SK_CALL_H_

#include "sk/base.h"
#include "sk/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Calls the operation `op` (enum sk_op_kind) with its struct of arguments (sk/ops.h). In the
 *  struct `operation` is 0 or the same number. A tensor that may be left out is NULL then; numbers
 * have no defaults: zero means zero. A vector is a tensor of any shape whose elements lie one after
 *  another. A list is an array of `length` pointers to such tensors of one type; the n-th tensors
 * of all lists have as many elements. Results are written where the tensors of results say, or over
 *  what they come of. Of a local operation no other rank has to call anything, and it may be called
 *  from any thread.
 *  @return as the calls of sk/op.h; SK_ERR_INVALID_ARGUMENT for what the operation does not allow
 *          (the sentence names the argument, what it was and what is allowed) and for a number that
 *          is no operation; SK_ERR_UNSUPPORTED for a local operation on a GPU's communicator. */
SK_NODISCARD SK_API sk_status sk_call(sk_comm* comm, int32_t op, const void* args,
                                      const sk_run_options* options) SK_NOEXCEPT;

/** A world of one, which is this process alone, with all the cores that the process may use, or as
 *  many workers as SK_WORKERS says: for operations that need no other ranks. Always the same one in
 *  a context, which owns it: sk_comm_free() refuses it, sk_finalize() ends it. A forked child has
 *  its own, in a context that it has made itself.
 *  @threads Any, and any may call it: such calls come one after another and wait for each other,
 *  each for its options' timeout_ms, else 300 s, at most (SK_ERR_TIMEOUT, and it has done nothing).
 *  Whoever has waited longest is next once that was 0.1 ms, and not within 0.1 ms of the one before
 *  it: so long calls that begin may come first, and many threads of small calls are as fast as
 *  behind a mutex. SK_ERR_BUSY where sk_finalize() ends it meanwhile.
 *  @return SK_OK, SK_ERR_BAD_HANDLE, SK_ERR_INVALID_ARGUMENT, SK_ERR_NO_MEMORY, SK_ERR_FORKED. */
SK_NODISCARD SK_API sk_status sk_comm_self(sk_context* context, sk_comm** out_comm) SK_NOEXCEPT;

/** Whether the calling thread's wait is to end: 0 lets it go on. It may run what an interpreter
 * does at a signal, and call libsk; an exception of C++ ends the wait. A wait of a call that it
 * makes asks nobody: it ends with its time. A child that it forks is not to return from
 * it: where it does, the call is SK_ERR_FORKED there. */
typedef int32_t (*sk_interrupted_fn)(void* user);

/** `interrupted` is asked about every 50 ms by a thread that waits for its turn in a call of a
 * local operation (sk_comm_self()), and by one whose sk_tile_check() waits for its child: anything
 * but 0 ends that call with SK_ERR_ABORTED, and it has done nothing. NULL: nobody is asked. `user`
 * is passed on.
 *  @threads Any, before the context's first communicator, sk_comm_self() among them, and while no
 *           sk_tile_check() runs: else SK_ERR_BUSY, and nothing has changed. Behind SK_OK nobody
 *           asks the function of before.
 *  @return SK_OK, SK_ERR_BAD_HANDLE, SK_ERR_BUSY, SK_ERR_FORKED. */
SK_NODISCARD SK_API sk_status sk_context_set_interrupted(sk_context* context,
                                                         sk_interrupted_fn interrupted,
                                                         void* user) SK_NOEXCEPT;

/** What operations there are, as JSON: an array with an object for each, or with `name` the one
 *  object. Fields: name, id, scope ("all", "pair", "local"), summary, source, dimensions, operands
 *  (name, role, types, shape, optional, list, only_in_place, not_negative, packed, rows, turned_by,
 *  only_on, alias, doc), attributes (name, kind, least, most, runtime, suggested, doc), conditions,
 *  meaning. `*out_size` gets the length without the NUL, so a first call may pass capacity 0.
 *  @return SK_OK, SK_ERR_OUT_OF_RANGE when `capacity` was too small (the text is cut),
 *          SK_ERR_INVALID_ARGUMENT for a name that no operation has; the sentence has the nearest.
 *  @threads Any. */
SK_NODISCARD SK_API sk_status sk_op_describe(const char* name, char* buffer, size_t capacity,
                                             size_t* out_size) SK_NOEXCEPT;

/** A call kept ready, for loops that repeat it: its arguments have been read and its plan is made,
 *  judged and stays. */
typedef struct sk_op sk_op;

/** Reads `args` as sk_call() does and makes the plan, without a peer and without running it. The
 *  caller owns `*out_op`, which may outlive `comm` and can only be freed then. `args` and its
 *  tensors need not live on; the memory that they name must, whenever it is run.
 *  @return As sk_call(). */
SK_NODISCARD SK_API sk_status sk_op_create(sk_comm* comm, int32_t op, const void* args,
                                           sk_op** out_op) SK_NOEXCEPT;

/** Runs it, with the effect of sk_call(): collective, where the operation is. `args`: other memory
 *  than the last time, of the same types, shapes, strides, overlaps and numbers (but such of which
 *  sk/ops.h says that another one is no other plan; of lists as many elements in all); NULL: the
 *  same as the last time. A run without options and with NULL arguments is the fastest.
 *  @threads As sk_call() on the communicator: of a local operation, and of sk_comm_self(), any, and
 *           runs wait for each other, those of one handle, too; else one at a time (SK_ERR_BUSY).
 *  @return As sk_call(); SK_ERR_INVALID_ARGUMENT where `args` are another operation's, the last
 *          ones stay then; SK_ERR_BAD_HANDLE where the communicator, or packed weights that it was
 *          made with, were freed. */
SK_NODISCARD SK_API sk_status sk_op_run(sk_op* op, const void* args,
                                        const sk_run_options* options) SK_NOEXCEPT;

SK_API sk_status sk_op_free(sk_op* op) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_CALL_H_ */
