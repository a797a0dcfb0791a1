// sk_op_*: calls that are kept ready. Whatever is kept, each run is the call that was asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;

constexpr int64_t kCount = 24;

sk_tensor vector_of(void* data, int64_t count, int32_t dtype = SK_I64) {
  sk_tensor t{};
  t.struct_size = sizeof t;
  t.dtype = dtype;
  t.data = data;
  t.ndim = 1;
  t.shape[0] = count;
  t.strides[0] = 1;
  return t;
}

struct Sum {
  sk_tensor in, out;
  sk_allreduce_args args{};
  Sum(int64_t* from, int64_t* to, int64_t count = kCount)
      : in(vector_of(from, count)), out(vector_of(to, count)) {
    args.struct_size = sizeof args;
    args.in = &in;
    args.out = &out;
    args.op = SK_SUM;
  }
};

sk_op* made(sk_comm* comm, int32_t operation, const void* args) {
  sk_op* op = nullptr;
  EXPECT_EQ(sk_op_create(comm, operation, args, &op), SK_OK) << sk_last_error();
  return op;
}

// Fresh numbers on each of `ranks` ranks, and what their sum is.
void draw(int rank, int turn, std::vector<int64_t>& in) {
  for (int64_t i = 0; i < int64_t(in.size()); ++i) in[i] = (rank + 1) * (i * i + 7 * turn + 1);
}
void expect_sum(int ranks, int turn, const int64_t* out, int64_t count) {
  const int64_t each = int64_t(ranks) * (ranks + 1) / 2;
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], each * (i * i + 7 * turn + 1)) << i;
}

TEST(OpHandle, RunsWhatSkCallRuns) {
  constexpr int kRanks = 3;
  in_thread_ranks(kRanks, [](sk_comm* comm, int rank) {
    std::vector<int64_t> in(kCount), out(kCount, -1), other_in(kCount), other_out(kCount, -1);
    sk_op* op = nullptr;
    {  // The arguments need not live on.
      Sum sum(in.data(), out.data());
      op = made(comm, SK_OP_ALLREDUCE, &sum.args);
      sum.in.data = sum.out.data = nullptr;
      sum.in.shape[0] = -1;
    }
    void* memory = nullptr;
    for (int turn = 0; turn < 12; ++turn) {
      draw(rank, turn, in);
      draw(rank, turn, other_in);
      std::fill(out.begin(), out.end(), -1);
      std::fill(other_out.begin(), other_out.end(), -1);
      Sum other(other_in.data(), other_out.data());
      if (turn == 4) {  // All is placed anew.
        ASSERT_EQ(sk_alloc(comm, 4096, &memory), SK_OK) << sk_last_error();
      }
      // Ranks may each run it in their own way.
      if ((turn == 3 || turn == 11) && rank != 0) {
        ASSERT_EQ(sk_call(comm, SK_OP_ALLREDUCE, &other.args, nullptr), SK_OK);
        expect_sum(kRanks, turn, other_out.data(), kCount);
        continue;
      }
      if (turn % 3 == 1) {
        ASSERT_EQ(sk_op_run(op, &other.args, nullptr), SK_OK) << sk_last_error();
        expect_sum(kRanks, turn, other_out.data(), kCount);
        EXPECT_EQ(out[0], -1);
        Sum again(in.data(), out.data());
        draw(rank, turn + 1, in);
        ASSERT_EQ(sk_op_run(op, &again.args, nullptr), SK_OK) << sk_last_error();
        expect_sum(kRanks, turn + 1, out.data(), kCount);
        continue;
      }
      if (turn % 3 == 2) {  // Its other memory, in the same number of calls.
        sk_run_options options{};
        options.struct_size = sizeof options;
        options.timeout_ms = 60'000;
        ASSERT_EQ(sk_op_run(op, nullptr, &options), SK_OK) << sk_last_error();
      } else {
        ASSERT_EQ(sk_op_run(op, nullptr, nullptr), SK_OK) << sk_last_error();
      }
      expect_sum(kRanks, turn, out.data(), kCount);
    }
    EXPECT_EQ(sk_free(comm, memory), SK_OK);
    EXPECT_EQ(sk_op_free(op), SK_OK);
  });
}

