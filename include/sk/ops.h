/* The arguments of every operation, and a typed wrapper of sk_call() for each that has no function
 * of its own in sk/op.h. Written by tools/make_ops_header.py from the library's schemas.
 *
 * Set struct_size to sizeof the struct; `operation` may be 0. A tensor of a result is written to;
 * numbers have no defaults. */
/* clang-format off */
#ifndef SK_OPS_H_
#define SK_OPS_H_

#include "sk/call.h"

#ifdef __cplusplus
extern "C" {
#endif

/** out[i] = op over ranks of in[i], on every rank. count: elements of one rank's part. Averages
 *  are for floating types. */
typedef struct sk_allreduce_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ALLREDUCE. */
  /** [count], of any type */
  const sk_tensor* in;
  /** [count], of in's type, may be in */
  sk_tensor* out;
  /** enum sk_redop; how elements are joined; averages are for floating types */
  int32_t op;
} sk_allreduce_args;

/** out[r * count + i] = in[i] of rank r, on every rank. count: elements of one rank's part. */
typedef struct sk_allgather_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ALLGATHER. */
  /** [count], of any type, may be out + rank * count elements */
  const sk_tensor* in;
  /** [world * count], of in's type */
  sk_tensor* out;
} sk_allgather_args;

/** out[i] = op over ranks of in[rank * count + i]. count: elements of one rank's part. Averages
 *  are for floating types. */
typedef struct sk_reduce_scatter_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_REDUCE_SCATTER. */
  /** [world * count], of any type */
  const sk_tensor* in;
  /** [count], of in's type, may be in + rank * count elements */
  sk_tensor* out;
  /** enum sk_redop; how elements are joined; averages are for floating types */
  int32_t op;
} sk_reduce_scatter_args;

/** out[i] = in[i] of rank root, on every rank. count: elements of one rank's part. */
typedef struct sk_broadcast_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_BROADCAST. */
  /** [count], of any type, of rank root alone */
  const sk_tensor* in;
  /** [count], of in's type */
  sk_tensor* out;
  /** a rank; whose elements all get */
  int32_t root;
} sk_broadcast_args;

/** out[i] of the receiver = in[i] of the sender. count: elements of one rank's part. */
typedef struct sk_send_recv_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_SEND_RECV. */
  /** [count], of any type, of rank root alone */
  const sk_tensor* in;
  /** [count], of in's type, of rank peer alone */
  sk_tensor* out;
  /** a rank */
  int32_t root;
  /** a rank */
  int32_t peer;
} sk_send_recv_args;

/** c = the sum over ranks of a * b, on every rank: a product, then an all-reduce, overlapped.
 *  m: rows of a and c; n: columns of b and c; k: columns of a, rows of b. */
typedef struct sk_allreduce_gemm_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ALLREDUCE_GEMM. */
  /** [m, k], f32, f64, bf16 or f16, transposed with transpose_a */
  const sk_tensor* a;
  /** [m, n], of a's type or f32 */
  sk_tensor* c;
  /** [k, n], of a's type, transposed with transpose_b */
  const sk_tensor* b;
  /** b as sk_pack() left it; b is NULL then */
  const sk_packed* b_packed;
  /** 0 or 1; a holds [k, m] */
  int32_t transpose_a;
  /** 0 or 1; b holds [n, k] */
  int32_t transpose_b;
} sk_allreduce_gemm_args;

#ifdef __cplusplus
}
#endif
#endif /* SK_OPS_H_ */
