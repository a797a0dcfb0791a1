// Calls that are remembered, and which are the same: whether a product was called by its function
// or by its number, with weights as they are or packed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "lib/api/objects.h"
#include "lib/op/ops/all.h"
#include "sk.h"
#include "tests/multi/thread_ranks.h"
#include "tests/support/own_tiles.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;
using testing_support::matrix;

constexpr int64_t kM = 3, kK = 5, kN = 4;

// A product of one rank. Of the struct that both operations have alike.
template <typename Args>
struct Product {
  using Function = sk_status (*)(sk_comm*, const sk_tensor*, const sk_tensor*, const sk_packed*,
                                 sk_tensor*, uint32_t, const sk_run_options*);
  Product(sk_comm* on, const Schema& its, Function named) : comm(on), schema(its), function(named) {
    args.struct_size = sizeof args;
    args.a = &a;
    args.b = &b;
    args.c = &c;
  }
  sk_status call() {
    const uint32_t flags = (args.transpose_a != 0 ? SK_GEMM_TRANSPOSE_A : 0) |
                           (args.transpose_b != 0 ? SK_GEMM_TRANSPOSE_B : 0);
    return function(comm, args.a, args.b, args.b_packed, args.c, flags, nullptr);
  }
  bool is_known() {
    auto use = api::comms.use(comm);
    CallWords words;
    return use.ok() && words.read(schema, arg_layout(schema), &args) &&
           (*use)->communicator->known(words) != nullptr;
  }
  // With other numbers than before.
  void expect_product() {
    for (float& each : in_a) each += 1;
    std::fill(out.begin(), out.end(), -1.0f);
    ASSERT_EQ(call(), SK_OK) << sk_last_error();
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        float sum = 0;
        for (int64_t l = 0; l < kK; ++l) {
          sum += in_a[size_t(args.transpose_a ? l * kM + i : i * kK + l)] *
                 in_b[size_t(args.transpose_b ? j * kK + l : l * kN + j)];
        }
        EXPECT_EQ(out[size_t(i * kN + j)], sum) << i << ", " << j;
      }
    }
  }

  sk_comm* comm;
  const Schema& schema;
  Function function;
  std::vector<float> in_a = numbers(kM * kK), in_b = numbers(kK * kN), out = numbers(kM * kN);
  sk_tensor a = matrix(SK_F32, in_a.data(), kM, kK, kK),
            b = matrix(SK_F32, in_b.data(), kK, kN, kN), c = matrix(SK_F32, out.data(), kM, kN, kN);
  Args args{};

  static std::vector<float> numbers(int64_t count) {
    std::vector<float> all(static_cast<size_t>(count));
    for (size_t i = 0; i < all.size(); ++i) all[i] = float(i % 7);
    return all;
  }
};

template <typename Args>
void expect_remembered(sk_comm* comm, const Schema& schema,
                       typename Product<Args>::Function function) {
  Product<Args> it(comm, schema, function);
  for (const bool turned : {false, true}) {
    it.args.transpose_a = it.args.transpose_b = turned ? 1 : 0;
    it.a = turned ? matrix(SK_F32, it.in_a.data(), kK, kM, kM) : it.a;
    it.b = turned ? matrix(SK_F32, it.in_b.data(), kN, kK, kK) : it.b;
    EXPECT_FALSE(it.is_known());
    it.expect_product();
    EXPECT_TRUE(it.is_known());
    it.expect_product();
  }
  // A flag that is none is seen, whatever is known.
  EXPECT_EQ(function(comm, &it.a, &it.b, nullptr, &it.c, 8, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("flags is 0x8"));
  // Packed weights: known while they are there, and no others are taken for them.
  const sk_tensor as_they_are = it.b;
  it.args.b = nullptr;
  for (int turn = 0; turn < 4; ++turn) {
    for (float& each : it.in_b) each += 1;
    sk_packed* packed = nullptr;
    ASSERT_EQ(sk_pack(comm, &as_they_are, SK_GEMM_TRANSPOSE_B, &packed), SK_OK) << sk_last_error();
    it.args.b_packed = packed;
    it.args.transpose_b = 0;
    EXPECT_FALSE(it.is_known());
    const auto expect_packed = [&] {
      for (float& each : it.in_a) each += 1;
      std::fill(it.out.begin(), it.out.end(), -1.0f);
      ASSERT_EQ(it.call(), SK_OK) << sk_last_error();
      EXPECT_TRUE(it.is_known());  // Here: the next call may have its place, by their addresses.
      it.args.transpose_b = 1;
      const std::vector<float> packed_result = it.out;
      it.args.b = &as_they_are;
      it.args.b_packed = nullptr;
      ASSERT_EQ(it.call(), SK_OK) << sk_last_error();
      EXPECT_EQ(packed_result, it.out);
      it.args.b = nullptr;
      it.args.b_packed = packed;
      it.args.transpose_b = 0;
    };
    expect_packed();
    expect_packed();
    EXPECT_EQ(sk_packed_free(packed), SK_OK);
    EXPECT_EQ(it.call(), SK_ERR_BAD_HANDLE);
    EXPECT_EQ(sk_call(comm, int32_t(schema.id), &it.args, nullptr), SK_ERR_BAD_HANDLE);
  }
}

TEST(Remembered, AProductByItsFunctionIsAsByItsNumber) {
  in_thread_ranks(1, [](sk_comm* comm, int) {
    expect_remembered<sk_allreduce_gemm_args>(comm, ops::kAllreduceGemm, sk_allreduce_gemm);
    expect_remembered<sk_allgather_gemm_args>(comm, ops::kAllgatherGemm, sk_allgather_gemm);
  });
}

}  // namespace
}  // namespace sk::testing_ops
