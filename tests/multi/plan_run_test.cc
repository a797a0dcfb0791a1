// Plans that are run: by the ranks that have a part in them, on memory as they were made for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sk/op.h"
#include "tests/multi/thread_ranks.h"

namespace sk {
namespace {

using testing::HasSubstr;
using testing_ops::in_thread_ranks;

constexpr int64_t kCount = 8;

sk_plan* made(sk_comm* comm, int32_t kind, uint32_t flags = 0) {
  sk_plan_desc desc{};
  desc.struct_size = sizeof(desc);
  desc.kind = kind;
  desc.dtype = SK_I32;
  desc.count = kCount;
  desc.flags = flags;
  if (kind == SK_OP_ALLREDUCE || kind == SK_OP_REDUCE_SCATTER) desc.op = SK_SUM;
  if (kind == SK_OP_SEND_RECV) desc.peer = 1;
  sk_plan* plan = nullptr;
  EXPECT_EQ(sk_plan_create(comm, &desc, &plan), SK_OK) << sk_last_error();
  return plan;
}

// All ranks run a message's plan; a rank that is neither end takes nobody's message with it.
TEST(PlanRun, RanksThatAreNoEndOfAMessageTakeNoOther) {
  in_thread_ranks(3, [](sk_comm* comm, int rank) {
    sk_plan* plan = made(comm, SK_OP_SEND_RECV);
    const std::vector<int32_t> first(kCount, 10), second(kCount, 70);
    std::vector<int32_t> out(kCount, -1);
    EXPECT_EQ(sk_plan_run(plan, rank == 0 ? first.data() : nullptr, nullptr,
                          rank == 0 ? nullptr : out.data(), nullptr),
              SK_OK)
        << sk_last_error();
    EXPECT_EQ(out, std::vector<int32_t>(kCount, rank == 1 ? 10 : -1));
    if (rank == 0) {
      EXPECT_EQ(sk_send(comm, second.data(), kCount, SK_I32, 2, nullptr), SK_OK);
    }
    if (rank == 2) {
      EXPECT_EQ(sk_recv(comm, out.data(), kCount, SK_I32, 0, nullptr), SK_OK) << sk_last_error();
      EXPECT_EQ(out, second);
    }
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
  });
}

TEST(PlanRun, OutlivesItsCommunicatorWithoutRunning) {
  sk_plan* plan = nullptr;
  in_thread_ranks(1, [&](sk_comm* comm, int) { plan = made(comm, SK_OP_ALLREDUCE); });
  int32_t in[kCount] = {}, out[kCount] = {};
  EXPECT_EQ(sk_plan_run(plan, in, nullptr, out, nullptr), SK_ERR_BAD_HANDLE);
  EXPECT_STREQ(sk_last_error(), "the plan's communicator was freed");
  size_t size = 0;
  EXPECT_EQ(sk_plan_dump(plan, nullptr, 0, &size), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_plan_free(plan), SK_OK);
}

TEST(PlanRun, MemoryIsAsThePlanSays) {
  in_thread_ranks(2, [](sk_comm* comm, int) {
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, 3 * kCount * sizeof(int32_t), &memory), SK_OK) << sk_last_error();
    auto* symmetric = static_cast<int32_t*>(memory);
    std::vector<int32_t> ordinary(3 * kCount);
    const auto run = [&](sk_plan* plan, int32_t* in, int32_t* out) -> std::string {
      for (int64_t i = 0; i < kCount; ++i) in[i] = 3;
      const sk_status status = sk_plan_run(plan, in, nullptr, out, nullptr);
      for (int64_t i = 0; i < kCount && status == SK_OK; ++i) EXPECT_EQ(out[i], 6);
      return status == SK_OK ? "" : sk_last_error();
    };
    const auto apart = [&](sk_plan* plan, int32_t* at) { return run(plan, at, at + kCount); };

    sk_plan* plain = made(comm, SK_OP_ALLREDUCE);
    EXPECT_EQ(apart(plain, ordinary.data()), "");
    EXPECT_EQ(apart(plain, symmetric), "");  // What was planned will do there, too.
    EXPECT_THAT(run(plain, symmetric, symmetric),
                HasSubstr("in and out are the same memory, and the plan was made without"));

    sk_plan* mapped = made(comm, SK_OP_ALLREDUCE, SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT);
    EXPECT_EQ(apart(mapped, symmetric), "");
    EXPECT_THAT(apart(mapped, ordinary.data()), HasSubstr("in is no memory of sk_alloc()"));
    EXPECT_THAT(run(mapped, symmetric, ordinary.data()), HasSubstr("SK_PLAN_SYMMETRIC_OUT"));

    for (const uint32_t flags :
         {0u, uint32_t(SK_PLAN_SYMMETRIC_IN), uint32_t(SK_PLAN_SYMMETRIC_OUT),
          uint32_t(SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT)}) {
      sk_plan* in_place = made(comm, SK_OP_ALLREDUCE, flags | SK_PLAN_IN_PLACE);
      EXPECT_EQ(run(in_place, symmetric, symmetric), "");
      EXPECT_EQ(run(in_place, ordinary.data(), ordinary.data()).empty(), flags == 0);
      EXPECT_THAT(apart(in_place, symmetric),
                  HasSubstr("in and out are apart, and the plan was made with SK_PLAN_IN_PLACE"));
      EXPECT_EQ(sk_plan_free(in_place), SK_OK);
    }
    EXPECT_EQ(sk_plan_free(plain), SK_OK);
    EXPECT_EQ(sk_plan_free(mapped), SK_OK);
    EXPECT_EQ(sk_free(comm, memory), SK_OK);
  });
}

