/* What julia_calls.jl compares with: a loop of sk_call() in C, and what one call took. */
#include <sk.h>
#include <time.h>

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static sk_tensor tensor(void* data, int64_t rows, int64_t columns) {
  sk_tensor made = {.struct_size = sizeof(sk_tensor), .dtype = SK_F32, .data = data, .ndim = 2};
  made.shape[0] = rows, made.shape[1] = columns;
  made.strides[0] = columns, made.strides[1] = 1;
  return made;
}

/** Nanoseconds of an all-reduce of `count` elements, tensors and arguments made anew each time, as
 *  a program does that gets its arrays from elsewhere. Negative where one failed. */
SK_API double c_allreduce(sk_comm* comm, float* in, float* out, int64_t count, int64_t calls) {
  const double start = now_ns();
  for (int64_t i = 0; i < calls; ++i) {
    sk_tensor x = tensor(in, 1, count), y = tensor(out, 1, count);
    const sk_allreduce_args args = {sizeof args, 0, &x, &y, SK_SUM};
    if (sk_call(comm, SK_OP_ALLREDUCE, &args, NULL) != SK_OK) return -1;
  }
  return (now_ns() - start) / (double)calls;
}

/** The same of rmsnorm with a weight; `comm` is that of sk_comm_self(). */
SK_API double c_rmsnorm(sk_comm* comm, float* in, float* out, float* weight, int64_t rows,
                        int64_t columns, int64_t calls) {
  const double start = now_ns();
  for (int64_t i = 0; i < calls; ++i) {
    sk_tensor x = tensor(in, rows, columns), y = tensor(out, rows, columns);
    sk_tensor w = tensor(weight, 1, columns);
    w.ndim = 1, w.shape[0] = columns, w.strides[0] = 1;
    const sk_rmsnorm_args args = {sizeof args, 0, &x, &y, &w, NULL, 1e-5};
    if (sk_call(comm, SK_OP_RMSNORM, &args, NULL) != SK_OK) return -1;
  }
  return (now_ns() - start) / (double)calls;
}

/** The same of c = a * b, in C's order. */
SK_API double c_product(sk_comm* comm, float* a, float* b, float* c, int64_t m, int64_t n,
                        int64_t k, int64_t calls) {
  const double start = now_ns();
  for (int64_t i = 0; i < calls; ++i) {
    sk_tensor left = tensor(a, m, k), right = tensor(b, k, n), result = tensor(c, m, n);
    const sk_allreduce_gemm_args args = {sizeof args, 0, &left, &result, &right, NULL, 0, 0};
    if (sk_call(comm, SK_OP_ALLREDUCE_GEMM, &args, NULL) != SK_OK) return -1;
  }
  return (now_ns() - start) / (double)calls;
}
