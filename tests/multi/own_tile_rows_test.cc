// Calls of a user's operation that differ in their rows alone: few plans for all of them, each with
// just its own rows, in memory that ends at a page which nobody may touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "sk.h"
#include "tests/support/own_tiles.h"

namespace sk {
namespace {

using testing_support::matrix;
using testing_support::OwnArgs;
using testing_support::OwnTile;

// Elements that end where the next page faults.
class EndsAtPage {
 public:
  explicit EndsAtPage(size_t count) : bytes_(count * sizeof(float)) {
    const auto page = size_t(sysconf(_SC_PAGESIZE));
    room_ = (bytes_ + page - 1) / page * page;
    map_ = static_cast<std::byte*>(
        mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(static_cast<void*>(map_), MAP_FAILED);
    EXPECT_EQ(mprotect(map_ + room_, page, PROT_NONE), 0);
    length_ = room_ + page;
  }
  EndsAtPage(const EndsAtPage&) = delete;
  EndsAtPage& operator=(const EndsAtPage&) = delete;
  ~EndsAtPage() { munmap(map_, length_); }
  // The last `count` of them.
  float* last(size_t count) {
    return reinterpret_cast<float*>(map_ + room_ - count * sizeof(float));
  }

 private:
  size_t bytes_, room_ = 0, length_ = 0;
  std::byte* map_ = nullptr;
};

int32_t doubled(void* const* data, const sk_tile_view* views, const sk_tile_value*, void* user) {
  static_cast<std::atomic<int64_t>*>(user)->fetch_add(views[1].rows * views[1].cols);
  for (int64_t i = 0; i < views[1].rows; ++i) {
    for (int64_t j = 0; j < views[1].cols; ++j) {
      static_cast<float*>(data[1])[i * views[1].stride + j] =
          2 * static_cast<const float*>(data[0])[i * views[0].stride + j];
    }
  }
  return 1;
}

class OwnTileRows : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    sk_config config{};
    config.struct_size = sizeof config;
    config.log_level = SK_LOG_INFO;
    config.log_user = &plans_;
    config.log = [](void* user, int32_t, const char*, const char* message) {
      if (std::string_view(message).find("plan of doubled(") != std::string_view::npos)
        ++*static_cast<std::atomic<int>*>(user);
    };
    ASSERT_EQ(sk_init(&config, &context_), SK_OK) << sk_last_error();
    ASSERT_EQ(sk_comm_self(context_, &self_), SK_OK) << sk_last_error();
    OwnTile tile("doubled", doubled);
    tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = doubled(x[i, j])");
    tile.over(GetParam());
    tile.desc.user = &elements_;
    ASSERT_EQ(sk_tile_register(context_, tile.get(), &op_), SK_OK) << sk_last_error();
  }
  void TearDown() override { EXPECT_EQ(sk_finalize(context_), SK_OK) << sk_last_error(); }

  void call(EndsAtPage& x, EndsAtPage& y, int64_t rows, int64_t columns) {
    const auto count = size_t(rows * columns);
    float *from = x.last(count), *to = y.last(count);
    std::iota(from, from + count, 1.0F);
    std::fill(to, to + count, -1.0F);
    elements_ = 0;
    const OwnArgs args(
        {matrix(SK_F32, from, rows, columns, columns), matrix(SK_F32, to, rows, columns, columns)});
    ASSERT_EQ(sk_call(self_, op_, args.get(), nullptr), SK_OK) << sk_last_error();
    ASSERT_EQ(elements_, rows * columns) << rows << " rows";
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(to[i], 2 * from[i]) << i << " of " << rows;
  }

  std::atomic<int> plans_{0};
  std::atomic<int64_t> elements_{0};
  sk_context* context_ = nullptr;
  sk_comm* self_ = nullptr;
  int32_t op_ = 0;
};

TEST_P(OwnTileRows, OfAnyNumberInAnyOrderHaveFewPlans) {
  constexpr int64_t kMost = 1'200, kColumns = 8;
  std::vector<int64_t> numbers(kMost + 1);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(std::random_device{}()));
  EndsAtPage x(kMost * kColumns), y(kMost * kColumns);
  for (const int64_t rows : numbers) ASSERT_NO_FATAL_FAILURE(call(x, y, rows, kColumns));
  EXPECT_GE(plans_, 10);
  EXPECT_LE(plans_, 40);
}

TEST_P(OwnTileRows, ThatWorkersShareStayWithinTheirOwn) {
  constexpr int64_t kMost = 1'200, kColumns = 300;
  EndsAtPage x(kMost * kColumns), y(kMost * kColumns);
  std::mt19937_64 random(std::random_device{}());
  for (int i = 0; i < 60; ++i)
    ASSERT_NO_FATAL_FAILURE(call(x, y, int64_t(random() % (kMost + 1)), kColumns));
}

// Although its plan is one for more of them.
TEST_P(OwnTileRows, OfACallThatFailsAreNamed) {
  OwnTile tile(
      "fails",
      [](void* const*, const sk_tile_view*, const sk_tile_value*, void*) -> int32_t { return 0; });
  tile.reads("x", "f32", "m, n").writes("y", "x", "m, n").does("y[i, j] = fails(x[i, j])");
  tile.over(GetParam());
  int32_t op = 0;
  ASSERT_EQ(sk_tile_register(context_, tile.get(), &op), SK_OK) << sk_last_error();
  std::vector<float> x(511 * 8), y(x.size());
  const OwnArgs args({matrix(SK_F32, x.data(), 511, 8, 8), matrix(SK_F32, y.data(), 511, 8, 8)});
  EXPECT_EQ(sk_call(self_, op, args.get(), nullptr), SK_ERR_TILE);
  EXPECT_THAT(sk_last_error(), testing::HasSubstr("failed in fails(f32, 511 x 8): "));
  EXPECT_THAT(sk_last_error(), testing::Not(testing::HasSubstr("512")));
}

INSTANTIATE_TEST_SUITE_P(All, OwnTileRows, testing::Values(SK_TILE_OVER_ROWS, SK_TILE_OVER_BLOCKS),
                         [](const auto& info) {
                           return info.param == SK_TILE_OVER_ROWS ? "Rows" : "Blocks";
                         });

}  // namespace
}  // namespace sk
