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

/** Behind those of enum sk_op_kind. */
enum sk_op_id {
  SK_OP_ALLTOALL = 13,
  SK_OP_REDUCE = 14,
  SK_OP_GATHER = 15,
  SK_OP_SCATTER = 16,
  SK_OP_RMSNORM = 9,
  SK_OP_RMSNORM_BACKWARD = 10,
  SK_OP_ADD_RMSNORM = 11,
  SK_OP_ADAMW = 12
};

/** out[i] = op over ranks of in[i], on every rank. The result has the same bits on all of them.
 *  Ranks compare counts and types, not shapes: elements are joined in the order in which they
 *  lie. count: elements of one rank's part. Averages are for floating types. */
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

/** out[i] of the receiver = in[i] of the sender. Only these two call. The sender waits until
 *  the other one receives, for nothing is buffered. Two that send to each other are both
 *  refused at once (SK_ERR_DESYNC); a ring in which all send first waits until the timeout, and
 *  ends: let even ranks send first and odd ranks receive first. Counts and types must match on
 *  both sides. count: elements of one rank's part. */
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

/** out[r * count + i] = in[rank * count + i] of rank r: each rank has a part for each. count:
 *  elements of one rank's part. */
typedef struct sk_alltoall_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ALLTOALL. */
  /** [world * count], of any type */
  const sk_tensor* in;
  /** [world * count], of in's type */
  sk_tensor* out;
} sk_alltoall_args;
SK_NODISCARD static inline sk_status sk_alltoall(sk_comm* comm, const sk_alltoall_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_ALLTOALL, args, options);
}

/** out[i] of rank root = op over ranks of in[i], in the order of ranks. count: elements of one
 *  rank's part. Averages are for floating types. */
typedef struct sk_reduce_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_REDUCE. */
  /** [count], of any type */
  const sk_tensor* in;
  /** [count], of in's type, of rank root alone */
  sk_tensor* out;
  /** enum sk_redop; how elements are joined; averages are for floating types */
  int32_t op;
  /** a rank; who gets it */
  int32_t root;
} sk_reduce_args;
SK_NODISCARD static inline sk_status sk_reduce(sk_comm* comm, const sk_reduce_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_REDUCE, args, options);
}

/** out[r * count + i] of rank root = in[i] of rank r. count: elements of one rank's part. */
typedef struct sk_gather_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_GATHER. */
  /** [count], of any type */
  const sk_tensor* in;
  /** [world * count], of in's type, of rank root alone */
  sk_tensor* out;
  /** a rank; who gets all */
  int32_t root;
} sk_gather_args;
SK_NODISCARD static inline sk_status sk_gather(sk_comm* comm, const sk_gather_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_GATHER, args, options);
}

/** out[i] = in[rank * count + i] of rank root. count: elements of one rank's part. */
typedef struct sk_scatter_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_SCATTER. */
  /** [world * count], of any type, of rank root alone */
  const sk_tensor* in;
  /** [count], of in's type */
  sk_tensor* out;
  /** a rank; whose elements they are */
  int32_t root;
} sk_scatter_args;
SK_NODISCARD static inline sk_status sk_scatter(sk_comm* comm, const sk_scatter_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_SCATTER, args, options);
}

/** c = the sum over ranks of a * b, on every rank: a product, then an all-reduce, overlapped.
 *  m: rows of a; n: columns of b and c; k: columns of a, rows of b. */
typedef struct sk_allreduce_gemm_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ALLREDUCE_GEMM. */
  /** [m, k], f32, f64, bf16 or f16, transposed with transpose_a, laid out, turned and packed
   *  alike on every rank */
  const sk_tensor* a;
  /** [m, n], of a's type or f32 */
  sk_tensor* c;
  /** [k, n], of a's type, transposed with transpose_b, laid out, turned and packed alike on
   *  every rank */
  const sk_tensor* b;
  /** b as sk_pack() left it; b is NULL then */
  const sk_packed* b_packed;
  /** 0 or 1; a holds [k, m] */
  int32_t transpose_a;
  /** 0 or 1; b holds [n, k] */
  int32_t transpose_b;
} sk_allreduce_gemm_args;

/** c = the ranks' a, one below the other, times the own b: tiles begin as shards arrive, the
 *  own first. m: rows of a; n: columns of b and c; k: columns of a, rows of b. */
typedef struct sk_allgather_gemm_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ALLGATHER_GEMM. */
  /** [m, k], f32, f64, bf16 or f16, transposed with transpose_a, laid out, turned and packed
   *  alike on every rank */
  const sk_tensor* a;
  /** [world * m, n], of a's type or f32 */
  sk_tensor* c;
  /** [k, n], of a's type, transposed with transpose_b, laid out, turned and packed alike on
   *  every rank */
  const sk_tensor* b;
  /** b as sk_pack() left it; b is NULL then */
  const sk_packed* b_packed;
  /** 0 or 1; a holds [k, m] */
  int32_t transpose_a;
  /** 0 or 1; b holds [n, k] */
  int32_t transpose_b;
} sk_allgather_gemm_args;

/** y[i, j] = x[i, j] * rstd[i] * weight[j], where rstd[i] = 1 / sqrt(mean over j of x[i, j]^2 +
 *  eps). Computed in f32, of f64 in f64, and rounded once; without a weight it is 1. m: rows;
 *  n: columns. Rows have one element at least. Local: no other rank takes part. Source: B.
 *  Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019. */
