// Tiles of the user's own through sk_call(): what they compute, with any number of workers, and
// what becomes of calls that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "sk.h"
#include "tests/support/own_tiles.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;
using testing_support::matrix;
using testing_support::OwnArgs;
using testing_support::OwnTile;

float* row(void* data, const sk_tile_view& view, int64_t i) {
  return static_cast<float*>(data) + i * view.stride;
}

int32_t saxpy(void* const* data, const sk_tile_view* views, const sk_tile_value* values, void*) {
  const auto alpha = float(values[0].f);
  for (int64_t i = 0; i < views[2].rows; ++i) {
    for (int64_t j = 0; j < views[2].cols; ++j) {
      row(data[2], views[2], i)[j] =
          alpha * row(data[0], views[0], i)[j] + row(data[1], views[1], i)[j];
    }
  }
  return 1;
}

OwnTile saxpy_tile(int32_t over = SK_TILE_OVER_ROWS) {
  OwnTile tile("saxpy", saxpy);
  tile.reads("x", "f32", "m, n").reads("y", "x", "m, n").writes("z", "y", "m, n", "y");
  tile.takes("alpha", SK_TILE_FLOAT, "-100", "100");
  tile.does("z[i, j] = saxpy(x[i, j], y[i, j])").over(over);
  return tile;
}

// Rows of floats, `ld` apart, with what is between them poisoned.
struct Array {
  Array(int64_t rows, int64_t columns, int64_t ld)
      : rows(rows),
        columns(columns),
        ld(ld),
        values(size_t(std::max<int64_t>(1, rows * ld)), kPoison) {}
  void fill(std::mt19937_64& random) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) at(i, j) = float(int64_t(random() % 2001) - 1000) / 8;
    }
  }
  float& at(int64_t i, int64_t j) { return values[size_t(i * ld + j)]; }
  sk_tensor tensor() { return matrix(SK_F32, values.data(), rows, columns, ld); }
  bool gaps_are_whole() {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = columns; j < ld; ++j) {
        if (at(i, j) != kPoison) return false;
      }
    }
    return true;
  }

  static constexpr float kPoison = -4711;
  int64_t rows, columns, ld;
  std::vector<float> values;
};