// In place a call has one operand, which is where the plan's flags count.
TEST(PlanRun, OfPartsInPlace) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, 2 * kCount * sizeof(int32_t), &memory), SK_OK) << sk_last_error();
    auto* all = static_cast<int32_t*>(memory);
    int32_t* own = all + rank * kCount;
    for (const int32_t kind : {SK_OP_ALLGATHER, SK_OP_REDUCE_SCATTER}) {
      const bool gathers = kind == SK_OP_ALLGATHER;
      sk_plan* plan =
          made(comm, kind, SK_PLAN_IN_PLACE | SK_PLAN_SYMMETRIC_IN | SK_PLAN_SYMMETRIC_OUT);
      for (int64_t i = 0; i < 2 * kCount; ++i) all[i] = rank + 1;
      EXPECT_EQ(sk_plan_run(plan, gathers ? own : all, nullptr, gathers ? all : own, nullptr),
                SK_OK)
          << sk_last_error();
      for (int64_t i = 0; i < kCount; ++i) EXPECT_EQ(own[i], gathers ? rank + 1 : 3);
      for (int64_t i = 0; gathers && i < 2 * kCount; ++i) EXPECT_EQ(all[i], i / kCount + 1);
      EXPECT_EQ(sk_plan_free(plan), SK_OK);
      EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK);
    }
    EXPECT_EQ(sk_free(comm, memory), SK_OK);
  });
}

std::string text_of(sk_plan* plan) {
  size_t size = 0;
  EXPECT_EQ(sk_plan_dump(plan, nullptr, 0, &size), SK_OK) << sk_last_error();
  std::string text(size + 1, '\0');
  EXPECT_EQ(sk_plan_dump(plan, text.data(), text.size(), &size), SK_OK) << sk_last_error();
  text.resize(size);
  return text;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from << " is not in\n" << text;
  return text.replace(at, from.size(), to);
}

sk_plan* parsed(sk_comm* comm, const std::string& text) {
  sk_plan* plan = nullptr;
  EXPECT_EQ(sk_plan_parse(comm, text.data(), text.size(), &plan), SK_OK) << sk_last_error();
  return plan;
}

