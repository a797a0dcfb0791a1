/* A tile of the user's own: a function and what it does, which become an operation.
 *
 * sk_tile_register() takes a function that computes one tile, and a description: which memory it
 * reads and writes, in what shapes and types, and what it does to it. What comes of it is a local
 * operation like the library's own: sk_call() calls it by its number, its plans are judged by the
 * same validator and run by the same workers, and traces show its name. docs/your-own-tile.md has
 * the notation and examples. Since 0.1. */
#ifndef SK_TILE_H_
#define SK_TILE_H_

#include "sk/base.h"
#include "sk/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A region as one call of the function sees it: `rows` rows of `cols` elements, `stride` elements
 *  from row to row; element (i, j) of it is element (row + i, col + j) of the whole. Of a vector
 *  there is one row. */
typedef struct sk_tile_view {
  int64_t rows, cols;
  int64_t stride;
  int64_t row, col;
  int64_t dtype; /**< enum sk_dtype. */
} sk_tile_view;

/** A parameter's value: `i` of SK_TILE_INT, `f` of SK_TILE_FLOAT. */
typedef union sk_tile_value {
  int64_t i;
  double f;
} sk_tile_value;

/** Computes one tile. `data` and `views` have an entry for each region, `values` one for each
 *  parameter, in the order of the description; all are valid for the call only. What is written
 *  holds anything before; what is read may not be written. `user` is the description's.
 *  It is not called where its results have no elements.
 *  It is called on several threads at one time, unless SK_TILE_SERIAL was said; it may not call
 *  libsk (what would wait for the call that it is inside of is SK_ERR_BUSY), and lasts as long as
 *  it takes: nothing bounds it.
 *  @return 1: done. All else, 0 above all, fails the call with SK_ERR_TILE. */
typedef int32_t (*sk_tile_fn)(void* const* data, const sk_tile_view* views,
                              const sk_tile_value* values, void* user);

enum sk_tile_role {
  SK_TILE_READ = 1,
  SK_TILE_WRITE = 2 /**< Every element is written, by one tile. */
};

/** One array that the operation takes: an argument of sk_call(). */
typedef struct sk_tile_region {
  uint32_t struct_size;
  int32_t role;      /**< enum sk_tile_role. */
  const char* name;  /**< a to z, 0 to 9 and _, and no word that languages keep for themselves. */
  const char* types; /**< "f32", "f32|f64", "float", "any"; or the name of a region before it, whose
                          type it has, or "accumulator(x)": of sums of its elements. */
  const char* shape; /**< "m, n" for rows, "m" for a vector. Names are the operation's dimensions;
                          "cdiv(m, 16)" and the like are computed from them. */
  const char*
      in_place;    /**< Of a written one: the region read whose memory it may be; NULL: none. */
  const char* doc; /**< NULL: none. */
} sk_tile_region;

enum sk_tile_kind { SK_TILE_INT = 1, SK_TILE_FLOAT = 2 };

/** A number that the operation takes and the function gets. */
typedef struct sk_tile_parameter {
  uint32_t struct_size;
  int32_t kind; /**< enum sk_tile_kind. */
  const char* name;
  const char*
      least;        /**< Bounds: a number, of SK_TILE_INT also an expression of dimensions. NULL: */
  const char* most; /**< there is none. */
  const char* doc;  /**< NULL: none. */
} sk_tile_parameter;

/** What is cut into tiles. */
enum sk_tile_over {
  SK_TILE_OVER_ROWS = 1,   /**< The first axis of what is written. */
  SK_TILE_OVER_BLOCKS = 2, /**< Both axes of what is written. */
  SK_TILE_OVER_ALL = 3     /**< Nothing: one call has all of it. */
};

enum sk_tile_flags {
  SK_TILE_SERIAL = 1, /**< One call of the function at a time: calls of the operation that come on
                           several communicators wait for each other, as for a lane's turn. */
  SK_TILE_REPLACE = 2 /**< Of a name that is registered already: takes its place. */
};