uint64_t seed() {
  const char* given = std::getenv("SK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

// A communicator of one rank with so many workers.
void with_workers(int workers, const std::function<void(sk_context*, sk_comm*)>& body) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm_config config{};
  config.struct_size = sizeof config;
  config.bootstrap = SK_BOOTSTRAP_THREADS;
  config.world_size = 1;
  config.workers = workers;
  config.timeout_ms = 60'000;
  sk_comm* comm = nullptr;
  ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  body(context, comm);
  EXPECT_EQ(sk_comm_free(comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

TEST(OwnTiles, OverRowsAndBlocksComputeWhatTheFunctionDoes) {
  std::mt19937_64 random(seed());
  for (const int32_t over : {SK_TILE_OVER_ROWS, SK_TILE_OVER_BLOCKS, SK_TILE_OVER_ALL}) {
    for (const int workers : {1, 2, 3, 4}) {
      with_workers(workers, [&](sk_context* context, sk_comm* comm) {
        int32_t op = 0;
        ASSERT_EQ(sk_tile_register(context, saxpy_tile(over).get(), &op), SK_OK) << sk_last_error();
        EXPECT_GE(op, 1000);
        for (int round = 0; round < 30; ++round) {
          const bool large = round % 10 == 9;
          const int64_t m = int64_t(random() % (large ? 900 : 40)),
                        n = int64_t(random() % (large ? 700 : 40));
          Array x(m, n, n + int64_t(random() % 5)), y(m, n, n + int64_t(random() % 5));
          Array z(m, n, n + int64_t(random() % 5));
          x.fill(random), y.fill(random);
          const bool in_place = round % 3 == 0;
          const Array before = y;
          Array& out = in_place ? y : z;
          const double alpha = double(int64_t(random() % 100) - 50) / 4;
          const OwnArgs args({x.tensor(), y.tensor(), out.tensor()}, {alpha});
          for (int turn = 0; turn < 2; ++turn) {  // The second call is remembered.
            y.values = before.values;
            ASSERT_EQ(sk_call(comm, op, args.get(), nullptr), SK_OK) << sk_last_error();
            for (int64_t i = 0; i < m; ++i) {
              for (int64_t j = 0; j < n; ++j) {
                Array& was = const_cast<Array&>(before);
                ASSERT_EQ(out.at(i, j), float(alpha) * x.at(i, j) + was.at(i, j))
                    << m << " x " << n << " at " << i << ", " << j << ", over " << over;
              }
            }
            ASSERT_TRUE(out.gaps_are_whole());
          }
        }
      });
    }
  }
}

// Sums along rows and the rows divided by them: what is inside is not cut, whoever has the rows.
int32_t normed(void* const* data, const sk_tile_view* views, const sk_tile_value*, void*) {
  for (int64_t i = 0; i < views[0].rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < views[0].cols; ++j) sum += double(row(data[0], views[0], i)[j]);
    static_cast<float*>(data[2])[i] = float(sum);
    for (int64_t j = 0; j < views[0].cols; ++j) {
      row(data[1], views[1], i)[j] = float(double(row(data[0], views[0], i)[j]) / (sum + 1e6));
    }
  }
  return 1;
}

TEST(OwnTiles, HaveTheSameBitsWithAnyNumberOfWorkers) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 4; ++round) {
    const int64_t m = 500 + int64_t(random() % 300), n = 500 + int64_t(random() % 300);
    Array x(m, n, n + 3);
    x.fill(random);
    std::vector<std::pair<std::vector<float>, std::vector<float>>> results;
    for (const int workers : {1, 2, 3, 4}) {
      with_workers(workers, [&](sk_context* context, sk_comm* comm) {
        OwnTile tile("normed", normed);
        tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").writes("s", "x", "m");
        tile.does("y[i, j] = normed[j](x[i, j]); s[i] = rowsum[j](x[i, j])");
        int32_t op = 0;
        ASSERT_EQ(sk_tile_register(context, tile.get(), &op), SK_OK) << sk_last_error();
        Array y(m, n, n + 1), s(1, m, m);
        const OwnArgs args(
            {x.tensor(), y.tensor(), testing_support::vector(SK_F32, s.values.data(), m)});
        ASSERT_EQ(sk_call(comm, op, args.get(), nullptr), SK_OK) << sk_last_error();
        for (int64_t i = 0; i < m; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < n; ++j) sum += double(x.at(i, j));
          ASSERT_EQ(s.at(0, i), float(sum));
        }
        ASSERT_TRUE(y.gaps_are_whole());
        results.emplace_back(y.values, s.values);
      });
    }
    for (const auto& each : results) EXPECT_TRUE(each == results[0]);
  }
}

struct Witness {
  std::atomic<int> calls{0}, inside{0}, most{0};
  std::atomic<int64_t> fails_at{-1};  // The row whose tile fails.
  std::atomic<int> together{0};       // So many come to be inside at one time.
  std::atomic<bool> blocked{false}, entered{false};
  std::mutex mutex;
  std::set<std::thread::id> threads;
};

