// What any thread may call: how long it is waited for, who may end the wait, and that what is in a
// call is not taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/api/objects.h"
#include "sk.h"
#include "tests/support/own_tiles.h"
#include "tests/support/until.h"

namespace sk {
namespace {

using testing::HasSubstr;
using testing_support::matrix;
using testing_support::OwnArgs;
using testing_support::OwnTile;

constexpr int64_t kShortNs = 20'000'000;

// A tile that stays inside until it is let go.
struct Gate {
  std::atomic<bool> inside{false}, open{false};
  std::atomic<int> logged{0}, asked{0};
  std::atomic<bool> interrupts{false};
  std::function<void()> at_line{}, at_question{};  // Called once, by the thread that set it.
};

// What a function of the caller's tries, and what it hears.
struct Tried {
  std::function<sk_status()> call;
  sk_status status = SK_OK;
  std::string sentence{};

  void operator()() {
    status = call();
    sentence = sk_last_error();
  }
  static int32_t waiting(void* user) {
    (*static_cast<Tried*>(user))();
    return 1;
  }
};

int32_t stays(void* const*, const sk_tile_view*, const sk_tile_value*, void* user) {
  auto& gate = *static_cast<Gate*>(user);
  gate.inside = true;
  EXPECT_TRUE(testing_support::until([&] { return gate.open.load(); }));
  gate.inside = false;
  return 1;
}

void count_line(void* user, int32_t, const char*, const char*) {
  auto& gate = *static_cast<Gate*>(user);
  ++gate.logged;
  if (gate.at_line) std::exchange(gate.at_line, nullptr)();
}

int32_t is_interrupted(void* user) {
  auto& gate = *static_cast<Gate*>(user);
  ++gate.asked;
  if (gate.at_question) std::exchange(gate.at_question, nullptr)();
  return gate.interrupts ? 1 : 0;
}

class Lane : public testing::Test {
 protected:
  void SetUp() override {
    sk_config config{};
    config.struct_size = sizeof config;
    config.log_level = SK_LOG_ALL;
    config.log = count_line;
    config.log_user = &gate_;
    ASSERT_EQ(sk_init(&config, &context_), SK_OK);
    ASSERT_EQ(sk_context_set_interrupted(context_, is_interrupted, &gate_), SK_OK);
    ASSERT_EQ(sk_comm_self(context_, &self_), SK_OK) << sk_last_error();
    OwnTile tile("stays", stays);
    tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").over(SK_TILE_OVER_ALL);
    tile.desc.user = &gate_;
    ASSERT_EQ(sk_tile_register(context_, tile.get(), &op_), SK_OK) << sk_last_error();
  }
  void TearDown() override {
    leave();
    if (context_ == nullptr) return;
    EXPECT_EQ(sk_finalize(context_), SK_OK) << sk_last_error();
  }

  // Another thread is inside the tile, by `call`, from here on to leave().
  void enter(const std::function<sk_status()>& call) {
    gate_.open = false;
    thread_ = std::thread([=] { EXPECT_EQ(call(), SK_OK) << sk_last_error(); });
    while (!gate_.inside) std::this_thread::yield();
  }
  void enter(sk_comm* comm) {
    enter([=, this] { return sk_call(comm, op_, args_.get(), nullptr); });
  }
  void leave() {
    gate_.open = true;
    if (thread_.joinable()) thread_.join();
  }

  sk_comm* alone(int64_t timeout_ms) {
    sk_comm_config config{};
    config.struct_size = sizeof config;
    config.bootstrap = SK_BOOTSTRAP_THREADS;
    config.world_size = 1;
    config.timeout_ms = timeout_ms;
    sk_comm* comm = nullptr;
    EXPECT_EQ(sk_comm_create(context_, &config, &comm), SK_OK) << sk_last_error();
    return comm;
  }
  sk_status norm(sk_comm* comm, const sk_run_options* options) {
    sk_rmsnorm_args args{};
    args.struct_size = sizeof args;
    args.x = &x_;
    args.y = &y_;
    args.eps = 1e-5;
    return sk_rmsnorm(comm, &args, options);
  }

  Gate gate_;
  sk_context* context_ = nullptr;
  sk_comm* self_ = nullptr;
  int32_t op_ = 0;
  std::vector<float> in_ = std::vector<float>(12, 1), out_ = std::vector<float>(12);
  sk_tensor x_ = matrix(SK_F32, in_.data(), 3, 4, 4), y_ = matrix(SK_F32, out_.data(), 3, 4, 4);
  OwnArgs args_{{x_, y_}};
  std::thread thread_;
};

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

// Where calls of several threads come one after another, and take options.
struct Turns {
  const char* name;
  std::function<sk_status(const sk_run_options*)> call;
};

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

// A thread that waits for its turn has a call under way, for whose end it would wait for ever.
TEST_F(Lane, AFunctionOfAWaitEndsNothingThatTheWaitIsOf) {
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
TEST_F(Lane, AFunctionOfAWaitDoesNotFreeWhatIsToRun) {
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
TEST_F(Lane, AnInterruptionIsNotAskedInsideOfItself) {
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
TEST_F(Lane, WaitsInsideOfWaitsEnd) {
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

TEST_F(Lane, TheLogEndsNothingThatItTellsOf) {
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
TEST_F(Lane, WhoWaitsIsRefusedOnceTheCommunicatorIsFreed) {
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
TEST_F(Lane, BehindTheEndNoFunctionOfTheCallersRuns) {
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
TEST_F(Lane, AnInterruptionThatWasSetIsTheOneThatIsAsked) {
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
