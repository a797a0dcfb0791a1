// What sk/tile.h says of how a user's function is called, where that is easily broken.
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/support/own_tiles.h"

namespace sk {
namespace {

using testing_support::matrix;
using testing_support::OwnArgs;
using testing_support::OwnTile;
using testing_support::vector;

class OwnTilePromises : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sk_init(nullptr, &context_), SK_OK);
    ASSERT_EQ(sk_comm_self(context_, &self_), SK_OK) << sk_last_error();
  }
  void TearDown() override { EXPECT_EQ(sk_finalize(context_), SK_OK) << sk_last_error(); }
  int32_t add(OwnTile& tile) {
    int32_t op = 0;
    EXPECT_EQ(sk_tile_register(context_, tile.get(), &op), SK_OK) << sk_last_error();
    return op;
  }
  sk_comm* alone() {
    sk_comm_config config{};
    config.struct_size = sizeof config;
    config.bootstrap = SK_BOOTSTRAP_THREADS;
    config.world_size = 1;
    sk_comm* comm = nullptr;
    EXPECT_EQ(sk_comm_create(context_, &config, &comm), SK_OK) << sk_last_error();
    return comm;
  }

  sk_context* context_ = nullptr;
  sk_comm* self_ = nullptr;
};

OwnTile rowwise(const char* name, sk_tile_fn function) {
  OwnTile tile(name, function);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = f[j](x[i, j])");
  return tile;
}

struct Seen {
  std::atomic<int> inside{0}, most{0}, calls{0};
  std::atomic<int64_t> least{INT64_MAX};
};

template <typename T>
void raise_to(std::atomic<T>& value, T to) {
  T is = value.load();
  while (is < to && !value.compare_exchange_weak(is, to)) {
  }
}

int32_t look(void* const*, const sk_tile_view* views, const sk_tile_value*, void* user) {
  auto& seen = *static_cast<Seen*>(user);
  raise_to(seen.most, ++seen.inside);
  ++seen.calls;
  int64_t least = seen.least.load();
  while (views[0].rows < least && !seen.least.compare_exchange_weak(least, views[0].rows)) {
  }
  std::this_thread::yield();
  --seen.inside;
  return 1;
}

