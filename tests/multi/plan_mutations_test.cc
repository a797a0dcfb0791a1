// Texts of plans with numbers changed, parsed and run by the ranks themselves: whatever is accepted
// makes the right results, and nothing else happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace sk {
namespace {

using testing_ops::in_thread_ranks;

constexpr int kRanks = 2;
constexpr int64_t kGuard = 16;  // Elements on both sides, which nobody may write.

struct Kind {
  const char* name;
  int32_t kind;
  int64_t count;  // Of one rank's part; of a product m, n and k.
  bool put_only;
  uint32_t flags = 0;
};

constexpr int64_t kM = 40, kN = 24, kK = 8;

struct Sizes {
  int64_t in, out;
};
Sizes sizes_of(const Kind& kind) {
  switch (kind.kind) {
    case SK_OP_ALLGATHER:
      return {kind.count, kRanks * kind.count};
    case SK_OP_REDUCE_SCATTER:
      return {kRanks * kind.count, kind.count};
    case SK_OP_ALLREDUCE_GEMM:
      return {kM * kK, kM * kN};
    case SK_OP_ALLGATHER_GEMM:
      return {kM * kK, kRanks * kM * kN};
    default:
      return {kind.count, kind.count};
  }
}

bool multiplies(const Kind& kind) { return kind.kind >= SK_OP_ALLREDUCE_GEMM; }

// Small whole numbers, so that sums and products are exact in f32.
float input(int rank, int64_t i) { return float((i * 7 + rank * 3) % 11 - 5); }
float weight(int64_t i) { return float(i % 5 - 2); }

float product(int rank, int64_t row, int64_t column) {
  float sum = 0;
  for (int64_t l = 0; l < kK; ++l) sum += input(rank, row * kK + l) * weight(l * kN + column);
  return sum;
}

float expected(const Kind& kind, int rank, int64_t i) {
  const auto sum = [](auto&& of) {
    float all = 0;
    for (int r = 0; r < kRanks; ++r) all += of(r);
    return all;
  };
  switch (kind.kind) {
    case SK_OP_ALLREDUCE:
      return sum([&](int r) { return input(r, i); });
    case SK_OP_REDUCE_SCATTER:
      return sum([&](int r) { return input(r, rank * kind.count + i); });
    case SK_OP_ALLGATHER:
      return input(int(i / kind.count), i % kind.count);
    case SK_OP_BROADCAST:
      return input(0, i);
    case SK_OP_ALLREDUCE_GEMM:
      return sum([&](int r) { return product(r, i / kN, i % kN); });
    default:
      return product(int(i / kN / kM), i / kN % kM, i % kN);
  }
}

std::string mutated(const std::string& text, std::mt19937_64& random) {
  std::vector<std::pair<size_t, size_t>> numbers;  // Where each begins, and its length.
  for (size_t i = 0; i < text.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) continue;
    size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    // "f32" is no number.
    if (i == 0 || !std::isalpha(static_cast<unsigned char>(text[i - 1])) || text[i - 1] == 'x' ||
        text[i - 1] == 'b' || text[i - 1] == 's' || text[i - 1] == 'r')
      numbers.emplace_back(i, end - i);
    i = end;
  }
  const auto [at, length] = numbers[random() % numbers.size()];
  const uint64_t old = std::strtoull(text.substr(at, length).c_str(), nullptr, 10);
  const auto [other, other_length] = numbers[random() % numbers.size()];
  const std::string choices[] = {std::to_string(old + 1),  std::to_string(old == 0 ? 1 : old - 1),
                                 std::to_string(old * 2),  std::to_string(random() % 9),
                                 std::to_string(old + 64), text.substr(other, other_length)};
  std::string out = text;
  return out.replace(at, length, choices[random() % std::size(choices)]);
}

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

sk_plan* made(sk_comm* comm, const Kind& kind) {
  sk_plan_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = kind.kind;
  desc.dtype = SK_F32;
  desc.flags = kind.flags;
  if (multiplies(kind)) {
    desc.m = kM;
    desc.n = kN;
    desc.k = kK;
  } else {
    desc.count = kind.count;
  }
  if (kind.kind == SK_OP_ALLREDUCE || kind.kind == SK_OP_REDUCE_SCATTER) desc.op = SK_SUM;
  sk_plan* plan = nullptr;
  EXPECT_EQ(sk_plan_create(comm, &desc, &plan), SK_OK) << sk_last_error();
  return plan;
}

// What both ranks look at: the text of this turn, and what became of it.
struct Turn {
  std::barrier<> step{kRanks};
  std::string text;
  sk_status status[kRanks] = {};
  bool parsed[kRanks] = {};
  bool over = false;
};

