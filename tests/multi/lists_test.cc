// Lists of tensors and values of runs through sk_call() and handles, with adamw: hundreds of
// tensors of all sizes, the same bits whoever does which, and no plan for another learning rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::HasSubstr;

// Of one call: params, grads, ms, vs.
struct Lists {
  explicit Lists(const std::vector<int64_t>& lengths, uint32_t seed = 1) {
    std::mt19937 random(seed);
    for (size_t list = 0; list < 4; ++list) {
      arrays[list].reserve(lengths.size());
      tensors[list].reserve(lengths.size());
      for (const int64_t length : lengths) {
        std::vector<float>& array = arrays[list].emplace_back();
        for (int64_t i = 0; i < length; ++i)
          array.push_back(float(random() % 4000) / 1000 - (list == 3 ? 0 : 2));
        sk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        tensor.dtype = SK_F32;
        tensor.data = array.data();
        tensor.ndim = 1;
        tensor.shape[0] = length;
        tensor.strides[0] = 1;
        tensors[list].push_back(tensor);
      }
      for (sk_tensor& tensor : tensors[list]) pointers[list].push_back(&tensor);
    }
    args.struct_size = sizeof args;
    args.length = int64_t(lengths.size());
    args.params = pointers[0].data();
    args.grads = pointers[1].data();
    args.ms = pointers[2].data();
    args.vs = pointers[3].data();
    args.lr = 0.125;
    args.step = 1;
    args.beta1 = 0.9;
    args.beta2 = 0.999;
    args.eps = 1e-8;
    args.weight_decay = 0.01;
  }
  Lists(const Lists&) = delete;
  Lists& operator=(const Lists&) = delete;

  // The same, element after element.
  void step() {
    const auto gone = [&](double beta) { return -std::expm1(double(args.step) * std::log(beta)); };
    const auto rate = float(args.lr / gone(args.beta1));
    const auto scale = float(1 / std::sqrt(gone(args.beta2)));
    for (size_t k = 0; k < arrays[0].size(); ++k) {
      for (size_t i = 0; i < arrays[0][k].size(); ++i) {
        volatile float &p = arrays[0][k][i], &m = arrays[2][k][i], &v = arrays[3][k][i];
        const volatile float& g = arrays[1][k][i];
        volatile float a = m * float(args.beta1);
        volatile float b = g * float(1 - args.beta1);
        m = a + b;
        a = v * float(args.beta2);
        b = g * float(1 - args.beta2);
        b = b * g;
        v = a + b;
        a = std::sqrt(v) * 1.0f;
        b = a * scale;
        a = b + float(args.eps);
        b = m * rate;
        volatile float c = b / a;
        a = p * float(1 - args.lr * args.weight_decay);
        p = a - c;
      }
    }
  }
  bool operator==(const Lists& other) const {
    for (size_t list = 0; list < 4; ++list) {
      for (size_t k = 0; k < arrays[list].size(); ++k) {
        const std::vector<float>&a = arrays[list][k], &b = other.arrays[list][k];
        if (!a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0)
          return false;
      }
    }
    return true;
  }

  std::vector<std::vector<float>> arrays[4];
  std::vector<sk_tensor> tensors[4];
  std::vector<sk_tensor*> pointers[4];
  sk_adamw_args args{};
};

