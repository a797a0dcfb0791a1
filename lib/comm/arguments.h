// What callers may pass, checked: each function turns one C call into a Call, or into the sentence
// that says which argument was wrong, what it was, and what is allowed.
#ifndef SK_LIB_COMM_ARGUMENTS_H_
#define SK_LIB_COMM_ARGUMENTS_H_

#include "lib/base/structs.h"
#include "lib/comm/communicator.h"
#include "sk/op.h"

namespace sk {

struct World {
  int32_t rank = 0, size = 1;
  DeviceId device;
};

Result<Call> allreduce_call(World world, const void* in, void* out, int64_t count, int32_t dtype,
                            int32_t op, const sk_run_options* options);
Result<Call> allgather_call(World world, const void* in, void* out, int64_t count, int32_t dtype,
                            const sk_run_options* options);
Result<Call> reduce_scatter_call(World world, const void* in, void* out, int64_t count,
                                 int32_t dtype, int32_t op, const sk_run_options* options);
Result<Call> broadcast_call(World world, const void* in, void* out, int64_t count, int32_t dtype,
                            int32_t root, const sk_run_options* options);
Result<Call> barrier_call(World world, const sk_run_options* options);
Result<Call> send_call(World world, const void* in, int64_t count, int32_t dtype, int32_t peer,
                       const sk_run_options* options);
Result<Call> recv_call(World world, void* out, int64_t count, int32_t dtype, int32_t peer,
                       const sk_run_options* options);

// Null options are a run without any.
Status take_options(World world, const sk_run_options* options, Call& call);

Result<PackArgs> pack_args(World world, const sk_tensor* b, uint32_t flags);

// Of an operation that multiplies (lib/op/ops/product.h).
Result<Call> product_call(World world, const Schema& schema, const sk_tensor* a, const sk_tensor* b,
                          const Packed* packed, const sk_tensor* c, uint32_t flags,
                          const sk_run_options* options);
Result<Call> allreduce_gemm_call(World world, const sk_tensor* a, const sk_tensor* b,
                                 const Packed* packed, const sk_tensor* c, uint32_t flags,
                                 const sk_run_options* options);
Result<Call> allgather_gemm_call(World world, const sk_tensor* a, const sk_tensor* b,
                                 const Packed* packed, const sk_tensor* c, uint32_t flags,
                                 const sk_run_options* options);

Result<OpDesc> plan_op(World world, const sk_plan_desc* desc);
// Whether the rank has anything to do where all ranks run a plan of `op`.
bool takes_part(World world, const OpDesc& op);
Result<Call> plan_call(World world, const OpDesc& op, const void* in, const Packed* weights,
                       void* out, const sk_run_options* options);

Result<Communicator::Config> comm_config(const sk_comm_config* config);

}  // namespace sk

#endif  // SK_LIB_COMM_ARGUMENTS_H_