// What was ordinary memory is symmetric the next time, and the other way: another plan each.
TEST(OpHandle, MemoryMayBecomeSymmetric) {
  constexpr int kRanks = 2;
  in_thread_ranks(kRanks, [](sk_comm* comm, int rank) {
    constexpr int64_t kMany = 1 << 15;
    std::vector<int64_t> in(kMany), out(kMany, -1);
    Sum sum(in.data(), out.data(), kMany);
    sk_op* op = made(comm, SK_OP_ALLREDUCE, &sum.args);
    for (int turn = 0; turn < 6; ++turn) {
      const bool symmetric = turn % 3 == 1;
      if (symmetric) {
        ASSERT_EQ(sk_register(comm, in.data(), kMany * sizeof(int64_t)), SK_OK) << sk_last_error();
        ASSERT_EQ(sk_register(comm, out.data(), kMany * sizeof(int64_t)), SK_OK);
      }
      draw(rank, turn, in);
      std::fill(out.begin(), out.end(), -1);
      ASSERT_EQ(sk_op_run(op, nullptr, nullptr), SK_OK) << sk_last_error();
      expect_sum(kRanks, turn, out.data(), kMany);
      if (symmetric) {
        ASSERT_EQ(sk_deregister(comm, in.data()), SK_OK);
        ASSERT_EQ(sk_deregister(comm, out.data()), SK_OK);
      }
    }
    EXPECT_EQ(sk_op_free(op), SK_OK);
  });
}

TEST(OpHandle, WhatIsWrongIsSaidAndTheHandleStaysAsItWas) {
  in_thread_ranks(1, [](sk_comm* comm, int) {
    std::vector<int64_t> in(kCount, 5), out(kCount, -1);
    Sum sum(in.data(), out.data());
    const auto refused = [](sk_status status, int32_t code, const char* sentence) {
      EXPECT_EQ(status, code);
      EXPECT_THAT(sk_last_error(), HasSubstr(sentence));
    };
    sk_op* op = nullptr;
    refused(sk_op_create(comm, SK_OP_ALLREDUCE, nullptr, &op), SK_ERR_INVALID_ARGUMENT, "args");
    refused(sk_op_create(comm, 99, &sum.args, &op), SK_ERR_INVALID_ARGUMENT, "op is 99");
    refused(sk_op_create(comm, SK_OP_ALLREDUCE, &sum.args, nullptr), SK_ERR_INVALID_ARGUMENT,
            "out_op is null");
    refused(sk_op_create(nullptr, SK_OP_ALLREDUCE, &sum.args, &op), SK_ERR_BAD_HANDLE,
            "communicator is null");
    sum.in.shape[0] = 3;
    refused(sk_op_create(comm, SK_OP_ALLREDUCE, &sum.args, &op), SK_ERR_INVALID_ARGUMENT, "count");
    EXPECT_EQ(op, nullptr);
    sum.in.shape[0] = kCount;
    op = made(comm, SK_OP_ALLREDUCE, &sum.args);

    Sum shorter(in.data(), out.data(), kCount - 1);
    refused(sk_op_run(op, &shorter.args, nullptr), SK_ERR_INVALID_ARGUMENT,
            "args are of allreduce(i64, sum, 23), and this operation was made for allreduce(i64, "
            "sum, 24): count is 23, not 24; only addresses and values of a run may differ");
    Sum in_place(in.data(), in.data());
    refused(sk_op_run(op, &in_place.args, nullptr), SK_ERR_INVALID_ARGUMENT, "only addresses");
    Sum greatest(in.data(), out.data());
    greatest.args.op = SK_MAX;
    refused(sk_op_run(op, &greatest.args, nullptr), SK_ERR_INVALID_ARGUMENT, "only addresses");
    Sum nothing(nullptr, out.data());
    refused(sk_op_run(op, &nothing.args, nullptr), SK_ERR_INVALID_ARGUMENT, "in is null");
    sk_run_options options{};
    options.struct_size = sizeof options;
    options.timeout_ms = -1;
    refused(sk_op_run(op, nullptr, &options), SK_ERR_INVALID_ARGUMENT, "options.timeout_ms is -1");
    refused(sk_op_run(reinterpret_cast<sk_op*>(comm), nullptr, nullptr), SK_ERR_BAD_HANDLE,
            "of kind communicator");
    EXPECT_EQ(out[0], -1);
    EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(out, in);
    EXPECT_EQ(sk_op_free(op), SK_OK);
    refused(sk_op_free(op), SK_ERR_BAD_HANDLE, "is not an operation handle, or was freed");
  });
}

