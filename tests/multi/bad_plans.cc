#include <gtest/gtest.h>

#include "tests/multi/bad_calls.h"

namespace sk::testing_ops {
namespace {

// Of a description that holds only its kind and what `change` adds.
sk_status plan_of(sk_comm* comm, int32_t kind, const std::function<void(sk_plan_desc&)>& change) {
  sk_plan_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = kind;
  change(desc);
  sk_plan* plan = nullptr;
  return sk_plan_create(comm, &desc, &plan);
}

sk_status run_with_weights(sk_comm* comm, float* in, float* out) {
  sk_tensor b{};
  b.struct_size = sizeof(b);
  b.dtype = SK_F32;
  b.data = in;
  b.ndim = 2;
  b.shape[0] = b.shape[1] = b.strides[0] = 2;
  b.strides[1] = 1;
  sk_packed* weights = nullptr;
  EXPECT_EQ(sk_pack(comm, &b, 0, &weights), SK_OK) << sk_last_error();
  sk_plan_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = SK_OP_ALLREDUCE;
  desc.dtype = SK_F32;
  desc.op = SK_SUM;
  desc.count = 4;
  sk_plan* plan = nullptr;
  EXPECT_EQ(sk_plan_create(comm, &desc, &plan), SK_OK) << sk_last_error();
  const sk_status status = sk_plan_run(plan, in, weights, out, nullptr);
  EXPECT_EQ(sk_packed_free(weights), SK_OK);
  EXPECT_EQ(sk_plan_free(plan), SK_OK);
  return status;
}

}  // namespace

const std::vector<BadCall>& bad_plans() {
  static const std::vector<BadCall> calls = {
      {"plan kind", SK_ERR_INVALID_ARGUMENT, "desc.kind is 77",
       [](sk_comm* c, float*, float*) { return plan_of(c, 77, [](sk_plan_desc&) {}); }},
      {"plan of a barrier with a type", SK_ERR_INVALID_ARGUMENT,
       "desc.dtype is 1, a plan of barrier does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_BARRIER, [](sk_plan_desc& d) { d.dtype = SK_F32; });
       }},
      {"plan of a barrier with memory", SK_ERR_INVALID_ARGUMENT,
       "desc.flags is 0x1, bits of a plan of barrier are 0x0",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_BARRIER, [](sk_plan_desc& d) { d.flags = SK_PLAN_SYMMETRIC_IN; });
       }},
      {"plan whose result has another type", SK_ERR_INVALID_ARGUMENT,
       "desc.out_dtype is 2, a plan of allreduce does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_ALLREDUCE, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.out_dtype = SK_F64;
           d.op = SK_SUM;
         });
       }},
      {"plan that reduces nothing", SK_ERR_INVALID_ARGUMENT,
       "desc.op is 4, a plan of allgather does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_ALLGATHER, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.op = SK_MAX;
         });
       }},
      {"plan of a product that is no sum", SK_ERR_INVALID_ARGUMENT,
       "desc.op is 2, a plan of allreduce_gemm does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_ALLREDUCE_GEMM, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.op = SK_PROD;
         });
       }},
      {"plan of a product whose result is narrower", SK_ERR_INVALID_ARGUMENT,
       "desc.out_dtype is bf16, it must be f32, as desc.dtype",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_ALLREDUCE_GEMM, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.out_dtype = SK_BF16;
           d.m = d.n = d.k = 4;
         });
       }},
      {"weights for a plan that multiplies nothing", SK_ERR_INVALID_ARGUMENT,
       "weights is given, but a plan of allreduce has none", run_with_weights},
      {"plan without a root", SK_ERR_INVALID_ARGUMENT,
       "desc.root is 1, a plan of reduce_scatter does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_REDUCE_SCATTER, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.op = SK_SUM;
           d.root = 1;
         });
       }},
      {"plan without a peer", SK_ERR_INVALID_ARGUMENT,
       "desc.peer is 1, a plan of broadcast does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_BROADCAST, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.peer = 1;
         });
       }},
      {"plan of a broadcast in place", SK_ERR_INVALID_ARGUMENT,
       "desc.flags is 0x4, bits of a plan of broadcast are 0x3",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_BROADCAST, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.flags = SK_PLAN_IN_PLACE;
         });
       }},
      {"plan of a product with a count", SK_ERR_INVALID_ARGUMENT,
       "desc.count is 8, a plan of allreduce_gemm does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_ALLREDUCE_GEMM, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.count = 8;
         });
       }},
      {"plan of a message with extents", SK_ERR_INVALID_ARGUMENT,
       "desc.k is 3, a plan of send_recv does not use it",
       [](sk_comm* c, float*, float*) {
         return plan_of(c, SK_OP_SEND_RECV, [](sk_plan_desc& d) {
           d.dtype = SK_F32;
           d.peer = 1;
           d.k = 3;
         });
       }},
  };
  return calls;
}

}  // namespace sk::testing_ops