// Two runs in a row with the same memory are the same call, and yet look at it anew.
TEST(PlanRun, AsOftenAsWanted) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    sk_plan* plan = made(comm, SK_OP_ALLREDUCE);
    sk_plan* of_text = parsed(comm, text_of(plan));
    std::vector<int32_t> in(kCount), out(kCount), other(kCount);
    for (int turn = 0; turn < 20; ++turn) {
      for (int64_t i = 0; i < kCount; ++i) in[i] = int32_t(turn * i + rank);
      std::vector<int32_t>& to = turn % 5 == 4 ? other : out;
      std::fill(out.begin(), out.end(), -1);
      std::fill(other.begin(), other.end(), -1);
      sk_plan* which = turn % 7 < 3 ? plan : of_text;
      ASSERT_EQ(sk_plan_run(which, in.data(), nullptr, to.data(), nullptr), SK_OK)
          << sk_last_error();
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(to[i], 2 * turn * i + 1) << turn;
      EXPECT_EQ((turn % 5 == 4 ? out : other)[0], -1);
    }
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
    EXPECT_EQ(sk_plan_free(of_text), SK_OK);
  });
}

TEST(PlanParse, OfTextsThatDifferIsNoCall) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    sk_plan* plan = made(comm, SK_OP_ALLREDUCE);
    const std::string text = text_of(plan);
    // What steers a planner may differ from the machine's, and yet not among ranks.
    sk_plan* other = parsed(comm, rank == 0 ? text : changed(text, "cores=", "cores=1"));
    std::vector<int32_t> in(kCount, 1), out(kCount, -1);
    EXPECT_EQ(sk_plan_run(other, in.data(), nullptr, out.data(), nullptr), SK_ERR_DESYNC)
        << sk_last_error();
    EXPECT_EQ(out[0], -1);
    EXPECT_EQ(sk_plan_run(plan, in.data(), nullptr, out.data(), nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(out[0], 2);
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
    EXPECT_EQ(sk_plan_free(other), SK_OK);
  });
}

// A rank of an ordinary call and one of a text that is not what libsk would have made: that is
// said, and nothing else.
TEST(PlanParse, OfATextBesideAnOrdinaryCallIsSaid) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    sk_plan* plan = made(comm, SK_OP_ALLREDUCE);
    sk_plan* other = parsed(comm, changed(text_of(plan), "hint=hand_over", "hint=default"));
    std::vector<int32_t> in(kCount, 1), out(kCount, -1);
    const sk_status status =
        rank == 0 ? sk_plan_run(other, in.data(), nullptr, out.data(), nullptr)
                  : sk_allreduce(comm, in.data(), out.data(), kCount, SK_I32, SK_SUM, nullptr);
    EXPECT_EQ(status, SK_ERR_DESYNC);
    EXPECT_THAT(sk_last_error(), HasSubstr("by plans that differ. A plan from a text runs beside"));
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
    EXPECT_EQ(sk_plan_free(other), SK_OK);
  });
}

// What cannot be run is no plan: no peer waits in a first run that another rank refuses.
TEST(PlanParse, WhatCannotBeRunIsRefused) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    const std::string own = "owner=" + std::to_string(rank);
    sk_plan* plan = made(comm, SK_OP_ALLREDUCE);
    sk_plan_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = SK_OP_ALLREDUCE_GEMM;
    desc.dtype = SK_F32;
    desc.m = desc.n = desc.k = 8;
    sk_plan* product = nullptr;
    ASSERT_EQ(sk_plan_create(comm, &desc, &product), SK_OK) << sk_last_error();
    const struct {
      std::string text, from, to;
      sk_status status;
      const char* sentence;
    } all[] = {
        {text_of(plan), "generations=2 " + own + " bytes=32",
         "generations=2 " + own + " bytes=99999936", SK_ERR_UNSUPPORTED, "stages"},
        {text_of(product), own + " bytes=16384 offset=16384",
         own + " bytes=140737488355328 offset=16384", SK_ERR_NO_MEMORY, "bytes of workspace"},
    };
    for (const auto& [text, from, to, status, sentence] : all) {
      const std::string bad = changed(text, from, to);
      EXPECT_EQ(sk_plan_check(bad.data(), bad.size()), SK_OK) << sk_last_error();
      sk_plan* none = nullptr;
      EXPECT_EQ(sk_plan_parse(comm, bad.data(), bad.size(), &none), status);
      EXPECT_THAT(sk_last_error(), HasSubstr(sentence));
      EXPECT_EQ(none, nullptr);
    }
    std::vector<int32_t> in(kCount, 1), out(kCount, -1);
    EXPECT_EQ(sk_plan_run(plan, in.data(), nullptr, out.data(), nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(out[0], 2);
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
    EXPECT_EQ(sk_plan_free(product), SK_OK);
  });
}