// As a model's: none, one, biases, a few large ones.
std::vector<int64_t> three_hundred() {
  std::mt19937 random(11);
  std::vector<int64_t> lengths = {0, 1, 400'000};
  while (lengths.size() < 300) {
    const int64_t sizes[] = {0, 1, 7, 64, 768, 3072, 20'000};
    lengths.push_back(sizes[random() % 7]);
  }
  lengths.push_back(0);
  return lengths;
}

void with_workers(int workers, const std::function<void(sk_comm*)>& body) {
  in_thread_ranks(
      1, [&](sk_comm* comm, int) { body(comm); },
      [&](sk_comm_config& config) { config.workers = uint32_t(workers); });
}

TEST(Lists, OfHundredsOfTensorsAreOneCallOfTheSameBitsForAllWorkers) {
  Lists wanted(three_hundred());
  wanted.step();
  for (const int workers : {1, 2, 3, 5}) {
    Lists made(three_hundred());
    ASSERT_FALSE(made == wanted);
    with_workers(workers, [&](sk_comm* comm) {
      ASSERT_EQ(sk_adamw(comm, &made.args, nullptr), SK_OK) << sk_last_error();
    });
    EXPECT_TRUE(made == wanted) << workers;
  }
}

TEST(Lists, MayBeEmptyOrOfNothing) {
  with_workers(2, [&](sk_comm* comm) {
    Lists none({}), nothing({0, 0});
    none.args.params = nullptr;
    EXPECT_EQ(sk_adamw(comm, &none.args, nullptr), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_adamw(comm, &nothing.args, nullptr), SK_OK) << sk_last_error();
  });
}

// Plans that a local lane has made.
uint64_t plans(sk_comm* comm) {
  sk_comm_info info{};
  info.struct_size = sizeof info;
  EXPECT_EQ(sk_comm_query(comm, &info), SK_OK) << sk_last_error();
  return info.plans;
}

struct Self {
  Self() {
    EXPECT_EQ(sk_init(nullptr, &context), SK_OK);
    EXPECT_EQ(sk_comm_self(context, &comm), SK_OK) << sk_last_error();
  }
  ~Self() { EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error(); }
  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
};

TEST(RunValues, ChangeFromCallToCallWithoutAnotherPlan) {
  const Self self;
  const std::vector<int64_t> lengths = {5, 70'000, 0, 3};
  Lists made(lengths), wanted(lengths);
  ASSERT_EQ(sk_adamw(self.comm, &made.args, nullptr), SK_OK) << sk_last_error();
  wanted.step();
  EXPECT_EQ(plans(self.comm), 1u);
  for (int64_t step = 2; step < 30; ++step) {
    made.args.step = wanted.args.step = step;
    made.args.lr = wanted.args.lr = 0.1 / double(step);
    ASSERT_EQ(sk_adamw(self.comm, &made.args, nullptr), SK_OK) << sk_last_error();
    wanted.step();
    ASSERT_TRUE(made == wanted) << step;
  }
  EXPECT_EQ(plans(self.comm), 1u);
  // Nor have other tensors one of their own, where there is as much of them.
  Lists others({60'008, 10'000});
  ASSERT_EQ(sk_adamw(self.comm, &others.args, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(plans(self.comm), 1u);
  // What is static is another plan.
  made.args.lr = wanted.args.lr;
  made.args.beta1 = 0.5;
  ASSERT_EQ(sk_adamw(self.comm, &made.args, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(plans(self.comm), 2u);
}

TEST(RunValues, ChangeFromRunToRunOfAHandle) {
  const Self self;
  const std::vector<int64_t> lengths = {70'000, 1, 40};
  Lists made(lengths), wanted(lengths);
  sk_op* op = nullptr;
  ASSERT_EQ(sk_op_create(self.comm, SK_OP_ADAMW, &made.args, &op), SK_OK) << sk_last_error();
  EXPECT_EQ(plans(self.comm), 1u);
  for (int64_t step = 1; step < 20; ++step) {
    made.args.step = wanted.args.step = step;
    made.args.lr = wanted.args.lr = 0.1 / double(step);
    ASSERT_EQ(sk_op_run(op, &made.args, nullptr), SK_OK) << sk_last_error();
    wanted.step();
    ASSERT_TRUE(made == wanted) << step;
    // Without arguments it is the last call again.
    ASSERT_EQ(sk_op_run(op, nullptr, nullptr), SK_OK) << sk_last_error();
    wanted.step();
    ASSERT_TRUE(made == wanted) << step;
  }
  EXPECT_EQ(plans(self.comm), 1u);
  made.args.lr = -1;
  EXPECT_EQ(sk_op_run(op, &made.args, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("lr is -1, allowed are 0 to"));
  EXPECT_TRUE(made == wanted);
  Lists longer({70'000, 2, 40});
  EXPECT_EQ(sk_op_run(op, &longer.args, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("n is 70042, not "));
  made.args.lr = wanted.args.lr;
  made.args.beta1 = 0.5;
  EXPECT_EQ(sk_op_run(op, &made.args, nullptr), SK_ERR_INVALID_ARGUMENT);
  EXPECT_THAT(sk_last_error(), HasSubstr("beta1 is 0.5, not 0.9; only addresses and values of a"));
  EXPECT_EQ(sk_op_free(op), SK_OK);
}

TEST(Lists, OfWhichOneTensorIsWrongAreRefusedByItsName) {
  const Self self;
  Lists made({4, 4, 4, 4}), before({4, 4, 4, 4});
  const auto refused = [&](auto&& change) -> std::string {
    Lists given({4, 4, 4, 4});
    change(given);
    EXPECT_EQ(sk_adamw(self.comm, &given.args, nullptr), SK_ERR_INVALID_ARGUMENT);
    EXPECT_TRUE(given == before);
    return sk_last_error();
  };
  EXPECT_THAT(refused([](Lists& l) { l.tensors[1][2].shape[0] = 3; }),
              HasSubstr("grads[2] has 3 elements, it must have 4, as params[2] has"));
  EXPECT_THAT(refused([](Lists& l) { l.pointers[2][3] = nullptr; }), HasSubstr("ms[3] is null"));
  EXPECT_THAT(refused([](Lists& l) { l.tensors[0][1].dtype = SK_F64; }),
              HasSubstr("params[1] is f64, it must be f32, as params[0] is"));
  EXPECT_THAT(refused([](Lists& l) { l.tensors[3][1].struct_size = 3; }), HasSubstr("vs[1]: "));
  EXPECT_THAT(refused([](Lists& l) { l.tensors[2][1].data = l.arrays[0][3].data(); }),
              HasSubstr("params[3]"));
  EXPECT_THAT(refused([](Lists& l) { l.tensors[1][1].data = l.arrays[3][0].data() + 2; }),
              HasSubstr("vs[0]"));
  EXPECT_THAT(refused([](Lists& l) { l.args.ms = nullptr; }),
              HasSubstr("ms is null, and length is 4"));
  EXPECT_THAT(refused([](Lists& l) { l.args.length = -1; }),
              HasSubstr("length is -1, a list has 0 to 1048576 tensors"));
  EXPECT_THAT(refused([](Lists& l) {
                for (sk_tensor& each : l.tensors[0]) each.dtype = SK_I32;
              }),
              HasSubstr("params is i32, it must be f32, f64, bf16 or f16"));
  EXPECT_THAT(refused([](Lists& l) { l.args.step = 0; }), HasSubstr("step is 0, allowed are 1 to"));
  EXPECT_THAT(refused([](Lists& l) { l.args.lr = NAN; }), HasSubstr("lr is nan"));
  // What is only read may be the same memory.
  for (size_t k = 1; k < 4; ++k) made.tensors[1][k].data = made.arrays[1][0].data();
  EXPECT_EQ(sk_adamw(self.comm, &made.args, nullptr), SK_OK) << sk_last_error();
}

}  // namespace
}  // namespace sk::testing_ops