typedef struct sk_rmsnorm_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_RMSNORM. */
  /** [m, n], f32, f64, bf16 or f16 */
  const sk_tensor* x;
  /** [m, n], of x's type, may be x */
  sk_tensor* y;
  /** [n], of x's type or f32, may be NULL */
  const sk_tensor* weight;
  /** [m], of the type of sums of x, may be NULL, what each row was multiplied by, for the
   *  gradient */
  sk_tensor* rstd;
  /** 0 to inf; added to the mean of squares, in the type of sums; usually 1e-5 */
  double eps;
} sk_rmsnorm_args;
SK_NODISCARD static inline sk_status sk_rmsnorm(sk_comm* comm, const sk_rmsnorm_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_RMSNORM, args, options);
}

/** The gradients of rmsnorm: dx[i, j] = rstd[i] * (dy[i, j] * weight[j] - x[i, j] * rstd[i]^2 *
 *  mean over k of dy[i, k] * weight[k] * x[i, k]), dweight[j] = sum over i of dy[i, j] * x[i,
 *  j] * rstd[i]. Sums have one order, whatever the number of workers. m: rows; n: columns. Rows
 *  have one element at least. Local: no other rank takes part. Source: B. Zhang, R. Sennrich:
 *  Root Mean Square Layer Normalization, 2019. */
typedef struct sk_rmsnorm_backward_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_RMSNORM_BACKWARD. */
  /** [m, n], f32, f64, bf16 or f16 */
  const sk_tensor* x;
  /** [m, n], of x's type */
  const sk_tensor* dy;
  /** [m], of the type of sums of x, as rmsnorm left it */
  const sk_tensor* rstd;
  /** [m, n], of x's type */
  sk_tensor* dx;
  /** [n], of x's type or f32, may be NULL */
  const sk_tensor* weight;
  /** [n], of x's type or f32, may be NULL */
  sk_tensor* dweight;
} sk_rmsnorm_backward_args;
SK_NODISCARD static inline sk_status sk_rmsnorm_backward(sk_comm* comm, const sk_rmsnorm_backward_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_RMSNORM_BACKWARD, args, options);
}

/** total[i, j] = x[i, j] + residual[i, j], and y[i, j] = total[i, j] * rstd[i] * weight[j],
 *  where rstd[i] = 1 / sqrt(mean over j of total[i, j]^2 + eps): in one pass. The total is
 *  rounded to its type before it is normalised, as if it had been read again; the gradient of y
 *  is rmsnorm's, by the total. m: rows; n: columns. Rows have one element at least. Local: no
 *  other rank takes part. Source: B. Zhang, R. Sennrich: Root Mean Square Layer Normalization,
 *  2019. */
typedef struct sk_add_rmsnorm_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ADD_RMSNORM. */
  /** [m, n], f32, f64, bf16 or f16 */
  const sk_tensor* x;
  /** [m, n], of x's type */
  const sk_tensor* residual;
  /** [m, n], of x's type, may be x */
  sk_tensor* y;
  /** [m, n], of residual's type, may be residual */
  sk_tensor* total;
  /** [n], of x's type or f32, may be NULL */
  const sk_tensor* weight;
  /** [m], of the type of sums of x, may be NULL, what each row was multiplied by, for the
   *  gradient */
  sk_tensor* rstd;
  /** 0 to inf; added to the mean of squares, in the type of sums; usually 1e-5 */
  double eps;
} sk_add_rmsnorm_args;
SK_NODISCARD static inline sk_status sk_add_rmsnorm(sk_comm* comm, const sk_add_rmsnorm_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_ADD_RMSNORM, args, options);
}

/** A step of AdamW for all tensors of the lists, in their place. m = m * beta1 + g * (1 -
 *  beta1), v = v * beta2 + g^2 * (1 - beta2), p = p * (1 - lr * weight_decay) - m * (lr / (1 -
 *  beta1^step)) / (sqrt(v) / sqrt(1 - beta2^step) + eps). Numbers are computed in doubles and
 *  rounded to f32, of f64 not at all; elements in that, each operation rounded, so that all
 *  processors give the same bits (but a NaN's sign and payload). n: elements of all tensors of
 *  a list. Local: no other rank takes part. Source: I. Loshchilov, F. Hutter: Decoupled Weight
 *  Decay Regularization, 2019. */
typedef struct sk_adamw_args {
  uint32_t struct_size;
  int32_t operation; /**< 0 or SK_OP_ADAMW. */
  /** Tensors of each list. */
  int64_t length;
  /** tensors of any shapes, [n] elements in all, f32, f64, bf16 or f16, overwritten */
  sk_tensor* const* params;
  /** tensors of any shapes, [n] elements in all, of params's type or f32 */
  const sk_tensor* const* grads;
  /** tensors of any shapes, [n] elements in all, of the type of sums of params, the gradients'
   *  moving averages, 0 before the first step, overwritten */
  sk_tensor* const* ms;
  /** tensors of any shapes, [n] elements in all, of the type of sums of params, 0 or more,
   *  those of their squares, 0 before the first step, overwritten */
  sk_tensor* const* vs;
  /** 0 to inf; the learning rate of this step; another one is no other plan */
  double lr;
  /** 1 or more; the number of this step, from 1; another one is no other plan */
  int64_t step;
  /** 0 to 0.9999999999999999; what ms keeps of itself; usually 0.9 */
  double beta1;
  /** 0 to 0.9999999999999999; what vs keeps of itself; usually 0.999 */
  double beta2;
  /** 0 to inf; added to the root of vs; usually 1e-8 */
  double eps;
  /** 0 to inf; how much of params goes, times lr; usually 0.01 */
  double weight_decay;
} sk_adamw_args;
SK_NODISCARD static inline sk_status sk_adamw(sk_comm* comm, const sk_adamw_args* args,
    const sk_run_options* options) {
  return sk_call(comm, SK_OP_ADAMW, args, options);
}

#ifdef __cplusplus
}
#endif
#endif /* SK_OPS_H_ */
