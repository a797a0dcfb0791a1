// What any thread may call: how long it is waited for, who may end the wait, and that what is in a
// call is not taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "lib/api/objects.h"
#include "sk.h"
#include "tests/multi/lane_stage.h"
#include "tests/support/own_tiles.h"

namespace sk {
namespace {

using testing::HasSubstr;
using testing_support::OwnTile;

TEST_F(Lane, AContextInWhoseCallAThreadIsStays) {
  enter(self_);
  EXPECT_EQ(api::end_context(context_, kShortNs).code(), SK_ERR_TIMEOUT);
  EXPECT_TRUE(gate_.inside);
  sk_comm* same = nullptr;
  EXPECT_EQ(sk_comm_self(context_, &same), SK_OK) << sk_last_error();
  EXPECT_EQ(same, self_);
  leave();
  EXPECT_EQ(norm(self_, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(api::end_context(context_, kShortNs).code(), SK_OK);
  context_ = nullptr;
  EXPECT_EQ(norm(self_, nullptr), SK_ERR_BAD_HANDLE);
  const int logged = gate_.logged;
  EXPECT_GT(logged, 0);
  std::this_thread::yield();
  EXPECT_EQ(gate_.logged, logged);
}

// sk_tile_check() and others that are inside of the context itself.
TEST_F(Lane, AContextThatACallHoldsStays) {
  {
    const auto held = api::contexts.pin(context_);
    ASSERT_TRUE(held.ok());
    std::thread([&] {  // This one would wait for itself.
      EXPECT_EQ(api::end_context(context_, kShortNs).code(), SK_ERR_TIMEOUT);
    })
        .join();
  }
  sk_comm* same = nullptr;
  EXPECT_EQ(sk_comm_self(context_, &same), SK_OK) << sk_last_error();
}

TEST_F(Lane, ACommunicatorInWhoseLocalCallAThreadIsStays) {
  for (const bool kept : {false, true}) {
    sk_comm* const comm = alone(/*timeout_ms=*/20);
    sk_op* op = nullptr;
    ASSERT_EQ(sk_op_create(comm, op_, args_.get(), &op), SK_OK) << sk_last_error();
    if (kept) {  // Which holds the lane alone.
      enter([=] { return sk_op_run(op, nullptr, nullptr); });
    } else {
      enter(comm);
    }
    EXPECT_EQ(sk_comm_free(comm), SK_ERR_TIMEOUT);
    EXPECT_THAT(sk_last_error(), HasSubstr("have not ended"));
    EXPECT_TRUE(gate_.inside);
    EXPECT_EQ(sk_finalize(context_), SK_ERR_BUSY);  // It is alive.
    EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
    leave();
    EXPECT_EQ(norm(comm, nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_ERR_BAD_HANDLE);
    EXPECT_EQ(sk_op_free(op), SK_OK);
  }
}

int32_t gives_up(void* user) {
  ++*static_cast<int*>(user);
  return 1;
}
int32_t throws(void*) { throw std::runtime_error("of the caller's"); }

TEST_F(Lane, ATurnIsWaitedForAsOptionsSay) {
  sk_comm* const comm = alone(/*timeout_ms=*/0);
  float sum[4] = {};
  sk_plan_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = SK_OP_BARRIER;
  sk_plan* plan = nullptr;
  ASSERT_EQ(sk_plan_create(self_, &desc, &plan), SK_OK) << sk_last_error();
  sk_op *of_self = nullptr, *of_lane = nullptr;
  ASSERT_EQ(sk_op_create(self_, op_, args_.get(), &of_self), SK_OK) << sk_last_error();
  ASSERT_EQ(sk_op_create(comm, op_, args_.get(), &of_lane), SK_OK) << sk_last_error();
  const Turns of_selfs[] = {
      {"local call", [&](auto* o) { return norm(self_, o); }},
      {"collective", [&](auto* o) { return sk_allreduce(self_, sum, sum, 4, SK_F32, SK_SUM, o); }},
      {"product", [&](auto* o) { return sk_allreduce_gemm(self_, &x_, &y_, nullptr, &y_, 0, o); }},
      {"by number",
       [&](auto* o) {
         const uint32_t args[2] = {sizeof args, 0};
         return sk_call(self_, SK_OP_BARRIER, args, o);
       }},
      {"plan", [&](auto* o) { return sk_plan_run(plan, nullptr, nullptr, nullptr, o); }},
      {"kept", [&](auto* o) { return sk_op_run(of_self, nullptr, o); }},
      {"synchronize", [&](auto* o) { return sk_comm_synchronize(self_, o); }},
  };
  const Turns of_lanes[] = {
      {"local call", [&](auto* o) { return norm(comm, o); }},
      {"kept", [&](auto* o) { return sk_op_run(of_lane, nullptr, o); }},
  };
  const auto expect_all = [&](std::span<const Turns> all) {
    for (const Turns& each : all) {
      SCOPED_TRACE(each.name);
      sk_run_options options{};
      options.struct_size = sizeof options;
      options.timeout_ms = 20;
      EXPECT_EQ(each.call(&options), SK_ERR_TIMEOUT);
      EXPECT_THAT(sk_last_error(), HasSubstr("have not ended for 0.02 s"));
      int looks = 0;
      options.timeout_ms = 0;
      options.waiting = gives_up;
      options.waiting_user = &looks;
      EXPECT_EQ(each.call(&options), SK_ERR_BUSY);
      EXPECT_THAT(sk_last_error(), HasSubstr("options.waiting ended the wait"));
      EXPECT_EQ(looks, 1);
      options.waiting = throws;
      EXPECT_EQ(each.call(&options), SK_ERR_BUSY);
      EXPECT_THAT(sk_last_error(), HasSubstr("options.waiting threw an exception"));
    }
  };
  enter(self_);
  expect_all(of_selfs);
  leave();
  enter(comm);
  expect_all(of_lanes);
  leave();
  EXPECT_EQ(sk_op_free(of_self), SK_OK);
  EXPECT_EQ(sk_op_free(of_lane), SK_OK);
  EXPECT_EQ(sk_plan_free(plan), SK_OK);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
}

int32_t looks_thrice(void* user) { return ++*static_cast<int*>(user) == 3 ? 1 : 0; }

// The context's function ends every wait, and options' those of one call.
TEST_F(Lane, AnInterruptionIsAskedForBesideOptions) {
  sk_comm* const comm = alone(/*timeout_ms=*/0);
  for (sk_comm* each : {self_, comm}) {
    enter(each);
    int looks = 0;
    sk_run_options options{};
    options.struct_size = sizeof options;
    options.waiting = looks_thrice;
    options.waiting_user = &looks;
    gate_.asked = 0;
    EXPECT_EQ(norm(each, &options), SK_ERR_BUSY);
    EXPECT_EQ(looks, 3);
    EXPECT_EQ(gate_.asked, 3);
    gate_.interrupts = true;
    for (const sk_run_options* given :
         std::initializer_list<const sk_run_options*>{&options, nullptr}) {
      EXPECT_EQ(norm(each, given), SK_ERR_ABORTED);
      EXPECT_THAT(sk_last_error(), HasSubstr("interrupted while another thread's call"));
    }
    EXPECT_EQ(looks, 3);
    gate_.interrupts = false;
    leave();
  }
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
}

// Of a serial tile, for which calls on different lanes wait.
TEST_F(Lane, ASerialTilesTurnIsWaitedForAsOptionsSay) {
  OwnTile tile("alone", stays);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").over(SK_TILE_OVER_ALL);
  tile.desc.user = &gate_;
  tile.desc.flags = SK_TILE_SERIAL;
  ASSERT_EQ(sk_tile_register(context_, tile.get(), &op_), SK_OK) << sk_last_error();
  sk_comm* const comm = alone(/*timeout_ms=*/20);
  sk_op* op = nullptr;
  ASSERT_EQ(sk_op_create(comm, op_, args_.get(), &op), SK_OK) << sk_last_error();
  const Turns calls[] = {
      {"call", [&](auto* o) { return sk_call(comm, op_, args_.get(), o); }},
      {"kept", [&](auto* o) { return sk_op_run(op, nullptr, o); }},
      {"check", [&](auto* o) { return sk_tile_check(context_, op_, args_.get(), o); }},
  };
  enter(self_);
  for (const Turns& each : calls) {
    SCOPED_TRACE(each.name);
    const bool checks = std::string(each.name) == "check";
    sk_run_options options{};
    options.struct_size = sizeof options;
    options.timeout_ms = 20;
    EXPECT_EQ(each.call(&options), SK_ERR_TIMEOUT);
    EXPECT_THAT(sk_last_error(), HasSubstr("calls of tile alone, which is serial, have not ended"));
    if (!checks) {
      EXPECT_EQ(each.call(nullptr), SK_ERR_TIMEOUT);  // As long as the communicator does.
    }
    options.timeout_ms = 0;
    gate_.interrupts = true;
    if (!checks) options.timeout_ms = 10'000;
    EXPECT_EQ(each.call(&options), SK_ERR_ABORTED);
    EXPECT_THAT(sk_last_error(),
                HasSubstr("interrupted while another thread's call of tile alone"));
    gate_.interrupts = false;
    if (checks) continue;
    int looks = 0;
    options.waiting = gives_up;
    options.waiting_user = &looks;
    EXPECT_EQ(each.call(&options), SK_ERR_BUSY);
    EXPECT_THAT(sk_last_error(), HasSubstr("options.waiting ended the wait"));
    EXPECT_EQ(looks, 1);
  }
  leave();
  for (const Turns& each : calls) {  // The check finds that nothing is written.
    const int32_t expected = std::string(each.name) == "check" ? SK_ERR_TILE : SK_OK;
    EXPECT_EQ(each.call(nullptr), expected) << sk_last_error();
  }
  EXPECT_EQ(sk_op_free(op), SK_OK);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
}

// A communicator's lane is waited for no longer than the communicator waits for anything.
TEST_F(Lane, ACommunicatorsTimeoutIsItsLanes) {
  sk_comm* const comm = alone(/*timeout_ms=*/20);
  enter(comm);
  EXPECT_EQ(norm(comm, nullptr), SK_ERR_TIMEOUT);
  leave();
  EXPECT_EQ(norm(comm, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
}

// What options say is seen to be right, though behind the turn nobody is waited for.
TEST_F(Lane, OptionsOfLocalCallsAreChecked) {
  sk_run_options options{};
  options.struct_size = sizeof options;
  options.timeout_ms = 1000;
  EXPECT_EQ(norm(self_, &options), SK_OK) << sk_last_error();
  options.timeout_ms = -1;
  EXPECT_EQ(norm(self_, &options), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("options.timeout_ms is -1"));
  options.timeout_ms = 0;
  options.device_type = SK_DEVICE_CUDA;
  EXPECT_EQ(norm(self_, &options), SK_ERR_UNSUPPORTED);
  options.device_type = 0;
  options.reserved = 1;
  EXPECT_EQ(norm(self_, &options), SK_ERR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace sk
