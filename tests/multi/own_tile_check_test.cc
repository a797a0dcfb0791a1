// sk_tile_check(): each way in which a function may do something else than its description says is
// found, and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "sk.h"
#include "tests/support/own_tiles.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;
using testing_support::matrix;
using testing_support::OwnArgs;
using testing_support::OwnTile;

float& at(void* const* data, const sk_tile_view* views, int region, int64_t i, int64_t j) {
  return static_cast<float*>(data[region])[i * views[region].stride + j];
}

// That nobody may touch.
volatile char* memory_of_nobody() {
  static void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<volatile char*>(page);
}

// What is right, and one thing more.
template <typename More>
int32_t doubled(void* const* data, const sk_tile_view* views, const More& more) {
  for (int64_t i = 0; i < views[1].rows; ++i) {
    for (int64_t j = 0; j < views[1].cols; ++j)
      at(data, views, 1, i, j) = 2 * at(data, views, 0, i, j);
  }
  return more() ? 1 : 0;
}

class TileCheck : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sk_init(nullptr, &context_), SK_OK); }
  void TearDown() override { EXPECT_EQ(sk_finalize(context_), SK_OK) << sk_last_error(); }

  // 11 rows of 5, 7 apart.
  sk_status check(sk_tile_fn function, const char* in_place = nullptr,
                  int32_t over = SK_TILE_OVER_ROWS, int64_t timeout_ms = 20'000,
                  const char* effect = "y[i, j] = doubled(x[i, j])") {
    OwnTile tile("doubled", function);
    tile.reads("x", "f32", "m, n").writes("y", "x", "m, n", in_place).does(effect).over(over);
    int32_t op = 0;
    EXPECT_EQ(sk_tile_register(context_, tile.get(), &op), SK_OK) << sk_last_error();
    std::vector<float> x(77), y(77, -1);
    for (size_t i = 0; i < x.size(); ++i) x[i] = float(i);
    const std::vector<float> x_before = x, y_before = y;
    const OwnArgs args({matrix(SK_F32, x.data(), 11, 5, 7),
                        matrix(SK_F32, in_place != nullptr ? x.data() : y.data(), 11, 5, 7)});
    sk_run_options options{};
    options.struct_size = sizeof options;
    options.timeout_ms = timeout_ms;
    const sk_status status = sk_tile_check(context_, op, args.get(), &options);
    EXPECT_EQ(x, x_before);
    EXPECT_EQ(y, y_before);
    const std::string sentence = sk_last_error();
    EXPECT_EQ(sk_tile_unregister(context_, op), SK_OK);
    sentence_ = status == SK_OK ? "" : sentence;
    return status;
  }

  sk_context* context_ = nullptr;
  std::string sentence_;
};

int32_t right(void* const* data, const sk_tile_view* views, const sk_tile_value*, void*) {
  return doubled(data, views, [] { return true; });
}

TEST_F(TileCheck, LetsPassWhatIsRight) {
  for (const int32_t over : {SK_TILE_OVER_ROWS, SK_TILE_OVER_BLOCKS, SK_TILE_OVER_ALL}) {
    EXPECT_EQ(check(right, nullptr, over), SK_OK) << sentence_;
    EXPECT_EQ(check(right, "x", over), SK_OK) << sentence_;
  }
}

struct Mistake {
  const char* name;
  sk_tile_fn function;
  const char* sentence;
};

#define SK_PLANT(what)                                                                   \
  [](void* const* data, const sk_tile_view* v, const sk_tile_value*, void*) -> int32_t { \
    return doubled(data, v, [&]() -> bool { what; });                                    \
  }

int calls = 0;