/** A tile. All texts are copied. Fields are only ever appended. */
typedef struct sk_tile_desc {
  uint32_t struct_size;
  uint32_t version;    /**< 1 to 65,535: grows with what it computes. */
  const char* name;    /**< The operation's. */
  const char* summary; /**< What it computes, for who reads about it; NULL: nothing is said. */
  const char* effect;  /**< What it does: "y[i, j] = scale(x[i, j])", one step for each region that
                            is written. NULL or "opaque": all of it depends on all that is read. */
  int32_t over;        /**< enum sk_tile_over; of an opaque one SK_TILE_OVER_ALL. */
  uint32_t flags;      /**< enum sk_tile_flags. */
  const sk_tile_region* const* regions; /**< 2 to 6, at least one of each role. */
  const sk_tile_parameter* const* parameters;
  uint32_t region_count, parameter_count;
  int64_t tile_rows; /**< A call of the function has so many rows at least, where there are as many;
                          0: the library chooses. Not of SK_TILE_OVER_ALL. */
  sk_tile_fn function;
  void* user; /**< Passed to `function`. */
} sk_tile_desc;

/** Makes an operation of the tile, with the number `*out_op` (from 1000 on) for sk_call() on every
 *  communicator of the context and on sk_comm_self(). Not collective. Its struct of arguments is
 *  {uint32_t struct_size; int32_t operation; const sk_tensor* for each region; int64_t or double
 *  for each parameter}. `function` and `user` must live until sk_tile_unregister() or
 *  sk_finalize() has returned. A name that is registered already is SK_ERR_INVALID_ARGUMENT, unless
 *  all is equal, `function` and `user` too: `*out_op` is the number that it has then. With
 *  SK_TILE_REPLACE the one of before is unregistered in the same step; where the new one is
 * refused, or a thread is inside a call of the old one (SK_ERR_BUSY), that stays as it is.
 *  All contexts of a process share room for 8,192 tiles (SK_ERR_NO_MEMORY): one that was taken away
 *  keeps its place until its context is finalized.
 *  @return SK_OK; SK_ERR_INVALID_ARGUMENT with a sentence that names the region or step and says
 *          what is allowed, SK_ERR_BAD_HANDLE, SK_ERR_NO_MEMORY, SK_ERR_FORKED; SK_ERR_UNSUPPORTED
 *          from sk_call() on a GPU's communicator.
 *  @threads Any. */
SK_NODISCARD SK_API sk_status sk_tile_register(sk_context* context, const sk_tile_desc* desc,
                                               int32_t* out_op) SK_NOEXCEPT;

/** Takes an operation of the user's away; its number is never another's, its name may be. The
 *  function is not called again, and may go.
 *  @return SK_OK; SK_ERR_INVALID_ARGUMENT for a number that is none of this context; SK_ERR_BUSY,
 *          and nothing has changed, while a thread is inside a call of it, or describes tiles.
 *  @threads Any. */
SK_NODISCARD SK_API sk_status sk_tile_unregister(sk_context* context, int32_t op) SK_NOEXCEPT;

/** What sk_op_describe() says of the library's operations, of those that users registered in this
 *  context: with `name` the one object, with NULL an array. Beside its fields: version, over,
 *  serial. Two-call pattern as sk_op_describe().
 *  @threads Any. */
SK_NODISCARD SK_API sk_status sk_tile_describe(sk_context* context, const char* name, char* buffer,
                                               size_t capacity, size_t* out_size) SK_NOEXCEPT;

/** Tries whether a tile keeps to what its description says, on the arrays of a call: in a child
 *  process, which has copies of them, each tile's between pages that nobody may touch. Whether it
 *  reads or writes outside of its regions, writes what is read, leaves elements unwritten, is the
 *  same twice, and the same however it is cut. `args` is as for sk_call(), and nothing of it is
 *  written; `options` may have a timeout for the child (NULL: a minute), and of a
 *  serial tile for the end of other threads' calls before it. What it finds is no proof
 *  that there is nothing else: what depends on values is seen for these alone. The child is forked:
 *  the function may not need what other threads of this process do.
 *  @return SK_OK: nothing was found; SK_ERR_TILE with a sentence that names the tile, the task and
 *          the region; SK_ERR_TIMEOUT; as sk_call() for arguments; SK_ERR_SYSTEM, SK_ERR_NO_MEMORY.
 *  @threads Any. */
SK_NODISCARD SK_API sk_status sk_tile_check(sk_context* context, int32_t op, const void* args,
                                            const sk_run_options* options) SK_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* SK_TILE_H_ */
