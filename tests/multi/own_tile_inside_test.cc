// Functions of users' tiles that call libsk, which they may not: refused where the call would wait
// for the one that they are inside of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "sk.h"
#include "tests/support/own_tiles.h"
#include "tests/support/until.h"

namespace sk {
namespace {

using testing::HasSubstr;
using testing_support::matrix;
using testing_support::OwnArgs;
using testing_support::OwnTile;

// What the function calls, and what became of it.
struct Inner {
  sk_comm* comm = nullptr;
  sk_context* ends = nullptr;
  int32_t op = 0;
  const void* args = nullptr;
  sk_status status = SK_OK;
  std::string sentence = {};
};

int32_t calling(void* const*, const sk_tile_view*, const sk_tile_value*, void* user) {
  auto& inner = *static_cast<Inner*>(user);
  inner.status = inner.ends != nullptr ? sk_finalize(inner.ends)
                                       : sk_call(inner.comm, inner.op, inner.args, nullptr);
  inner.sentence = sk_last_error();
  return 1;
}

int32_t fill(void* const* data, const sk_tile_view* views, const sk_tile_value*, void*) {
  for (int64_t i = 0; i < views[1].rows; ++i) {
    for (int64_t j = 0; j < views[1].cols; ++j)
      static_cast<float*>(data[1])[i * views[1].stride + j] = 5;
  }
  return 1;
}

OwnTile tile(const char* name, sk_tile_fn function) {
  OwnTile tile(name, function);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = f[j](x[i, j])");
  return tile;
}

TEST(InsideATile, NoCallWaitsForTheOneThatItIsInsideOf) {
  sk_context *context = nullptr, *other = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  ASSERT_EQ(sk_init(nullptr, &other), SK_OK);
  sk_comm *self = nullptr, *others = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  ASSERT_EQ(sk_comm_self(other, &others), SK_OK) << sk_last_error();
  Inner inner;
  OwnTile outer = tile("outer", calling);
  outer.desc.user = &inner;
  outer.over(SK_TILE_OVER_ALL);
  int32_t op = 0, filled = 0, elsewhere = 0;
  ASSERT_EQ(sk_tile_register(context, outer.get(), &op), SK_OK) << sk_last_error();
  ASSERT_EQ(sk_tile_register(context, tile("fill", fill).get(), &filled), SK_OK);
  ASSERT_EQ(sk_tile_register(other, tile("fill", fill).get(), &elsewhere), SK_OK);
  std::vector<float> x(12), y(12), z(12);
  const OwnArgs args({matrix(SK_F32, x.data(), 3, 4, 4), matrix(SK_F32, y.data(), 3, 4, 4)});
  const OwnArgs more({matrix(SK_F32, x.data(), 3, 4, 4), matrix(SK_F32, z.data(), 3, 4, 4)});

  for (const int32_t called : {op, filled}) {
    inner = {.comm = self, .op = called, .args = more.get()};
    EXPECT_EQ(sk_call(self, op, args.get(), nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(inner.status, SK_ERR_BUSY);
    EXPECT_THAT(inner.sentence, HasSubstr("called from inside a tile"));
  }
  inner = {.ends = context};
  EXPECT_EQ(sk_call(self, op, args.get(), nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(inner.status, SK_ERR_BUSY);

  inner = {.comm = others, .op = elsewhere, .args = more.get()};  // Which nobody is inside of.
  EXPECT_EQ(sk_call(self, op, args.get(), nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(inner.status, SK_OK) << inner.sentence;
  EXPECT_EQ(z, std::vector<float>(12, 5));
  EXPECT_EQ(sk_call(self, filled, args.get(), nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(y, std::vector<float>(12, 5));
  EXPECT_EQ(sk_finalize(other), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

// Lanes of a context beside each other.
struct Lanes {
  Lanes() {
    EXPECT_EQ(sk_init(nullptr, &context), SK_OK);
    EXPECT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
    for (sk_comm*& each : alone) {
      sk_comm_config config{};
      config.struct_size = sizeof config;
      config.bootstrap = SK_BOOTSTRAP_THREADS;
      config.world_size = 1;
      config.workers = 2;
      EXPECT_EQ(sk_comm_create(context, &config, &each), SK_OK) << sk_last_error();
    }
  }
  ~Lanes() {
    for (sk_comm* each : alone) EXPECT_EQ(sk_comm_free(each), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
  }
  int32_t add(const char* name, sk_tile_fn function, void* user) const {
    OwnTile serial = tile(name, function);
    serial.desc.user = user;
    serial.desc.flags = SK_TILE_SERIAL;
    serial.over(SK_TILE_OVER_ALL);
    int32_t op = 0;
    EXPECT_EQ(sk_tile_register(context, serial.get(), &op), SK_OK) << sk_last_error();
    return op;
  }

  sk_context* context = nullptr;
  sk_comm* self = nullptr;
  sk_comm* alone[3] = {};
};

struct Arrays {
  std::vector<float> x = std::vector<float>(12, 1), y = std::vector<float>(12);
  OwnArgs args{{matrix(SK_F32, x.data(), 3, 4, 4), matrix(SK_F32, y.data(), 3, 4, 4)}};
};

TEST(InsideATile, ASerialOneDoesNotWaitForItself) {
  const Lanes lanes;
  Inner inner;
  const int32_t op = lanes.add("again", calling, &inner);
  const Arrays outer, nested;
  inner = {.comm = lanes.alone[0], .op = op, .args = nested.args.get()};
  EXPECT_EQ(sk_call(lanes.self, op, outer.args.get(), nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(inner.status, SK_ERR_BUSY);
  EXPECT_THAT(inner.sentence, HasSubstr("called from inside"));
  EXPECT_THAT(inner.sentence, HasSubstr("tile again, which is serial"));
  inner.comm = lanes.self;
  EXPECT_EQ(sk_call(lanes.alone[0], op, outer.args.get(), nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(inner.status, SK_ERR_BUSY);
}

// One of two threads, each inside a serial tile that calls the other's.
struct Crossing {
  Inner inner;
  std::atomic<int>* inside;
};
int32_t cross(void* const*, const sk_tile_view*, const sk_tile_value*, void* user) {
  auto& it = *static_cast<Crossing*>(user);
  if (it.inside->fetch_add(1) >= 2) return 1;  // By the other's.
  EXPECT_TRUE(testing_support::until([&] { return it.inside->load() >= 2; }));
  it.inner.status = sk_call(it.inner.comm, it.inner.op, it.inner.args, nullptr);
  it.inner.sentence = sk_last_error();
  return 1;
}

TEST(InsideATile, TwoSerialOnesDoNotWaitForEachOther) {
  const Lanes lanes;
  std::atomic<int> inside{0};
  Crossing one{{}, &inside}, two{{}, &inside};
  const int32_t first = lanes.add("first", cross, &one);
  const int32_t second = lanes.add("second", cross, &two);
  const Arrays all[4];
  one.inner = {.comm = lanes.alone[1], .op = second, .args = all[2].args.get()};
  two.inner = {.comm = lanes.alone[2], .op = first, .args = all[3].args.get()};
  std::thread other([&] {
    EXPECT_EQ(sk_call(lanes.alone[0], second, all[1].args.get(), nullptr), SK_OK)
        << sk_last_error();
  });
  EXPECT_EQ(sk_call(lanes.self, first, all[0].args.get(), nullptr), SK_OK) << sk_last_error();
  other.join();
  // Whoever asks first finds the other inside.
  EXPECT_TRUE(one.inner.status == SK_ERR_BUSY || two.inner.status == SK_ERR_BUSY)
      << one.inner.status << ' ' << two.inner.status;
}

}  // namespace
}  // namespace sk
