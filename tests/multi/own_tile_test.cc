// Tiles of the user's own through sk_call(): what they compute, with any number of workers, and
// what becomes of calls that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <set>
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

}  // namespace
}  // namespace sk::testing_ops
