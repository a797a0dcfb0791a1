// Calls that are kept ready, on a GPU whose driver is a fake: each run is the call, in its stream.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/multi/gpu_world.h"

namespace sk::testing_ops {
namespace {

constexpr int64_t kCount = 40;

sk_tensor vector_of(void* data) {
  sk_tensor t{};
  t.struct_size = sizeof t;
  t.dtype = SK_I32;
  t.data = data;
  t.ndim = 1;
  t.device_type = SK_DEVICE_CUDA;
  t.shape[0] = kCount;
  t.strides[0] = 1;
  return t;
}

TEST(GpuOpHandle, RunsAsTheCallDoes) {
  Machine machine;
  constexpr int kRanks = 3;
  in_ranks(kRanks, [&](sk_comm* comm, int rank) {
    auto* memory = static_cast<int32_t*>(machine.take(4 * kCount * sizeof(int32_t)));
    const auto args_of = [&](sk_tensor& in, sk_tensor& out) {
      sk_allreduce_args args{};
      args.struct_size = sizeof args;
      args.in = &in;
      args.out = &out;
      args.op = SK_SUM;
      return args;
    };
    sk_tensor in = vector_of(memory), out = vector_of(memory + kCount);
    sk_tensor other = vector_of(memory + 2 * kCount);
    const sk_allreduce_args first = args_of(in, out), second = args_of(in, other);
    sk_op* op = nullptr;
    ASSERT_EQ(sk_op_create(comm, SK_OP_ALLREDUCE, &first, &op), SK_OK) << sk_last_error();
    for (int turn = 0; turn < 6; ++turn) {
      for (int64_t i = 0; i < kCount; ++i) {
        memory[i] = int32_t((rank + 1) * (i + turn));
        memory[kCount + i] = memory[2 * kCount + i] = -1;
      }
      const bool elsewhere = turn >= 3;
      ASSERT_EQ(sk_op_run(op, turn == 3 ? &second : nullptr, nullptr), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_comm_synchronize(comm, nullptr), SK_OK) << sk_last_error();
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(memory[(elsewhere ? 2 : 1) * kCount + i], 6 * (i + turn)) << turn;
        ASSERT_EQ(memory[(elsewhere ? 1 : 2) * kCount + i], -1);
      }
    }
    EXPECT_EQ(sk_op_free(op), SK_OK);
    sk_plan* plan = nullptr;
    expect_refused(sk_plan_parse(comm, "sk-plan 3\n", 10, &plan), SK_ERR_INVALID_ARGUMENT,
                   "line 2");
    sk_plan_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = SK_OP_BARRIER;
    ASSERT_EQ(sk_plan_create(comm, &desc, &plan), SK_OK) << sk_last_error();
    std::string text(1 << 16, '\0');
    size_t size = 0;
    ASSERT_EQ(sk_plan_dump(plan, text.data(), text.size(), &size), SK_OK);
    sk_plan* parsed = nullptr;
    expect_refused(sk_plan_parse(comm, text.data(), size, &parsed), SK_ERR_UNSUPPORTED,
                   "a plan from text runs on the CPU so far");
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
  });
}

}  // namespace
}  // namespace sk::testing_ops