TEST(OpHandle, KeepsNoPackedWeightsAlive) {
  in_thread_ranks(1, [](sk_comm* comm, int) {
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, c[4] = {-1, -1, -1, -1};
    const auto matrix = [](float* data, int64_t rows, int64_t columns) {
      sk_tensor t = vector_of(data, rows, SK_F32);
      t.ndim = 2;
      t.shape[1] = t.strides[0] = columns;
      t.strides[1] = 1;
      return t;
    };
    const sk_tensor ta = matrix(a, 2, 3), tb = matrix(b, 3, 2);
    sk_tensor tc = matrix(c, 2, 2);
    sk_packed* packed = nullptr;
    ASSERT_EQ(sk_pack(comm, &tb, 0, &packed), SK_OK) << sk_last_error();
    sk_allreduce_gemm_args args{};
    args.struct_size = sizeof args;
    args.a = &ta;
    args.b_packed = packed;
    args.c = &tc;
    sk_op* op = made(comm, SK_OP_ALLREDUCE_GEMM, &args);
    for (int turn = 0; turn < 3; ++turn) {
      std::fill(c, c + 4, -1.0f);
      a[0] = float(turn);
      ASSERT_EQ(sk_op_run(op, turn == 1 ? &args : nullptr, nullptr), SK_OK) << sk_last_error();
      EXPECT_EQ(std::vector<float>(c, c + 4), (std::vector<float>{float(turn) + 3, 5, 10, 11}));
    }
    EXPECT_EQ(sk_packed_free(packed), SK_OK);
    EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_ERR_BAD_HANDLE);
    EXPECT_THAT(sk_last_error(), HasSubstr("packed weights"));
    EXPECT_EQ(sk_op_free(op), SK_OK);
  });
}

TEST(OpHandle, OutlivesItsCommunicatorWithoutRunning) {
  std::vector<int64_t> in(kCount), out(kCount);
  Sum sum(in.data(), out.data());
  float rows[8] = {1, 2, 3, 4, 5, 6, 7, 8}, norms[8] = {};
  sk_tensor x = vector_of(rows, 8, SK_F32), y = vector_of(norms, 8, SK_F32);
  sk_rmsnorm_args local{};
  local.struct_size = sizeof local;
  local.x = &x;
  local.y = &y;
  local.eps = 1e-6;
  x.ndim = y.ndim = 2;
  x.shape[0] = y.shape[0] = 2;
  x.shape[1] = y.shape[1] = x.strides[0] = y.strides[0] = 4;
  x.strides[1] = y.strides[1] = 1;
  sk_op *of_all = nullptr, *of_one = nullptr;
  in_thread_ranks(1, [&](sk_comm* comm, int) {
    of_all = made(comm, SK_OP_ALLREDUCE, &sum.args);
    of_one = made(comm, SK_OP_RMSNORM, &local);
    EXPECT_EQ(sk_op_run(of_all, nullptr, nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_op_run(of_one, nullptr, nullptr), SK_OK) << sk_last_error();
    EXPECT_NEAR(norms[3], 4 / std::sqrt(7.5), 1e-5);
  });
  for (sk_op* op : {of_all, of_one}) {
    EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_ERR_BAD_HANDLE);
    EXPECT_STREQ(sk_last_error(), "the operation's communicator was freed");
    EXPECT_EQ(sk_op_free(op), SK_OK) << sk_last_error();
  }
}

// More shapes than plans are kept: what a handle holds is not made again.
TEST(OpHandle, KeepsItsPlanWhereOthersGo) {
  in_thread_ranks(1, [](sk_comm* comm, int) {
    std::vector<int64_t> in(kCount, 3), out(kCount, -1);
    Sum sum(in.data(), out.data());
    sk_op* op = made(comm, SK_OP_ALLREDUCE, &sum.args);
    std::vector<int64_t> from(600, 1), to(600);
    for (int64_t count = 25; count < 600; ++count) {
      Sum other(from.data(), to.data(), count);
      ASSERT_EQ(sk_call(comm, SK_OP_ALLREDUCE, &other.args, nullptr), SK_OK) << sk_last_error();
      if (count % 50 != 0) continue;
      std::fill(out.begin(), out.end(), -1);
      ASSERT_EQ(sk_op_run(op, nullptr, nullptr), SK_OK) << sk_last_error();
      ASSERT_EQ(out, in);
    }
    EXPECT_EQ(sk_op_free(op), SK_OK);
  });
}

}  // namespace
}  // namespace sk::testing_ops