// One rank's part. "" or what is wrong with results that were returned as right.
std::string run(sk_plan* plan, const Kind& kind, int rank, const sk_packed* weights,
                sk_status& status) {
  const Sizes sizes = sizes_of(kind);
  std::vector<float> in(size_t(sizes.in + 2 * kGuard), -77),
      out(size_t(sizes.out + 2 * kGuard), -99);
  for (int64_t i = 0; i < sizes.in; ++i) in[size_t(kGuard + i)] = input(rank, i);
  const std::vector<float> before = in;
  const bool has_in = kind.kind != SK_OP_BROADCAST || rank == 0;
  status = sk_plan_run(plan, has_in ? in.data() + kGuard : nullptr, weights, out.data() + kGuard,
                       nullptr);
  if (in != before) return "an input was written";
  for (int64_t i = 0; i < kGuard; ++i) {
    if (out[size_t(i)] != -99 || out[out.size() - 1 - size_t(i)] != -99)
      return "memory beside the output was written";
  }
  for (int64_t i = 0; status == SK_OK && i < sizes.out; ++i) {
    const float want = expected(kind, rank, i);
    if (out[size_t(kGuard + i)] == want) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(out[size_t(kGuard + i)]) +
           ", it must be " + std::to_string(want);
  }
  return "";
}

class PlanMutations : public testing::TestWithParam<Kind> {};

TEST_P(PlanMutations, AreRefusedOrMakeTheSameResults) {
  const Kind& kind = GetParam();
  const uint64_t seed = from_environment("SK_TEST_SEED", std::random_device()());
  const uint64_t turns = from_environment("SK_TEST_MUTATIONS", 400);
  Turn turn;
  uint64_t accepted = 0;
  in_thread_ranks(
      kRanks,
      [&](sk_comm* comm, int rank) {
        std::mt19937_64 random(seed);
        std::vector<float> b(kK * kN);
        for (int64_t i = 0; i < kK * kN; ++i) b[size_t(i)] = weight(i);
        const sk_tensor tensor = {sizeof(sk_tensor), SK_F32, b.data(), 2, 0, 0, 0,
                                  {kK, kN},          {kN, 1}};
        sk_packed* weights = nullptr;
        if (multiplies(kind)) {
          ASSERT_EQ(sk_pack(comm, &tensor, 0, &weights), SK_OK) << sk_last_error();
        }
        sk_plan* plan = made(comm, kind);
        std::string text(1 << 20, '\0');
        size_t size = 0;
        ASSERT_EQ(sk_plan_dump(plan, text.data(), text.size(), &size), SK_OK) << sk_last_error();
        text.resize(size);
        for (uint64_t i = 0; i < turns && !turn.over; ++i) {
          const std::string changed = mutated(text, random);  // The same on both.
          sk_plan* other = nullptr;
          turn.parsed[rank] = sk_plan_parse(comm, changed.data(), changed.size(), &other) == SK_OK;
          turn.step.arrive_and_wait();
          const bool all = turn.parsed[0] && turn.parsed[1];
          turn.step.arrive_and_wait();
          if (!all) {  // What a rank can make ready may be its own.
            if (other != nullptr) {
              EXPECT_EQ(sk_plan_free(other), SK_OK);
            }
            continue;
          }
          if (rank == 0) ++accepted;
          sk_status status = SK_OK;
          const std::string wrong = run(other, kind, rank, weights, status);
          if (rank == 0 && status != SK_OK && turn.text.empty()) turn.text = sk_last_error();
          EXPECT_EQ(wrong, "") << "SK_TEST_SEED=" << seed << "\n" << changed;
          // Refused in time, with what it needs; never a wait for posts that do not come.
          EXPECT_NE(status, SK_ERR_TIMEOUT) << sk_last_error() << "\n" << changed;
          turn.status[rank] = status;
          EXPECT_EQ(sk_plan_free(other), SK_OK);
          sk_comm_info info{};
          info.struct_size = sizeof info;
          EXPECT_EQ(sk_comm_query(comm, &info), SK_OK);
          EXPECT_EQ(info.over, SK_OK) << sk_last_error() << "\n" << changed;
          turn.step.arrive_and_wait();
          if (rank == 0 && (info.over != SK_OK || testing::Test::HasFailure())) turn.over = true;
          turn.step.arrive_and_wait();
        }
        EXPECT_EQ(sk_plan_free(plan), SK_OK);
        if (weights != nullptr) {
          EXPECT_EQ(sk_packed_free(weights), SK_OK);
        }
      },
      [&](sk_comm_config& config) {
        config.timeout_ms = 20'000;
        config.workers = 2;
        config.flags = kind.put_only ? uint32_t(SK_COMM_PUT_ONLY) : 0;
      });
  std::printf("%llu of %llu accepted%s%s\n", static_cast<unsigned long long>(accepted),
              static_cast<unsigned long long>(turns),
              turn.text.empty() ? "" : "; one said: ", turn.text.c_str());
}

constexpr Kind kKinds[] = {
    {"allreduce", SK_OP_ALLREDUCE, 1000, false},
    {"allreduce_large", SK_OP_ALLREDUCE, 300'000, false},
    {"allreduce_puts", SK_OP_ALLREDUCE, 40'000, true},
    {"allgather", SK_OP_ALLGATHER, 3000, false},
    {"reduce_scatter_puts", SK_OP_REDUCE_SCATTER, 3000, true},
    {"broadcast", SK_OP_BROADCAST, 9000, false},
    {"allreduce_gemm", SK_OP_ALLREDUCE_GEMM, 0, false},
    {"allreduce_gemm_puts", SK_OP_ALLREDUCE_GEMM, 0, true},
    {"allgather_gemm", SK_OP_ALLGATHER_GEMM, 0, false},
    {"allgather_gemm_puts", SK_OP_ALLGATHER_GEMM, 0, true},
};

INSTANTIATE_TEST_SUITE_P(All, PlanMutations, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sk
