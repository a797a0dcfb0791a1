// What a function of the caller's, that a wait or a call calls, may and may not do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "lib/api/objects.h"
#include "sk.h"
#include "tests/multi/lane_stage.h"
#include "tests/support/own_tiles.h"

namespace sk {
namespace {

using testing::HasSubstr;

class LaneCallbacks : public Lane {};

// A thread that waits for its turn has a call under way, for whose end it would wait for ever.
TEST_F(LaneCallbacks, AFunctionOfAWaitEndsNothingThatTheWaitIsOf) {
  sk_run_options options{};
  options.struct_size = sizeof options;
  const auto expect_refused = [](const Tried& tried, const char* by) {
    EXPECT_EQ(tried.status, SK_ERR_BUSY);
    EXPECT_THAT(tried.sentence,
                HasSubstr(std::string("called from ") + by +
                          ", inside a call on the same communicator that is not over"));
  };
  const auto expect_all = [&](const std::function<sk_status(const sk_run_options*)>& call,
                              const std::function<sk_status()>& end) {
    Tried tried{end};
    options.waiting = Tried::waiting;
    options.waiting_user = &tried;
    EXPECT_EQ(call(&options), SK_ERR_BUSY);
    expect_refused(tried, "options.waiting");
    tried = {end};
    gate_.at_question = [&] {
      tried();
      gate_.interrupts = true;
    };
    EXPECT_EQ(call(nullptr), SK_ERR_ABORTED);
    expect_refused(tried, "the function of sk_context_set_interrupted()");
    gate_.interrupts = false;
  };
  sk_op* op = nullptr;
  ASSERT_EQ(sk_op_create(self_, op_, args_.get(), &op), SK_OK) << sk_last_error();
  enter(self_);
  const auto finalizes = [&] { return sk_finalize(context_); };
  expect_all([&](auto* o) { return norm(self_, o); }, finalizes);
  expect_all([&](auto* o) { return sk_op_run(op, nullptr, o); }, finalizes);
  leave();
  EXPECT_EQ(sk_op_free(op), SK_OK);
  sk_comm* const comm = alone(/*timeout_ms=*/0);
  ASSERT_EQ(sk_op_create(comm, op_, args_.get(), &op), SK_OK) << sk_last_error();
  enter(comm);
  const auto frees = [&] { return sk_comm_free(comm); };
  expect_all([&](auto* o) { return norm(comm, o); }, frees);
  expect_all([&](auto* o) { return sk_op_run(op, nullptr, o); }, frees);
  leave();
  EXPECT_EQ(sk_op_free(op), SK_OK);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
}

// What was made for the lane, too, though the run that waits has nothing of it yet.
TEST_F(LaneCallbacks, AFunctionOfAWaitDoesNotFreeWhatIsToRun) {
  sk_plan_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = SK_OP_BARRIER;
  sk_plan* plan = nullptr;
  sk_op* op = nullptr;
  ASSERT_EQ(sk_plan_create(self_, &desc, &plan), SK_OK) << sk_last_error();
  ASSERT_EQ(sk_op_create(self_, op_, args_.get(), &op), SK_OK) << sk_last_error();
  struct Run {
    const char* what;
    std::function<sk_status(const sk_run_options*)> run;
    std::function<sk_status()> free;
  };
  const Run runs[] = {
      {"operation", [&](auto* o) { return sk_op_run(op, nullptr, o); },
       [&] { return sk_op_free(op); }},
      {"plan", [&](auto* o) { return sk_plan_run(plan, nullptr, nullptr, nullptr, o); },
       [&] { return sk_plan_free(plan); }},
  };
  enter(self_);
  for (const Run& each : runs) {
    Tried tried{each.free};
    sk_run_options options{};
    options.struct_size = sizeof options;
    options.waiting = Tried::waiting;
    options.waiting_user = &tried;
    EXPECT_EQ(each.run(&options), SK_ERR_BUSY);
    EXPECT_EQ(tried.status, SK_ERR_BUSY);
    EXPECT_EQ(tried.sentence,
              std::string("called from options.waiting, inside a call on the same ") + each.what +
                  " that is not over");
  }
  leave();
  for (const Run& each : runs) {
    EXPECT_EQ(each.run(nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(each.free(), SK_OK) << sk_last_error();
  }
}

// Else its own calls ask it, and those that they make again.
TEST_F(LaneCallbacks, AnInterruptionIsNotAskedInsideOfItself) {
  sk_run_options options{};
  options.struct_size = sizeof options;
  options.timeout_ms = 200;  // Four questions' worth.
  gate_.asked = 0;
  Tried tried{[&] { return norm(self_, &options); }};
  gate_.at_question = [&] {
    tried();
    gate_.interrupts = true;
  };
  enter(self_);
  EXPECT_EQ(norm(self_, nullptr), SK_ERR_ABORTED);
  leave();
  EXPECT_EQ(tried.status, SK_ERR_TIMEOUT) << tried.sentence;
  EXPECT_EQ(gate_.asked, 1);
}

// A function that waits by itself, and so on.
TEST_F(LaneCallbacks, WaitsInsideOfWaitsEnd) {
  constexpr int kFar = 100;
  struct Deep {
    std::function<sk_status()> call;
    std::function<void()> at_end;
    int depth = 0, deepest = 0;
    std::string sentence{};
  };
  sk_run_options options{};
  options.struct_size = sizeof options;
  sk_packed* packed = nullptr;
  ASSERT_EQ(sk_pack(self_, &x_, 0, &packed), SK_OK) << sk_last_error();
  Deep deep{.call = [&] { return norm(self_, &options); },
            .at_end = [&] { EXPECT_EQ(sk_packed_free(packed), SK_OK) << sk_last_error(); }};
  options.waiting_user = &deep;
  options.waiting = [](void* user) -> int32_t {
    auto& its = *static_cast<Deep*>(user);
    its.deepest = ++its.depth;
    if (its.depth < kFar) {
      EXPECT_EQ(its.call(), SK_ERR_BUSY);
    }
    if (its.depth == its.deepest) {
      its.sentence = sk_last_error();
      its.at_end();
    }
    --its.depth;
    return 1;
  };
  enter(self_);
  EXPECT_EQ(norm(self_, &options), SK_ERR_BUSY);
  leave();
  EXPECT_LT(deep.deepest, kFar);
  EXPECT_THAT(deep.sentence, HasSubstr("no further one waits for this communicator"));
}

TEST_F(LaneCallbacks, TheLogEndsNothingThatItTellsOf) {
  sk_config config{};
  config.struct_size = sizeof config;
  config.log_level = SK_LOG_ALL;
  config.log = count_line;
  Gate gate;
  config.log_user = &gate;
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(&config, &context), SK_OK);
  Tried tried{[&] { return sk_finalize(context); }};
  gate.at_line = [&] { tried(); };
  sk_comm* self = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  EXPECT_EQ(tried.status, SK_ERR_BUSY);
  EXPECT_EQ(tried.sentence,
            "called from the log function, inside a call on the same context that is not over");
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();

  sk_comm* const comm = alone(/*timeout_ms=*/0);
  Tried frees{[&] { return sk_comm_free(comm); }};
  gate_.at_line = [&] { frees(); };
  EXPECT_EQ(norm(comm, nullptr), SK_OK) << sk_last_error();  // Which makes the lane.
  EXPECT_EQ(frees.status, SK_ERR_BUSY);
  EXPECT_EQ(
      frees.sentence,
      "called from the log function, inside a call on the same communicator that is not over");
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
}

// Whoever waits would keep the communicator where it is until all who came before are served.
TEST_F(LaneCallbacks, WhoWaitsIsRefusedOnceTheCommunicatorIsFreed) {
  sk_comm* const comm = alone(/*timeout_ms=*/20);
  sk_op* op = nullptr;
  ASSERT_EQ(sk_op_create(comm, op_, args_.get(), &op), SK_OK) << sk_last_error();
  const Turns calls[] = {
      {"local call", [&](auto* o) { return norm(comm, o); }},
      {"kept", [&](auto* o) { return sk_op_run(op, nullptr, o); }},
  };
  for (const Turns& each : calls) {
    SCOPED_TRACE(each.name);
    enter(comm);
    std::atomic<bool> waits{false};
    std::thread waiter([&] {
      sk_run_options options{};
      options.struct_size = sizeof options;
      options.timeout_ms = 10'000;
      options.waiting = [](void* user) -> int32_t {
        *static_cast<std::atomic<bool>*>(user) = true;
        return 0;
      };
      options.waiting_user = &waits;
      EXPECT_EQ(each.call(&options), SK_ERR_BUSY);
      EXPECT_THAT(sk_last_error(), HasSubstr("another thread ends this communicator"));
    });
    while (!waits) std::this_thread::yield();
    EXPECT_EQ(sk_comm_free(comm), SK_ERR_TIMEOUT);  // For the call that lasts.
    EXPECT_THAT(sk_last_error(), HasSubstr("have not ended"));
    waiter.join();
    leave();
    EXPECT_EQ(norm(comm, nullptr), SK_OK) << sk_last_error();
  }
  EXPECT_EQ(sk_op_free(op), SK_OK);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
}

// Not of one that waits, either.
TEST_F(LaneCallbacks, BehindTheEndNoFunctionOfTheCallersRuns) {
  enter(self_);
  Gate looks;
  std::thread waiter([&] {
    sk_run_options options{};
    options.struct_size = sizeof options;
    options.waiting = [](void* user) -> int32_t {
      auto& its = *static_cast<Gate*>(user);
      its.inside = true;
      while (!its.open) std::this_thread::yield();
      return 0;
    };
    options.waiting_user = &looks;
    const uint32_t args[2] = {sizeof args, 0};
    EXPECT_EQ(sk_call(self_, SK_OP_BARRIER, args, &options), SK_ERR_BUSY);
  });
  while (!looks.inside) std::this_thread::yield();
  leave();
  EXPECT_EQ(api::end_context(context_, kShortNs).code(), SK_ERR_TIMEOUT);
  looks.open = true;
  waiter.join();
}

// Set by one thread while another makes sk_comm_self(): whatever was said to be set is asked.
TEST_F(LaneCallbacks, AnInterruptionThatWasSetIsTheOneThatIsAsked) {
  struct Asked {
    intptr_t of_function = -1;  // Which of the two functions asked, by the parity of `user`.
    intptr_t user = 0;
  };
  static Asked asked;
  constexpr sk_interrupted_fn kFunctions[] = {
      [](void* user) -> int32_t {
        asked = {0, std::bit_cast<intptr_t>(user)};
        return 0;
      },
      [](void* user) -> int32_t {
        asked = {1, std::bit_cast<intptr_t>(user)};
        return 0;
      },
  };
  for (int round = 0; round < 100; ++round) {
    sk_context* context = nullptr;
    ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
    intptr_t last = 0;
    std::atomic<bool> goes{false};
    std::thread sets([&] {
      for (intptr_t i = 1;; ++i) {
        const sk_status status =
            sk_context_set_interrupted(context, kFunctions[i % 2], std::bit_cast<void*>(i));
        if (status != SK_OK) return;
        last = i;
        goes = true;
      }
    });
    while (!goes) std::this_thread::yield();
    sk_comm* self = nullptr;
    ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
    sets.join();
    asked = {};
    {
      const auto lane = api::comms.pin(self);
      ASSERT_TRUE(lane.ok());
      EXPECT_FALSE(lane.value()->interruption.get().is_due());
    }
    EXPECT_EQ(asked.user, last);
    EXPECT_EQ(asked.of_function, last % 2);
    EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
  }
}

}  // namespace
}  // namespace sk
