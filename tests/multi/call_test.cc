// sk_call(): what is refused, each with its sentence; what is remembered; sk_comm_self().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;
using testing::Not;

sk_tensor vector_of(float* data, int64_t count) {
  sk_tensor t{};
  t.struct_size = sizeof t;
  t.dtype = SK_F32;
  t.data = data;
  t.ndim = 1;
  t.shape[0] = count;
  t.strides[0] = 1;
  return t;
}

struct Case {
  float in[16] = {}, out[16] = {};
  sk_tensor x = vector_of(in, 8), y = vector_of(out, 8);
  sk_allreduce_args args = {};
  sk_run_options options = {};
  int32_t operation = SK_OP_ALLREDUCE;

  Case() {
    args.struct_size = sizeof args;
    args.in = &x;
    args.out = &y;
    args.op = SK_SUM;
    options.struct_size = sizeof options;
  }
  sk_status call(sk_comm* comm) { return sk_call(comm, operation, &args, &options); }
};

struct Bad {
  const char* sentence;
  void (*change)(Case&);
  sk_status status = SK_ERR_INVALID_ARGUMENT;
};

TEST(Call, WhatIsWrongIsSaidAndChangesNothing) {
  const Bad all[] = {
      {"op is 0, which is no operation: there are 1 barrier, 2 allreduce",
       [](Case& c) { c.operation = 0; }},
      {"op is 100", [](Case& c) { c.operation = 100; }},
      {"op is -1", [](Case& c) { c.operation = -1; }},
      {"args.struct_size is 7", [](Case& c) { c.args.struct_size = 7; }},
      {"args.struct_size is 5000", [](Case& c) { c.args.struct_size = 5000; }},
      {"args.operation is 4, and op is 2 (allreduce)", [](Case& c) { c.args.operation = 4; }},
      {"in is null", [](Case& c) { c.args.in = nullptr; }},
      {"out is null", [](Case& c) { c.args.out = nullptr; }},
      {"out is null", [](Case& c) { c.y.data = nullptr; }},
      {"struct_size is 3", [](Case& c) { c.x.struct_size = 3; }},
      {"in is 99", [](Case& c) { c.x.dtype = 99; }},
      {"out is f64, it must be f32, as in is", [](Case& c) { c.y.dtype = SK_F64; }},
      {"in has 0 dimensions", [](Case& c) { c.x.ndim = 0; }},
      {"in has 9 dimensions", [](Case& c) { c.x.ndim = 9; }},
      {"in has shape [-1]", [](Case& c) { c.x.shape[0] = -1; }},
      {"more than 2^46 elements",
       [](Case& c) { c.x.ndim = 3, c.x.shape[0] = c.x.shape[1] = c.x.shape[2] = 1LL << 40; }},
      {"strides that leave gaps", [](Case& c) { c.x.strides[0] = 2; }},
      {"out has 7 elements, it must have 8 (count)", [](Case& c) { c.y.shape[0] = 7; }},
      {"overlap", [](Case& c) { c.y.data = c.in + 4; }},
      {"not aligned", [](Case& c) { c.x.data = reinterpret_cast<char*>(c.in) + 1; }},
      {"op is 9, it must be one of enum sk_redop", [](Case& c) { c.args.op = 9; }},
      {"averages are for floating types",
       [](Case& c) { c.args.op = SK_AVG, c.x.dtype = c.y.dtype = SK_I32; }},
      {"in.reserved is 1", [](Case& c) { c.x.reserved = 1; }},
      {"in is on device 2:0", [](Case& c) { c.x.device_type = 2; }, SK_ERR_UNSUPPORTED},
      {"options.timeout_ms is -1", [](Case& c) { c.options.timeout_ms = -1; }},
  };
  in_thread_ranks(2, [&](sk_comm* comm, int rank) {
    for (const Bad& bad : all) {
      Case c;
      bad.change(c);
      EXPECT_EQ(c.call(comm), bad.status) << bad.sentence;
      EXPECT_THAT(sk_last_error(), HasSubstr(bad.sentence));
    }
    Case good;
    for (float& each : good.in) each = float(rank + 1);
    ASSERT_EQ(good.call(comm), SK_OK) << sk_last_error();
    EXPECT_EQ(good.out[7], 3.0f);
    EXPECT_EQ(good.out[8], 0.0f);
  });
}

// The library's structs grow; a caller's that is longer than this one's is fine while it is zero.
TEST(Call, StructsOfOtherVersionsAreRead) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    Case c;
    struct {
      sk_allreduce_args known;
      uint64_t later;
    } args = {c.args, 0};
    args.known.struct_size = sizeof args;
    c.in[0] = float(rank + 1);
    ASSERT_EQ(sk_call(comm, SK_OP_ALLREDUCE, &args, nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(c.out[0], 3.0f);
    args.later = 1;
    EXPECT_EQ(sk_call(comm, SK_OP_ALLREDUCE, &args, nullptr), SK_ERR_UNSUPPORTED);
    EXPECT_THAT(sk_last_error(), HasSubstr("a field at byte 32 is set"));
  });
}

