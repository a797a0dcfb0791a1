// rmsnorm and its gradient through sk_call(): held against f64, on a world of one and beside the
// collectives of many.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/multi/thread_ranks.h"
#include "tests/support/rows_case.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;
using testing_support::make_rows;
using testing_support::random_rows;
using testing_support::RowsArray;
using testing_support::RowsCase;
using testing_support::RowsData;
using testing_support::wrong_rows;

struct Tensor {
  explicit Tensor(RowsArray& array) {
    is.struct_size = sizeof is;
    is.dtype = array.dtype;
    is.data = array.bytes.empty() ? nullptr : array.bytes.data();
    is.ndim = array.ld == 0 ? 1 : 2;
    is.shape[0] = array.ld == 0 ? array.cols : array.rows;
    is.shape[1] = array.cols;
    is.strides[0] = array.ld == 0 ? 1 : array.ld;
    is.strides[1] = 1;
  }
  sk_tensor is = {};
};

sk_status call(sk_comm* comm, const RowsCase& c, RowsData& data) {
  Tensor x(data.x), y(data.y), weight(data.weight), rstd(data.rstd);
  Tensor dy(data.dy), dx(data.dx), dweight(data.dweight);
  if (!c.backward) {
    sk_rmsnorm_args args{};
    args.struct_size = sizeof args;
    args.x = &x.is;
    args.y = c.in_place ? &x.is : &y.is;
    args.weight = c.weight ? &weight.is : nullptr;
    args.rstd = c.second ? &rstd.is : nullptr;
    args.eps = c.eps;
    return sk_rmsnorm(comm, &args, nullptr);
  }
  sk_rmsnorm_backward_args args{};
  args.struct_size = sizeof args;
  args.x = &x.is;
  args.dy = &dy.is;
  args.rstd = &rstd.is;
  args.dx = &dx.is;
  args.weight = c.weight ? &weight.is : nullptr;
  args.dweight = c.second ? &dweight.is : nullptr;
  return sk_rmsnorm_backward(comm, &args, nullptr);
}