TEST_F(OwnTilePromises, ASerialFunctionIsCalledOnceAtATimeOnAllCommunicators) {
  Seen seen;
  OwnTile tile = rowwise("serial", look);
  tile.desc.user = &seen;
  tile.desc.flags = SK_TILE_SERIAL;
  const int32_t op = add(tile);
  sk_comm* const comm = alone();
  std::vector<std::thread> threads;
  for (sk_comm* const each : {self_, comm}) {
    threads.emplace_back([=] {
      std::vector<float> x(400), y(400);
      const OwnArgs args(
          {matrix(SK_F32, x.data(), 20, 20, 20), matrix(SK_F32, y.data(), 20, 20, 20)});
      for (int i = 0; i < 3000; ++i) {
        ASSERT_EQ(sk_call(each, op, args.get(), nullptr), SK_OK) << sk_last_error();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen.calls, 6000);
  EXPECT_EQ(seen.most, 1);
  EXPECT_EQ(sk_comm_free(comm), SK_OK);
}

TEST_F(OwnTilePromises, ACallHasTheRowsThatItWasPromised) {
  Seen seen;
  OwnTile tile = rowwise("many", look);
  tile.desc.user = &seen;
  tile.desc.tile_rows = 64;
  const int32_t op = add(tile);
  std::vector<float> x(700 * 2048), y(700 * 2048);
  for (const int64_t rows : {1, 63, 64, 100, 127, 130, 200, 700}) {
    seen.least = INT64_MAX;
    const OwnArgs args(
        {matrix(SK_F32, x.data(), rows, 2048, 2048), matrix(SK_F32, y.data(), rows, 2048, 2048)});
    ASSERT_EQ(sk_call(self_, op, args.get(), nullptr), SK_OK) << sk_last_error();
    EXPECT_GE(seen.least, std::min<int64_t>(rows, 64)) << rows << " rows";
  }
}

int32_t sums(void* const* data, const sk_tile_view* views, const sk_tile_value*, void*) {
  for (int64_t i = 0; i < views[0].rows; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < views[0].cols; ++j)
      sum += static_cast<float*>(data[0])[i * views[0].stride + j];
    static_cast<float*>(data[1])[i] = sum;
  }
  return 1;
}

TEST_F(OwnTilePromises, AMatrixWithoutColumnsHasItsRows) {
  OwnTile tile("row_sum", sums);
  tile.reads("x", "f32", "m, n").writes("s", "x", "m").does("s[i] = sum(j uncut) x[i, j]");
  const int32_t op = add(tile);
  float nothing = 0;
  std::vector<float> sum(5, 77);
  const OwnArgs args({matrix(SK_F32, &nothing, 5, 0, 0), vector(SK_F32, sum.data(), 5)});
  ASSERT_EQ(sk_call(self_, op, args.get(), nullptr), SK_OK) << sk_last_error();
  for (const float each : sum) EXPECT_EQ(each, 0.0F);
}

TEST_F(OwnTilePromises, OfResultsWithoutElementsNothingIsAsked) {
  Seen seen;
  OwnTile tile = rowwise("empty", look);
  tile.desc.user = &seen;
  const int32_t op = add(tile);
  float nothing = 0;
  const OwnArgs args({matrix(SK_F32, &nothing, int64_t{1} << 40, 0, 0),
                      matrix(SK_F32, &nothing, int64_t{1} << 40, 0, 0)});
  const sk_status status = sk_call(self_, op, args.get(), nullptr);
  EXPECT_TRUE(status == SK_OK || status == SK_ERR_INVALID_ARGUMENT) << sk_last_error();
  EXPECT_EQ(seen.calls, 0);
}

int32_t rounds_up(void* const*, const sk_tile_view*, const sk_tile_value*, void*) {
  return std::fesetround(FE_UPWARD) == 0 ? 1 : 0;
}

TEST_F(OwnTilePromises, AModeOfFloatingPointDoesNotOutliveTheFunction) {
  OwnTile tile = rowwise("rounds_up", rounds_up);
  const int32_t op = add(tile);
  constexpr int64_t kRows = 1024, kColumns = 256;  // Both workers have some.
  std::vector<float> x(kRows * kColumns, 3.0F), y(x.size()), weight(kColumns, 0.1F);
  sk_tensor in = matrix(SK_F32, x.data(), kRows, kColumns, kColumns);
  sk_tensor out = matrix(SK_F32, y.data(), kRows, kColumns, kColumns);
  sk_tensor scale = vector(SK_F32, weight.data(), kColumns);
  sk_rmsnorm_args norm{};
  norm.struct_size = sizeof norm;
  norm.x = &in;
  norm.y = &out;
  norm.weight = &scale;
  norm.eps = 1e-5;
  ASSERT_EQ(sk_rmsnorm(self_, &norm, nullptr), SK_OK) << sk_last_error();
  const std::vector<float> before = y;
  const OwnArgs args({in, out});
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(sk_call(self_, op, args.get(), nullptr), SK_OK) << sk_last_error();
  }
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  ASSERT_EQ(sk_rmsnorm(self_, &norm, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(std::memcmp(before.data(), y.data(), y.size() * sizeof(float)), 0);
}

int32_t copies(void* const* data, const sk_tile_view* views, const sk_tile_value*, void*) {
  for (int64_t i = 0; i < views[0].rows; ++i) {
    std::memcpy(static_cast<float*>(data[1]) + i * views[1].stride,
                static_cast<float*>(data[0]) + i * views[0].stride,
                size_t(views[0].cols) * sizeof(float));
  }
  return 1;
}

TEST_F(OwnTilePromises, ACheckNeedsNobodyToLeaveItsChildAlone) {
  OwnTile tile = rowwise("copies", copies);
  const int32_t op = add(tile);
  std::vector<float> x(12, 1), y(12);
  const OwnArgs args({matrix(SK_F32, x.data(), 3, 4, 4), matrix(SK_F32, y.data(), 3, 4, 4)});
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(sk_tile_check(context_, op, args.get(), nullptr), SK_OK) << sk_last_error();
  std::signal(SIGCHLD, before);
}

// Of many small tiles, which would be gigabytes of plan.
TEST_F(OwnTilePromises, ACheckOfALargeArrayTakesFewTiles) {
  OwnTile tile("blocks", copies);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = f(x[i, j])");
  tile.over(SK_TILE_OVER_BLOCKS);
  const int32_t op = add(tile);
  std::vector<float> x(2048 * 2048, 1), y(x.size());
  const OwnArgs args(
      {matrix(SK_F32, x.data(), 2048, 2048, 2048), matrix(SK_F32, y.data(), 2048, 2048, 2048)});
  EXPECT_EQ(sk_tile_check(context_, op, args.get(), nullptr), SK_OK) << sk_last_error();
}

TEST_F(OwnTilePromises, NobodyAbortsWhatAProcessDoesAlone) {
  EXPECT_EQ(sk_comm_abort(self_, "oops"), SK_ERR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sk_last_error()).find("of sk_comm_self()"), std::string::npos);
  OwnTile tile = rowwise("copies", copies);
  const int32_t op = add(tile);
  std::vector<float> x(12, 1), y(12);
  const OwnArgs args({matrix(SK_F32, x.data(), 3, 4, 4), matrix(SK_F32, y.data(), 3, 4, 4)});
  EXPECT_EQ(sk_call(self_, op, args.get(), nullptr), SK_OK) << sk_last_error();
}

// A communicator, or an operation's handle, is not freed inside a call that is its own; whatever
// else is not in use is, at once: what ends objects by itself, as a collector does, may come
// anywhere.
struct Frees {
  sk_comm* comm = nullptr;
  sk_op* op = nullptr;
  sk_status comm_status = SK_OK, op_status = SK_OK;
  sk_comm* other = nullptr;  // Nobody is inside of these.
  sk_op* others_op = nullptr;
  sk_plan* plan = nullptr;
  sk_packed* packed = nullptr;
  sk_status others_op_status = SK_OK, plan_status = SK_OK, packed_status = SK_OK,
            other_status = SK_OK;
};

int32_t frees(void* const*, const sk_tile_view*, const sk_tile_value*, void* user) {
  auto& it = *static_cast<Frees*>(user);
  it.comm_status = sk_comm_free(it.comm);
  it.op_status = sk_op_free(it.op);
  if (it.other == nullptr) return 1;
  it.others_op_status = sk_op_free(it.others_op);
  it.plan_status = sk_plan_free(it.plan);
  it.packed_status = sk_packed_free(it.packed);
  it.other_status = sk_comm_free(it.other);
  return 1;
}

TEST_F(OwnTilePromises, WhatIsNotInUseIsFreedFromInsideATile) {
  Frees it;
  it.comm = alone();
  it.other = alone();
  OwnTile tile = rowwise("frees", frees);
  tile.desc.user = &it;
  tile.over(SK_TILE_OVER_ALL);
  const int32_t op = add(tile);
  std::vector<float> x(12, 1), y(12), b(16, 1);
  const OwnArgs args({matrix(SK_F32, x.data(), 3, 4, 4), matrix(SK_F32, y.data(), 3, 4, 4)});
  ASSERT_EQ(sk_op_create(it.comm, op, args.get(), &it.op), SK_OK) << sk_last_error();
  ASSERT_EQ(sk_op_create(it.other, op, args.get(), &it.others_op), SK_OK) << sk_last_error();
  sk_plan_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = SK_OP_BARRIER;
  ASSERT_EQ(sk_plan_create(it.other, &desc, &it.plan), SK_OK) << sk_last_error();
  const sk_tensor weights = matrix(SK_F32, b.data(), 4, 4, 4);
  ASSERT_EQ(sk_pack(it.other, &weights, 0, &it.packed), SK_OK) << sk_last_error();
  it.others_op_status = it.plan_status = it.packed_status = it.other_status = SK_ERR_INTERNAL;
  EXPECT_EQ(sk_call(it.comm, op, args.get(), nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(it.comm_status, SK_ERR_BUSY);
  EXPECT_EQ(it.op_status, SK_OK);  // It is another call that is not over.
  EXPECT_EQ(it.others_op_status, SK_OK);
  EXPECT_EQ(it.plan_status, SK_OK);
  EXPECT_EQ(it.packed_status, SK_OK);
  EXPECT_EQ(it.other_status, SK_OK);
  EXPECT_EQ(sk_packed_free(it.packed), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(sk_comm_free(it.comm), SK_OK) << sk_last_error();
}

TEST_F(OwnTilePromises, WhatATileIsInsideOfIsNotFreedFromThere) {
  Frees it;
  it.comm = alone();
  OwnTile tile = rowwise("frees", frees);
  tile.desc.user = &it;
  tile.over(SK_TILE_OVER_ALL);
  const int32_t op = add(tile);
  std::vector<float> x(12, 1), y(12);
  const OwnArgs args({matrix(SK_F32, x.data(), 3, 4, 4), matrix(SK_F32, y.data(), 3, 4, 4)});
  ASSERT_EQ(sk_op_create(it.comm, op, args.get(), &it.op), SK_OK) << sk_last_error();
  it.comm_status = it.op_status = SK_OK;
  EXPECT_EQ(sk_op_run(it.op, nullptr, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(it.comm_status, SK_ERR_BUSY);
  EXPECT_EQ(it.op_status, SK_ERR_BUSY);
  EXPECT_EQ(sk_op_free(it.op), SK_OK);
  EXPECT_EQ(sk_comm_free(it.comm), SK_OK) << sk_last_error();
}

}  // namespace
}  // namespace sk
