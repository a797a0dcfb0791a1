#include "tests/multi/call_by_number.h"

#include <algorithm>

namespace sk::testing_ops {
namespace {

sk_tensor vector_of(const sk_run_options* options, void* data, int32_t dtype, int64_t count) {
  sk_tensor t = rows_of(options, data, dtype, 1, count);
  t.ndim = 1;
  t.shape[0] = count;
  t.strides[0] = 1;
  return t;
}

template <typename Args>
Args with_size(int32_t operation) {
  Args args{};
  args.struct_size = sizeof args;
  args.operation = operation;
  return args;
}

// `out_rows`: of C.
template <typename Args>
sk_status product(sk_comm* comm, const Case& c, const CaseMemory& memory, int64_t out_rows,
                  const sk_run_options* options) {
  const sk_tensor a = c.transpose_a ? rows_of(options, memory.in, c.dtype, c.k, c.m)
                                    : rows_of(options, memory.in, c.dtype, c.m, c.k);
  const sk_tensor b = c.transpose_b ? rows_of(options, memory.weights, c.dtype, c.n, c.k)
                                    : rows_of(options, memory.weights, c.dtype, c.k, c.n);
  sk_tensor out = rows_of(options, memory.out, c.out_dtype, out_rows, c.n);
  auto args = with_size<Args>(c.kind);
  args.a = &a;
  args.c = &out;
  args.transpose_a = c.transpose_a;
  if (!c.packed) {
    args.b = &b;
    args.transpose_b = c.transpose_b;
    return sk_call(comm, c.kind, &args, options);
  }
  // On a GPU it reads B on the default stream, which waits for no other.
  sk_status status = sk_comm_synchronize(comm, options);
  if (status != SK_OK) return status;
  sk_packed* packed = nullptr;
  status = sk_pack(comm, &b, c.transpose_b ? uint32_t(SK_GEMM_TRANSPOSE_B) : 0u, &packed);
  if (status != SK_OK) return status;
  args.b_packed = packed;
  status = sk_call(comm, c.kind, &args, options);
  const sk_status freed = sk_packed_free(packed);
  return status != SK_OK ? status : freed;
}

}  // namespace

sk_tensor rows_of(const sk_run_options* options, void* data, int32_t dtype, int64_t rows,
                  int64_t cols) {
  sk_tensor t{};
  if (options != nullptr) {
    t.device_type = options->device_type;
    t.device_id = options->device_id;
  }
  t.struct_size = sizeof(t);
  t.dtype = dtype;
  t.data = data;
  t.ndim = 2;
  t.shape[0] = rows;
  t.shape[1] = cols;
  t.strides[0] = std::max<int64_t>(1, cols);
  t.strides[1] = 1;
  return t;
}

sk_status call_by_number(sk_comm* comm, int rank, int ranks, const Case& c,
                         const CaseMemory& memory, const sk_run_options* options) {
  const bool gathers = c.kind == SK_OP_ALLGATHER, scatters = c.kind == SK_OP_REDUCE_SCATTER;
  const sk_tensor in = vector_of(options, memory.in, c.dtype, c.count * (scatters ? ranks : 1));
  sk_tensor out = vector_of(options, memory.out, c.dtype, c.count * (gathers ? ranks : 1));
  const auto vectors = [&](auto args) {
    args.in = &in;
    args.out = &out;
    return sk_call(comm, c.kind, &args, options);
  };
  switch (c.kind) {
    case SK_OP_ALLREDUCE: {
      auto args = with_size<sk_allreduce_args>(c.kind);
      args.op = c.op;
      return vectors(args);
    }
    case SK_OP_ALLGATHER:
      return vectors(with_size<sk_allgather_args>(c.kind));
    case SK_OP_REDUCE_SCATTER: {
      auto args = with_size<sk_reduce_scatter_args>(0);
      args.op = c.op;
      return vectors(args);
    }
    case SK_OP_BROADCAST: {
      auto args = with_size<sk_broadcast_args>(c.kind);
      args.root = c.root;
      return vectors(args);
    }
    case SK_OP_SEND_RECV: {
      if (rank != c.root && rank != c.peer) return SK_OK;
      auto args = with_size<sk_send_recv_args>(c.kind);
      args.root = c.root;
      args.peer = c.peer;
      return vectors(args);
    }
    case SK_OP_ALLREDUCE_GEMM:
      return product<sk_allreduce_gemm_args>(comm, c, memory, c.m, options);
    default:
      return product<sk_allgather_gemm_args>(comm, c, memory, c.m * ranks, options);
  }
}

}  // namespace sk::testing_ops