// Arguments that came before lead straight to their program, and others never do.
TEST(Call, RememberedCallsAreTheSameCalls) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    Case c;
    const auto expect = [&](float want, size_t last, const char* what) {
      std::fill(c.out, c.out + 16, -1.0f);
      for (int turn = 0; turn < 3; ++turn) {
        for (float& each : c.in) each = float((rank + 1) * (turn + 1));
        ASSERT_EQ(sk_call(comm, SK_OP_ALLREDUCE, &c.args, nullptr), SK_OK) << sk_last_error();
        ASSERT_EQ(c.out[last - 1], want * float(turn + 1)) << what;
        ASSERT_EQ(c.out[last], -1.0f) << what;
      }
    };
    expect(3, 8, "first");
    c.args.op = SK_MAX;
    expect(2, 8, "another reduction");
    c.x.shape[0] = c.y.shape[0] = 5;
    expect(2, 5, "another count");
    c.args.op = SK_SUM;
    c.x.shape[0] = c.y.shape[0] = 8;
    expect(3, 8, "the first again");
    c.y.data = c.out + 4;
    expect(3, 12, "elsewhere");
    c.x.ndim = c.y.ndim = 2;  // The same elements.
    c.x.shape[1] = c.y.shape[1] = 4;
    c.x.shape[0] = c.y.shape[0] = 2;
    c.x.strides[0] = c.y.strides[0] = 4;
    c.x.strides[1] = c.y.strides[1] = 1;
    expect(3, 12, "another shape");
  });
}

TEST(Call, OperationsAreDescribed) {
  size_t size = 0;
  ASSERT_EQ(sk_op_describe(nullptr, nullptr, 0, &size), SK_OK) << sk_last_error();
  std::string text(size + 1, '\0');
  ASSERT_EQ(sk_op_describe(nullptr, text.data(), text.size(), &size), SK_OK) << sk_last_error();
  EXPECT_THAT(text, HasSubstr("\"name\": \"allreduce_gemm\", \"id\": 7, \"scope\": \"all\""));
  EXPECT_THAT(text, Not(HasSubstr("deregister")));
  ASSERT_EQ(sk_op_describe("allgather", text.data(), text.size(), &size), SK_OK);
  EXPECT_THAT(text.substr(0, size), testing::StartsWith("{\"name\": \"allgather\""));
  EXPECT_EQ(sk_op_describe("all_gather", text.data(), text.size(), &size), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("did you mean allgather?"));
}

TEST(CommSelf, IsOneAndTheContexts) {
  sk_context *context = nullptr, *other = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  ASSERT_EQ(sk_init(nullptr, &other), SK_OK);
  sk_comm *self = nullptr, *again = nullptr, *others = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  ASSERT_EQ(sk_comm_self(context, &again), SK_OK);
  ASSERT_EQ(sk_comm_self(other, &others), SK_OK);
  EXPECT_EQ(self, again);
  EXPECT_NE(self, others);
  EXPECT_EQ(sk_comm_free(self), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("sk_finalize() ends it"));
  sk_comm_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(sk_comm_query(self, &info), SK_OK);
  EXPECT_EQ(info.world_size, 1);
  EXPECT_EQ(sk_comm_self(context, nullptr), SK_ERR_INVALID_ARGUMENT);
  ASSERT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_comm_query(self, &info), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(sk_comm_query(others, &info), SK_OK);
  EXPECT_EQ(sk_comm_self(context, &self), SK_ERR_BAD_HANDLE);
  ASSERT_EQ(sk_finalize(other), SK_OK);
}

TEST(CommSelf, AnyThreadCallsIt) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      sk_comm* self = nullptr;  // Made by whoever comes first.
      ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
      Case c;
      for (int turn = 0; turn < 200; ++turn) {
        c.in[7] = float(thread * 1000 + turn);
        ASSERT_EQ(sk_call(self, SK_OP_ALLREDUCE, &c.args, nullptr), SK_OK) << sk_last_error();
        ASSERT_EQ(c.out[7], c.in[7]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

// Who waits for a turn that will not come hears so, even where the next object has its slot.
TEST(CommSelf, EndsUnderThoseWhoWaitForTheirTurn) {
  for (int round = 0; round < 20; ++round) {
    sk_context* context = nullptr;
    ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
    sk_comm* self = nullptr;
    ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 5; ++thread) {
      threads.emplace_back([&] {
        Case c;
        sk_status status = SK_OK;
        for (++ready; status == SK_OK || status == SK_ERR_BUSY;) {  // It is about to end.
          status = sk_call(self, SK_OP_ALLREDUCE, &c.args, nullptr);
        }
        EXPECT_EQ(status, SK_ERR_BAD_HANDLE) << sk_last_error();
      });
    }
    while (ready < 5) std::this_thread::yield();
    EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
    in_thread_ranks(1, [](sk_comm*, int) {});  // Takes the slot.
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace sk::testing_ops
