// A context of which a thread stays inside a tile, and functions of a caller's that try something.
#ifndef SK_TESTS_MULTI_LANE_STAGE_H_
#define SK_TESTS_MULTI_LANE_STAGE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sk.h"
#include "tests/support/own_tiles.h"
#include "tests/support/until.h"

namespace sk {

inline constexpr int64_t kShortNs = 20'000'000;

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

inline int32_t stays(void* const*, const sk_tile_view*, const sk_tile_value*, void* user) {
  auto& gate = *static_cast<Gate*>(user);
  gate.inside = true;
  EXPECT_TRUE(testing_support::until([&] { return gate.open.load(); }));
  gate.inside = false;
  return 1;
}

inline void count_line(void* user, int32_t, const char*, const char*) {
  auto& gate = *static_cast<Gate*>(user);
  ++gate.logged;
  if (gate.at_line) std::exchange(gate.at_line, nullptr)();
}

inline int32_t is_interrupted(void* user) {
  auto& gate = *static_cast<Gate*>(user);
  ++gate.asked;
  if (gate.at_question) std::exchange(gate.at_question, nullptr)();
  return gate.interrupts ? 1 : 0;
}

// Where calls of several threads come one after another, and take options.
struct Turns {
  const char* name;
  std::function<sk_status(const sk_run_options*)> call;
};

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
    testing_support::OwnTile tile("stays", stays);
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
  sk_tensor x_ = testing_support::matrix(SK_F32, in_.data(), 3, 4, 4),
            y_ = testing_support::matrix(SK_F32, out_.data(), 3, 4, 4);
  testing_support::OwnArgs args_{{x_, y_}};
  std::thread thread_;
};

}  // namespace sk

#endif  // SK_TESTS_MULTI_LANE_STAGE_H_