TEST(PlanCreate, MakesTheProgram) {
  in_thread_ranks(2, [](sk_comm* comm, int) {
    sk_comm_info before{}, after{};
    before.struct_size = after.struct_size = sizeof before;
    ASSERT_EQ(sk_comm_query(comm, &before), SK_OK);
    sk_plan* plan = made(comm, SK_OP_ALLREDUCE);
    ASSERT_EQ(sk_comm_query(comm, &after), SK_OK);
    EXPECT_EQ(after.plans, before.plans + 1);
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
  });
}

TEST(PlanParse, WhatDoesNotFitIsSaid) {
  std::string of_two;
  in_thread_ranks(2, [&](sk_comm* comm, int rank) {
    sk_plan* plan = made(comm, SK_OP_ALLREDUCE);
    if (rank == 0) of_two = text_of(plan);
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
  });
  in_thread_ranks(1, [&](sk_comm* comm, int) {
    const auto refused = [&](const std::string& text, const char* sentence) {
      sk_plan* plan = nullptr;
      EXPECT_EQ(sk_plan_parse(comm, text.data(), text.size(), &plan), SK_ERR_INVALID_ARGUMENT);
      EXPECT_THAT(sk_last_error(), HasSubstr(sentence));
      EXPECT_EQ(plan, nullptr);
    };
    refused(of_two, "the plan's target has world_size=2, this communicator runs plans with 1");
    refused("plan", "line 1");
    sk_plan* plan = made(comm, SK_OP_ALLREDUCE);
    const std::string text = text_of(plan);
    refused(changed(text, "workers=", "workers=9"), "workers=9");
    refused(changed(text, "mapped=1", "mapped=0"), "the plan's target has mapped=0");
    refused(changed(text, "world_size=1", "world_size=3"), "");
    EXPECT_EQ(sk_plan_parse(comm, text.data(), text.size(), nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(sk_plan_parse(comm, nullptr, 3, &plan), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(), HasSubstr("text is null"));
    EXPECT_EQ(sk_plan_free(plan), SK_OK);
  });
}

// Rows that lie apart, B as it is: sk_plan_run() has no arguments for such a call, and would read
// beyond those that it has.
TEST(PlanParse, OfACallWithoutArgumentsHereIsNotRun) {
  in_thread_ranks(1, [](sk_comm* comm, int) {
    sk_plan_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = SK_OP_ALLREDUCE_GEMM;
    desc.dtype = SK_F32;
    desc.m = 1;
    desc.n = desc.k = 8;
    sk_plan* plan = nullptr;
    ASSERT_EQ(sk_plan_create(comm, &desc, &plan), SK_OK) << sk_last_error();
    std::vector<float> b(64), a(64), c(64, -1.0f);
    const sk_tensor tensor = {sizeof(sk_tensor), SK_F32, b.data(), 2, 0, 0, 0, {8, 8}, {8, 1}};
    sk_packed* packed = nullptr;
    ASSERT_EQ(sk_pack(comm, &tensor, 0, &packed), SK_OK) << sk_last_error();
    sk_plan* wide = parsed(comm, changed(text_of(plan), "a.stride=8", "a.stride=4000"));
    EXPECT_EQ(sk_plan_run(wide, a.data(), packed, c.data(), nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(), HasSubstr("which only sk_call() makes"));
    EXPECT_EQ(c[0], -1.0f);
    sk_plan* same = parsed(comm, text_of(plan));
    EXPECT_EQ(sk_plan_run(same, a.data(), packed, c.data(), nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(c[0], 0.0f);
    for (sk_plan* each : {plan, wide, same}) EXPECT_EQ(sk_plan_free(each), SK_OK);
    EXPECT_EQ(sk_packed_free(packed), SK_OK);
  });
}

}  // namespace
}  // namespace sk