const Mistake kMistakes[] = {
    {"reads behind", SK_PLANT(return at(data, v, 0, v[0].rows - 1, v[0].cols) != 4711.5f),
     "tile doubled in doubled(f32, 11 x 5): tile 1 of 1 touches byte 0 behind the end of x (11 "
     "rows"},
    {"writes behind", SK_PLANT(at(data, v, 1, v[1].rows - 1, v[1].cols) = 1; return true),
     "tile 1 of 1 touches byte 0 behind the end of y (11 rows of 20 bytes there)"},
    {"writes in front", SK_PLANT(at(data, v, 1, 0, -1) = 1; return true),
     "tile 1 of 1 touches byte 4 before y"},
    {"writes between rows", SK_PLANT(at(data, v, 1, 0, v[1].cols) = 1; return true),
     "tile 1 of 1 writes between the rows of y"},
    {"writes what is read", SK_PLANT(at(data, v, 0, 0, 0) = 1; return true),
     "tile 1 of 1 writes x, which is read"},
    {"writes anywhere", SK_PLANT(*memory_of_nobody() = 1; return true),
     "tile 1 of 1 touches memory that is in none of its regions"},
    {"reads the next row",
     SK_PLANT(return v[0].rows > 1 || at(data, v, 0, v[0].rows, 0) != 4711.5f),
     "tile 1 of 11 touches byte"},
    {"counts its calls",
     SK_PLANT(at(data, v, 1, 0, 0) = float(getpid() % 1000 + ++calls); return true),
     "element (0, 0) of y is not the same twice"},
    {"knows how it is cut", SK_PLANT(at(data, v, 1, 0, 0) += float(v[1].rows); return true),
     "element (0, 0) of y is not the same in tiles of 1 and in one: it depends on what the effect"},
    {"says no", SK_PLANT(return false), "tile 1 of 1: its function did not return 1"},
    {"aborts", SK_PLANT(std::abort(); return true), "tile 1 of 1 ended its process by signal 6"},
    {"exits", SK_PLANT(_exit(0); return true), "tile 1 of 1 ended its process"},
};

TEST_F(TileCheck, NamesWhatIsWrong) {
  for (const Mistake& mistake : kMistakes) {
    const sk_status status = check(mistake.function);
    EXPECT_EQ(status, SK_ERR_TILE) << mistake.name;
    EXPECT_THAT(sentence_, HasSubstr(mistake.sentence)) << mistake.name;
  }
}

TEST_F(TileCheck, NamesWhatIsNotWritten) {
  EXPECT_EQ(check([](void* const* data, const sk_tile_view* views, const sk_tile_value*,
                     void*) -> int32_t {
              for (int64_t i = 0; i < views[1].rows; ++i) {
                for (int64_t j = 0; j < views[1].cols; ++j) {
                  if (views[1].row + i != 3 || j != 2)
                    at(data, views, 1, i, j) = at(data, views, 0, i, j);
                }
              }
              return 1;
            }),
            SK_ERR_TILE);
  EXPECT_THAT(sentence_, HasSubstr("element (3, 2) of y is not written"));
}

TEST_F(TileCheck, WaitsNoLongerThanItIsTold) {
  EXPECT_EQ(check(SK_PLANT(for (;;) pause(); return true), nullptr, SK_TILE_OVER_ROWS, 200),
            SK_ERR_TIMEOUT);
  EXPECT_THAT(sentence_, HasSubstr("its function has not returned in time"));
}

TEST_F(TileCheck, RefusesWhatACallWould) {
  int32_t op = 0;
  OwnTile tile("doubled", right);
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = doubled(x[i, j])");
  ASSERT_EQ(sk_tile_register(context_, tile.get(), &op), SK_OK);
  EXPECT_EQ(sk_tile_check(context_, op, nullptr, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(sk_tile_check(context_, op + 1, nullptr, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_EQ(sk_tile_check(nullptr, op, nullptr, nullptr), SK_ERR_BAD_HANDLE);
  std::vector<float> x(6), y(6);
  const OwnArgs wrong({matrix(SK_F32, x.data(), 2, 3, 3), matrix(SK_F32, y.data(), 3, 2, 2)});
  EXPECT_EQ(sk_tile_check(context_, op, wrong.get(), nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("y has shape [3, 2], it must be [2, 3]"));
  const OwnArgs empty({matrix(SK_F32, nullptr, 0, 3, 3), matrix(SK_F32, nullptr, 0, 3, 3)});
  EXPECT_EQ(sk_tile_check(context_, op, empty.get(), nullptr), SK_OK) << sk_last_error();
}

}  // namespace
}  // namespace sk::testing_ops