int32_t witnessed(void* const* data, const sk_tile_view* views, const sk_tile_value*, void* user) {
  auto& witness = *static_cast<Witness*>(user);
  const int now = ++witness.inside;
  for (int most = witness.most; most < now && !witness.most.compare_exchange_weak(most, now);) {
  }
  ++witness.calls;
  {
    const std::lock_guard lock(witness.mutex);
    witness.threads.insert(std::this_thread::get_id());
  }
  witness.entered = true;
  while (witness.blocked) std::this_thread::yield();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (witness.most < witness.together && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  for (int64_t i = 0; i < views[1].rows; ++i) {
    for (int64_t j = 0; j < views[1].cols; ++j)
      row(data[1], views[1], i)[j] = row(data[0], views[0], i)[j];
  }
  --witness.inside;
  const int64_t bad = witness.fails_at;
  return bad >= views[1].row && bad < views[1].row + views[1].rows ? 0 : 1;
}

OwnTile witnessed_tile(Witness& witness, const char* name = "witnessed") {
  OwnTile tile(name, witnessed);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = witnessed(x[i, j])");
  tile.desc.user = &witness;
  return tile;
}

// And nothing else: the next call of it and of all others goes on, on the same communicator.
TEST(OwnTiles, OneThatFailsFailsItsCall) {
  for (const int workers : {1, 4}) {
    with_workers(workers, [](sk_context* context, sk_comm* comm) {
      Witness witness;
      int32_t op = 0;
      ASSERT_EQ(sk_tile_register(context, witnessed_tile(witness).get(), &op), SK_OK);
      Array x(500, 400, 400), y(500, 400, 400);
      const OwnArgs args({x.tensor(), y.tensor()});
      for (int turn = 0; turn < 20; ++turn) {
        witness.fails_at = turn % 2 == 0 ? 7 + 20 * turn : -1;
        const sk_status status = sk_call(comm, op, args.get(), nullptr);
        if (turn % 2 == 0) {
          EXPECT_EQ(status, SK_ERR_TILE);
          EXPECT_THAT(sk_last_error(),
                      HasSubstr("tile witnessed failed in witnessed(f32, 500 x 400): its function "
                                "did not return 1, which is done, in the task witnessed"));
        } else {
          EXPECT_EQ(status, SK_OK) << sk_last_error();
          EXPECT_EQ(x.values, y.values);
        }
        float in = 3, out = 0;
        EXPECT_EQ(sk_allreduce(comm, &in, &out, 1, SK_F32, SK_SUM, nullptr), SK_OK)
            << sk_last_error();
      }
    });
  }
}

TEST(OwnTiles, RunOnAllWorkersOrOnOneAtATime) {
  with_workers(4, [](sk_context* context, sk_comm* comm) {
    Witness several, one;
    several.together = 4;  // Who is quick would run tasks of others' queues, too.
    int32_t op = 0, serial = 0;
    ASSERT_EQ(sk_tile_register(context, witnessed_tile(several).get(), &op), SK_OK);
    OwnTile alone = witnessed_tile(one, "alone");
    alone.desc.flags = SK_TILE_SERIAL;
    ASSERT_EQ(sk_tile_register(context, alone.get(), &serial), SK_OK);
    Array x(800, 800, 800), y(800, 800, 800);
    const OwnArgs args({x.tensor(), y.tensor()});
    for (int turn = 0; turn < 5; ++turn) {
      ASSERT_EQ(sk_call(comm, op, args.get(), nullptr), SK_OK) << sk_last_error();
      ASSERT_EQ(sk_call(comm, serial, args.get(), nullptr), SK_OK) << sk_last_error();
    }
    EXPECT_EQ(several.threads.size(), 4u);
    EXPECT_EQ(one.most, 1);
    EXPECT_GT(one.calls, 5);
  });
}

// Of several threads, on the context's own communicator: one call after another.
TEST(OwnTiles, AnyThreadMayCallThem) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* self = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  int32_t op = 0;
  ASSERT_EQ(sk_tile_register(context, saxpy_tile().get(), &op), SK_OK) << sk_last_error();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(seed() + uint64_t(thread));
      for (int turn = 0; turn < 50; ++turn) {
        int32_t other = 0;  // Of its own: registered and taken away beside the others' calls.
        Witness witness;
        const std::string name = "own_of_" + std::to_string(thread);
        ASSERT_EQ(sk_tile_register(context, witnessed_tile(witness, name.c_str()).get(), &other),
                  SK_OK)
            << sk_last_error();
        Array x(30, 20, 20), y(30, 20, 21), z(30, 20, 22);
        x.fill(random), y.fill(random);
        const OwnArgs args({x.tensor(), y.tensor(), z.tensor()}, {1.0});
        ASSERT_EQ(sk_call(self, op, args.get(), nullptr), SK_OK) << sk_last_error();
        EXPECT_EQ(z.at(29, 19), x.at(29, 19) + y.at(29, 19));
        const OwnArgs copy({x.tensor(), z.tensor()});
        ASSERT_EQ(sk_call(self, other, copy.get(), nullptr), SK_OK) << sk_last_error();
        EXPECT_EQ(z.at(29, 19), x.at(29, 19));
        EXPECT_EQ(sk_tile_unregister(context, other), SK_OK) << sk_last_error();
        EXPECT_EQ(sk_call(self, other, copy.get(), nullptr), SK_ERR_INVALID_ARGUMENT);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

// While a call is inside, a tile stays; the context's end waits for the call.
TEST(OwnTiles, ATileThatIsCalledStays) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* self = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  Witness witness;
  witness.blocked = true;
  int32_t op = 0;
  ASSERT_EQ(sk_tile_register(context, witnessed_tile(witness).get(), &op), SK_OK);
  Array x(4, 4, 4), y(4, 4, 4);
  std::thread caller([&] {
    const OwnArgs args({x.tensor(), y.tensor()});
    EXPECT_EQ(sk_call(self, op, args.get(), nullptr), SK_OK) << sk_last_error();
  });
  while (!witness.entered) std::this_thread::yield();
  EXPECT_EQ(sk_tile_unregister(context, op), SK_ERR_BUSY);
  EXPECT_THAT(sk_last_error(), HasSubstr("1 thread(s) are inside a call of tile witnessed"));
  std::thread end([&] { EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error(); });
  witness.blocked = false;
  caller.join();
  end.join();
  EXPECT_EQ(witness.calls, 1);
  EXPECT_EQ(x.values, y.values);
  int32_t late = 0;
  EXPECT_EQ(sk_tile_register(context, witnessed_tile(witness).get(), &late), SK_ERR_BAD_HANDLE);
  const OwnArgs args({x.tensor(), y.tensor()});
  EXPECT_EQ(sk_call(self, op, args.get(), nullptr), SK_ERR_BAD_HANDLE);
}

TEST(OwnTiles, TakeAnothersPlaceOnceTheyAreRight) {
  with_workers(1, [](sk_context* context, sk_comm* comm) {
    Witness old, young;
    int32_t first = 0, second = 0;
    ASSERT_EQ(sk_tile_register(context, witnessed_tile(old).get(), &first), SK_OK);
    Array x(4, 4, 4), y(4, 4, 4);
    const OwnArgs args({x.tensor(), y.tensor()});
    OwnTile next = witnessed_tile(young);
    next.get();
    EXPECT_EQ(sk_tile_register(context, &next.desc, &second), SK_ERR_INVALID_ARGUMENT);
    next.desc.flags = SK_TILE_REPLACE;
    next.desc.effect = "y[i, j] = x[i + 1, j]";
    EXPECT_EQ(sk_tile_register(context, &next.desc, &second), SK_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(sk_call(comm, first, args.get(), nullptr), SK_OK) << sk_last_error();
    old.blocked = true;
    old.entered = false;
    next = witnessed_tile(young);
    next.get();
    next.desc.flags = SK_TILE_REPLACE;
    std::thread caller(
        [&] { EXPECT_EQ(sk_call(comm, first, args.get(), nullptr), SK_OK) << sk_last_error(); });
    while (!old.entered) std::this_thread::yield();
    EXPECT_EQ(sk_tile_register(context, &next.desc, &second), SK_ERR_BUSY);
    old.blocked = false;
    caller.join();
    ASSERT_EQ(sk_tile_register(context, &next.desc, &second), SK_OK) << sk_last_error();
    EXPECT_NE(first, second);
    EXPECT_EQ(sk_call(comm, first, args.get(), nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(sk_call(comm, second, args.get(), nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(young.calls, 1);
    int32_t again = 0;  // Alike in all: nothing is replaced.
    ASSERT_EQ(sk_tile_register(context, &next.desc, &again), SK_OK);
    EXPECT_EQ(again, second);
  });
}

int32_t asked(void* user) { return --*static_cast<std::atomic<int>*>(user) == 0; }
int32_t throws(void*) { throw std::runtime_error("asked"); }

// Another thread's call goes on for ever, as far as this one can tell.
TEST(OwnTiles, AnInterruptionEndsTheWaitForATurn) {
  for (const bool by_exception : {false, true}) {
    sk_context* context = nullptr;
    ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
    std::atomic<int> left{3};
    const sk_interrupted_fn function = by_exception ? throws : asked;
    ASSERT_EQ(sk_context_set_interrupted(context, function, &left), SK_OK) << sk_last_error();
    sk_comm* self = nullptr;
    ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_context_set_interrupted(context, nullptr, nullptr), SK_ERR_BUSY);
    Witness witness;
    witness.blocked = true;
    int32_t op = 0, other = 0;
    ASSERT_EQ(sk_tile_register(context, witnessed_tile(witness).get(), &op), SK_OK);
    ASSERT_EQ(sk_tile_register(context, saxpy_tile().get(), &other), SK_OK);
    Array x(4, 4, 4), y(4, 4, 4), z(4, 4, 4);
    const OwnArgs args({x.tensor(), y.tensor()});
    const OwnArgs three({x.tensor(), y.tensor(), z.tensor()}, {1.0});
    std::thread caller(
        [&] { EXPECT_EQ(sk_call(self, op, args.get(), nullptr), SK_OK) << sk_last_error(); });
    while (!witness.entered) std::this_thread::yield();
    EXPECT_EQ(sk_call(self, other, three.get(), nullptr), SK_ERR_ABORTED);
    EXPECT_THAT(sk_last_error(), HasSubstr("interrupted while another thread's call on this comm"));
    EXPECT_EQ(left, by_exception ? 3 : 0);
    witness.blocked = false;
    caller.join();
    EXPECT_EQ(sk_call(self, other, three.get(), nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
  }
}

int32_t for_ever(void* const*, const sk_tile_view*, const sk_tile_value*, void*) {
  for (;;) pause();
}

TEST(OwnTiles, AnInterruptionEndsACheck) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::atomic<int> left{2};
  ASSERT_EQ(sk_context_set_interrupted(context, asked, &left), SK_OK) << sk_last_error();
  OwnTile tile("endless", for_ever);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = f(x[i, j])");
  int32_t op = 0;
  ASSERT_EQ(sk_tile_register(context, tile.get(), &op), SK_OK) << sk_last_error();
  Array x(4, 4, 4), y(4, 4, 4);
  const OwnArgs args({x.tensor(), y.tensor()});
  EXPECT_EQ(sk_tile_check(context, op, args.get(), nullptr), SK_ERR_ABORTED);
  EXPECT_THAT(sk_last_error(), HasSubstr("tile endless in endless(f32, 4 x 4): interrupted"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // No child is left.
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

TEST(OwnTiles, AreKeptReady) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* self = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  Witness witness;
  int32_t number = 0;
  ASSERT_EQ(sk_tile_register(context, witnessed_tile(witness).get(), &number), SK_OK);
  Array x(50, 40, 40), y(50, 40, 40), z(50, 40, 40);
  const OwnArgs args({x.tensor(), y.tensor()}), other({x.tensor(), z.tensor()});
  sk_op* op = nullptr;
  ASSERT_EQ(sk_op_create(self, number, args.get(), &op), SK_OK) << sk_last_error();
  EXPECT_EQ(witness.calls, 0);
  for (int turn = 0; turn < 4; ++turn) {
    const Array before = y;
    ASSERT_EQ(sk_op_run(op, turn == 2 ? other.get() : nullptr, nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(x.values, turn < 2 ? y.values : z.values);
    EXPECT_EQ(y.values, turn < 2 ? x.values : before.values);
  }
  witness.fails_at = witness.calls;
  EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_ERR_TILE) << sk_last_error();
  witness.fails_at = -1;
  EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_OK) << sk_last_error();
  // A handle keeps no tile from being taken away, and calls none that was.
  EXPECT_EQ(sk_tile_unregister(context, number), SK_OK) << sk_last_error();
  const int calls = witness.calls;
  EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("1000"));
  EXPECT_EQ(witness.calls, calls);
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_op_run(op, nullptr, nullptr), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(sk_op_free(op), SK_OK);
}

TEST(OwnTiles, AreTracedByTheirNames) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* self = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  Witness witness;
  int32_t op = 0;
  ASSERT_EQ(sk_tile_register(context, witnessed_tile(witness).get(), &op), SK_OK);
  Array x(40, 4, 4), y(40, 4, 4);
  const OwnArgs args({x.tensor(), y.tensor()});
  ASSERT_EQ(sk_trace_start(self, 0), SK_OK);
  ASSERT_EQ(sk_call(self, op, args.get(), nullptr), SK_OK) << sk_last_error();
  ASSERT_EQ(sk_trace_stop(self), SK_OK);
  ASSERT_EQ(sk_tile_unregister(context, op), SK_OK);  // Its record stays.
  size_t size = 0;
  ASSERT_EQ(sk_trace_dump(self, nullptr, 0, &size), SK_OK);
  std::string text(size + 1, '\0');
  ASSERT_EQ(sk_trace_dump(self, text.data(), text.size(), &size), SK_OK);
  EXPECT_THAT(text, HasSubstr(R"("name":"witnessed")"));
  EXPECT_THAT(text, HasSubstr("\"call\":\"witnessed(f32, 40 x 4)\""));
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

TEST(OwnTiles, WhatIsWrongIsSaid) {
  with_workers(1, [](sk_context* context, sk_comm* comm) {
    int32_t op = -7;
    const auto refusal = [&](auto&& change) {
      OwnTile tile = saxpy_tile();
      tile.get();
      change(tile.desc, tile);
      EXPECT_EQ(sk_tile_register(context, &tile.desc, &op), SK_ERR_INVALID_ARGUMENT);
      EXPECT_EQ(op, -7);
      return std::string(sk_last_error());
    };
    using D = sk_tile_desc&;
    using T = OwnTile&;
    EXPECT_THAT(refusal([](D d, T) { d.struct_size = 3; }),
                HasSubstr("sk_tile_desc: struct_size is 3"));
    EXPECT_THAT(refusal([](D d, T) { d.version = 0; }), HasSubstr("version is 0, allowed are 1"));
    EXPECT_THAT(refusal([](D d, T) { d.version = 70'000; }), HasSubstr("version is 70000"));
    EXPECT_THAT(refusal([](D d, T) { d.name = nullptr; }),
                HasSubstr("name is \"\", it must be made"));
    EXPECT_THAT(refusal([](D d, T) { d.over = 4; }),
                HasSubstr("over is 4, it must be one of enum"));
    EXPECT_THAT(refusal([](D d, T) { d.flags = 4; }), HasSubstr("flags is 4, allowed are 0, "));
    EXPECT_THAT(refusal([](D d, T) { d.function = nullptr; }),
                HasSubstr("saxpy: function is null"));
    EXPECT_THAT(refusal([](D d, T) { d.regions = nullptr; }),
                HasSubstr("regions is null, and region_"));
    EXPECT_THAT(refusal([](D d, T) { d.region_count = 17; }),
                HasSubstr("region_count is 17, there may be 6 regions at most"));
    EXPECT_THAT(refusal([](D d, T) { d.parameter_count = 99; }),
                HasSubstr("parameter_count is 99"));
    EXPECT_THAT(refusal([](D, T t) { t.region_list[1] = nullptr; }),
                HasSubstr("regions[1] is null"));
    EXPECT_THAT(
        refusal([](D, T t) { t.regions[1].role = 3; }),
        HasSubstr("regions[1].role is 3, it must be SK_TILE_READ (1) or SK_TILE_WRITE (2)"));
    EXPECT_THAT(refusal([](D, T t) { t.parameters[0].kind = 0; }),
                HasSubstr("parameters[0].kind is 0"));
    EXPECT_THAT(refusal([](D, T t) { t.regions[0].name = "a b"; }),
                HasSubstr("region 0 is \"a b\""));
    const std::string endless(5000, 'x');
    EXPECT_THAT(refusal([&](D d, T) { d.effect = endless.c_str(); }),
                HasSubstr("effect has 4096 char"));
    EXPECT_EQ(sk_tile_register(context, nullptr, &op), SK_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(sk_tile_register(context, saxpy_tile().get(), nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(sk_tile_register(nullptr, saxpy_tile().get(), &op), SK_ERR_BAD_HANDLE);

    ASSERT_EQ(sk_tile_register(context, saxpy_tile().get(), &op), SK_OK);
    Array x(4, 3, 3), y(4, 3, 3), z(4, 3, 3);
    const auto called = [&](const std::vector<sk_tensor>& tensors, double alpha) {
      const OwnArgs args(tensors, {alpha});
      const std::vector<float> before = z.values;
      EXPECT_EQ(sk_call(comm, op, args.get(), nullptr), SK_ERR_INVALID_ARGUMENT);
      EXPECT_EQ(z.values, before);
      return std::string(sk_last_error());
    };
    Array w(5, 3, 3);
    sk_tensor doubles = x.tensor();
    doubles.dtype = SK_I32;
    EXPECT_THAT(called({x.tensor(), w.tensor(), z.tensor()}, 1),
                HasSubstr("y has shape [5, 3], it must be [4, 3] (m, n)"));
    EXPECT_THAT(called({doubles, y.tensor(), z.tensor()}, 1),
                HasSubstr("x is i32, it must be f32"));
    EXPECT_THAT(called({x.tensor(), y.tensor(), z.tensor()}, 101),
                HasSubstr("alpha is 101, allowed are -100 to 100"));
    EXPECT_THAT(called({x.tensor(), y.tensor(), x.tensor()}, 1), HasSubstr("overlap"));
    EXPECT_THAT(called({x.tensor(), y.tensor(), z.tensor()}, std::nan("")),
                HasSubstr("alpha is nan"));
    EXPECT_EQ(sk_call(comm, op + 1, nullptr, nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(),
                HasSubstr("which is no tile of this context: there are 1000 saxpy"));
    EXPECT_EQ(sk_call(comm, op, nullptr, nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(), HasSubstr("args is null"));
  });
}

}  // namespace
}  // namespace sk::testing_ops