uint64_t seed() {
  const char* given = std::getenv("SK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
}

// "" or what is wrong. Twice: the second call is remembered.
std::string run(sk_comm* comm, const RowsCase& c, std::mt19937_64& random) {
  const RowsData before = make_rows(c, random);
  RowsData after = before;
  for (int turn = 0; turn < 2; ++turn) {
    for (auto member : {&RowsData::x, &RowsData::y, &RowsData::dx, &RowsData::dweight}) {
      (after.*member).bytes.assign((before.*member).bytes.begin(), (before.*member).bytes.end());
    }
    if (call(comm, c, after) != SK_OK) return sk_last_error();
    const std::string wrong = wrong_rows(c, before, after);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(Rows, AreWhatTheFormulasSay) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* self = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  const uint64_t first = seed();
  std::mt19937_64 random(first);
  for (int round = 0; round < 400; ++round) {
    const RowsCase c = random_rows(random, round % 20 == 0 ? 400'000 : 6'000);
    ASSERT_EQ(run(self, c, random), "") << describe(c) << ", SK_TEST_SEED=" << first;
  }
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

// Each rank in its own lane, while its thread's turn in collectives goes on.
TEST(Rows, OfARankDisturbNoCollective) {
  in_thread_ranks(3, [](sk_comm* comm, int rank) {
    std::mt19937_64 random(seed() + uint64_t(rank));
    std::atomic<bool> over{false};
    std::thread beside([&] {
      std::mt19937_64 other(uint64_t(rank) + 1);
      while (!over) EXPECT_EQ(run(comm, random_rows(other, 3'000), other), "");
    });
    for (int turn = 0; turn < 60; ++turn) {
      for (int calls = int(random() % 3); calls > 0; --calls) {  // Of each as many as it likes.
        EXPECT_EQ(run(comm, random_rows(random, 3'000), random), "");
      }
      float in = float(rank), out = -1;
      EXPECT_EQ(sk_allreduce(comm, &in, &out, 1, SK_F32, SK_SUM, nullptr), SK_OK)
          << sk_last_error();
      EXPECT_EQ(out, 3.0f);
    }
    over = true;
    beside.join();
  });
}

// Columns and rows are dealt over the workers; no sum is.
TEST(Rows, HaveTheSameBitsWithAnyNumberOfWorkers) {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 6; ++round) {
    RowsCase c = random_rows(random, 4'000);
    c.backward = round % 2 == 0;
    c.second = c.weight = true;
    c.n = 700 + int64_t(random() % 100);
    c.m = 600 + int64_t(random() % 100);
    c.ldx = c.ldy = c.lddy = c.n + 3;
    const RowsData before = make_rows(c, random);
    std::vector<RowsData> results;
    for (const int workers : {1, 2, 3, 4}) {
      in_thread_ranks(
          1,
          [&](sk_comm* comm, int) {
            results.push_back(before);
            ASSERT_EQ(call(comm, c, results.back()), SK_OK) << sk_last_error();
            EXPECT_EQ(wrong_rows(c, before, results.back()), "") << describe(c);
          },
          [&](sk_comm_config& config) { config.workers = workers; });
    }
    for (const RowsData& each : results) {
      EXPECT_EQ(each.x.bytes, results[0].x.bytes);
      EXPECT_EQ(each.y.bytes, results[0].y.bytes);
      EXPECT_EQ(each.rstd.bytes, results[0].rstd.bytes);
      EXPECT_EQ(each.dx.bytes, results[0].dx.bytes);
      EXPECT_EQ(each.dweight.bytes, results[0].dweight.bytes);
    }
  }
}

// A zero with a sign is a zero, in plans too, whose hashes go by bits.
TEST(Rows, ANegativeZeroIsNoOtherEps) {
  in_thread_ranks(1, [](sk_comm* comm, int) {
    std::mt19937_64 random(seed());
    const RowsCase c{.m = 3, .n = 5, .ldx = 5, .ldy = 5, .lddy = 5, .eps = -0.0};
    EXPECT_EQ(run(comm, c, random), "");
  });
}

TEST(Rows, WhatIsWrongIsSaid) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm* self = nullptr;
  ASSERT_EQ(sk_comm_self(context, &self), SK_OK) << sk_last_error();
  std::mt19937_64 random(1);
  const auto refusal = [&](auto&& change) {
    RowsCase c;
    c.m = c.ldx = c.ldy = 4;
    c.n = 3;
    RowsData data = make_rows(c, random);
    change(c, data);
    const std::vector<std::byte> before = data.y.bytes;
    EXPECT_EQ(call(self, c, data), SK_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(data.y.bytes, before);
    return std::string(sk_last_error());
  };
  using C = RowsCase&;
  using D = RowsData&;
  EXPECT_THAT(refusal([](C c, D) { c.eps = -1; }), HasSubstr("eps is -1, allowed are 0 to inf"));
  EXPECT_THAT(refusal([](C c, D) { c.eps = std::nan(""); }), HasSubstr("eps is nan"));
  EXPECT_THAT(refusal([](C, D d) { d.x.dtype = SK_I32; }),
              HasSubstr("x is i32, it must be f32, f64, bf16 or f16"));
  EXPECT_THAT(refusal([](C, D d) { d.y.dtype = SK_BF16; }),
              HasSubstr("y is bf16, it must be f32, as x is"));
  EXPECT_THAT(refusal([](C, D d) { d.rstd.dtype = SK_F64; }),
              HasSubstr("rstd is f64, it must be f32, as sums of x"));
  EXPECT_THAT(refusal([](C, D d) { d.y.rows = 3; }),
              HasSubstr("y has shape [3, 3], it must be [4, 3] (m, n)"));
  EXPECT_THAT(refusal([](C, D d) { d.weight.cols = 2; }),
              HasSubstr("weight has 2 elements, it must have 3 (n)"));
  EXPECT_THAT(refusal([](C, D d) { d.x.cols = d.y.cols = d.weight.cols = 0; }),
              HasSubstr("rows have one element at least"));
  EXPECT_THAT(refusal([](C, D d) { d.y.ld = 2; }), HasSubstr("y has leading stride 2"));
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

}  // namespace
}  // namespace sk::testing_ops
