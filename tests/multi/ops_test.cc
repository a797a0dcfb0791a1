// Every operation through the C ABI, ranks as threads: random shapes, types, rank counts 1 to 16,
// mapped and puts only, against an independent oracle. Ranks drift by whole calls: nothing in the
// test holds them together, and inputs are overwritten as soon as a call returns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/multi/oracle.h"

namespace sk::testing_support {
namespace {

constexpr char kPoison = char(0xa5);

uint64_t base_seed() {
  const char* given = std::getenv("SK_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
}

// One rank's memory for one case: symmetric or not, poisoned.
class Memory {
 public:
  Memory(sk_comm* comm, size_t bytes, bool symmetric)
      : comm_(comm), bytes_(std::max<size_t>(bytes, 1)) {
    if (symmetric) {
      void* data = nullptr;
      EXPECT_EQ(sk_alloc(comm, bytes_, &data), SK_OK) << sk_last_error();
      symmetric_ = static_cast<char*>(data);
    } else {
      own_.resize(bytes_);
    }
    std::memset(data(), kPoison, bytes_);
  }
  ~Memory() {
    if (symmetric_ == nullptr) return;
    EXPECT_EQ(sk_free(comm_, symmetric_), SK_OK) << sk_last_error();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* data() { return symmetric_ != nullptr ? symmetric_ : own_.data(); }

 private:
  sk_comm* comm_;
  size_t bytes_;
  char* symmetric_ = nullptr;
  std::vector<char> own_;
};

sk_tensor tensor(void* data, int32_t dtype, int64_t rows, int64_t cols) {
  sk_tensor t{};
  t.struct_size = sizeof(t);
  t.dtype = dtype;
  t.data = data;
  t.ndim = 2;
  t.shape[0] = rows;
  t.shape[1] = cols;
  t.strides[0] = std::max<int64_t>(1, cols);
  t.strides[1] = 1;
  return t;
}

std::vector<std::vector<char>> make_inputs(const Case& c, int ranks, bool weights) {
  std::vector<std::vector<char>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t count = weights ? c.k * c.n : in_count(c, ranks);
    all.emplace_back(size_t(count) * size_of(c.dtype) + 1);
    fill(all.back().data(), count, c.dtype, c.op, c.seed * 64 + uint64_t(rank) * 2 + weights);
  }
  return all;
}

sk_status call(sk_comm* comm, const Case& c, void* in, void* weights, void* out) {
  switch (c.kind) {
    case SK_OP_ALLREDUCE:
      return sk_allreduce(comm, in, out, c.count, c.dtype, c.op, nullptr);
    case SK_OP_ALLGATHER:
      return sk_allgather(comm, in, out, c.count, c.dtype, nullptr);
    case SK_OP_REDUCE_SCATTER:
      return sk_reduce_scatter(comm, in, out, c.count, c.dtype, c.op, nullptr);
    case SK_OP_BROADCAST:
      return sk_broadcast(comm, in, out, c.count, c.dtype, c.root, nullptr);
    default:
      break;
  }
  const uint32_t a_flag = c.transpose_a ? uint32_t(SK_GEMM_TRANSPOSE_A) : 0u;
  const uint32_t b_flag = c.transpose_b ? uint32_t(SK_GEMM_TRANSPOSE_B) : 0u;
  sk_tensor a = c.transpose_a ? tensor(in, c.dtype, c.k, c.m) : tensor(in, c.dtype, c.m, c.k);
  sk_tensor b =
      c.transpose_b ? tensor(weights, c.dtype, c.n, c.k) : tensor(weights, c.dtype, c.k, c.n);
  sk_tensor out_c = tensor(out, c.out_dtype, c.m, c.n);
  if (!c.packed) return sk_allreduce_gemm(comm, &a, &b, nullptr, &out_c, a_flag | b_flag, nullptr);
  sk_packed* packed = nullptr;
  EXPECT_EQ(sk_pack(comm, &b, b_flag, &packed), SK_OK) << sk_last_error();
  const sk_status status = sk_allreduce_gemm(comm, &a, nullptr, packed, &out_c, a_flag, nullptr);
  EXPECT_EQ(sk_packed_free(packed), SK_OK);
  return status;
}

// Where the input lies in the output's memory, or the other way round, in an in-place call.
void* in_place_input(const Case& c, int rank, char* out, char* in) {
  const int64_t block = c.count * int64_t(size_of(c.dtype));
  if (c.kind == SK_OP_ALLGATHER) return out + block * rank;
  return c.kind == SK_OP_REDUCE_SCATTER ? in : out;
}

void run_case(sk_comm* comm, const Case& c, int rank, int ranks) {
  const auto inputs = make_inputs(c, ranks, false), weights = make_inputs(c, ranks, true);
  const size_t in_bytes = inputs[0].size() - 1;
  const size_t out_bytes =
      size_t(out_count(c, ranks)) * size_of(c.kind == SK_OP_ALLREDUCE_GEMM ? c.out_dtype : c.dtype);
  Memory in(comm, in_bytes, c.symmetric), out(comm, out_bytes, c.symmetric);
  char* from = in.data();
  char* to = out.data();
  if (c.in_place) {
    if (c.kind == SK_OP_REDUCE_SCATTER) {
      to = from + c.count * int64_t(size_of(c.dtype)) * rank;
    } else {
      from = static_cast<char*>(in_place_input(c, rank, to, from));
    }
  }
  std::memcpy(from, inputs[size_t(rank)].data(), in_bytes);
  std::vector<char> b = weights[size_t(rank)];
  ASSERT_EQ(call(comm, c, from, b.data(), to), SK_OK) << sk_last_error();
  if (!c.in_place) std::memset(from, kPoison, in_bytes);  // The call has returned: it is ours.
  const std::vector<double> want = expected(c, rank, inputs, weights);
  const int32_t dtype = c.kind == SK_OP_ALLREDUCE_GEMM ? c.out_dtype : c.dtype;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(load(to, int64_t(i), dtype), want[i]) << "element " << i << " of " << want.size();
  }
  std::memset(to, kPoison, out_bytes);
}

struct Setting {
  int ranks;
  uint32_t flags;
  int workers;
};

void run_world(const Setting& setting, int cases, uint64_t seed) {
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < setting.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      sk_comm_config config{};
      config.struct_size = sizeof(config);
      config.bootstrap = SK_BOOTSTRAP_THREADS;
      config.rank = rank;
      config.world_size = setting.ranks;
      config.flags = setting.flags;
      config.workers = setting.workers;
      config.timeout_ms = 60'000;
      config.symmetric_bytes_max = 256 << 20;
      sk_comm* comm = nullptr;
      ASSERT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
      std::mt19937_64 random(seed);  // The same cases on every rank.
      for (int i = 0; i < cases && !testing::Test::HasFailure(); ++i) {
        const Case c = random_case(random, setting.ranks);
        SCOPED_TRACE(testing::Message()
                     << "rank " << rank << " of " << setting.ranks << " case " << i << " kind "
                     << c.kind << " dtype " << c.dtype << " op " << c.op << " count " << c.count
                     << " mnk " << c.m << "," << c.n << "," << c.k << " symmetric " << c.symmetric
                     << " in_place " << c.in_place << " packed " << c.packed << " ta "
                     << c.transpose_a << " tb " << c.transpose_b);
        run_case(comm, c, rank, setting.ranks);
      }
      EXPECT_EQ(sk_comm_free(comm), SK_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sk_finalize(context), SK_OK) << sk_last_error();
}

class Ops : public testing::TestWithParam<Setting> {};

TEST_P(Ops, EqualTheOracle) {
  const uint64_t seed = base_seed();
  SCOPED_TRACE(testing::Message() << "replay with SK_TEST_SEED=" << seed);
  run_world(GetParam(), GetParam().ranks > 8 ? 12 : 40, seed);
}

INSTANTIATE_TEST_SUITE_P(Mapped, Ops,
                         testing::Values(Setting{1, 0, 1}, Setting{2, 0, 1}, Setting{3, 0, 1},
                                         Setting{4, 0, 1}, Setting{7, 0, 1}, Setting{16, 0, 1}));
INSTANTIATE_TEST_SUITE_P(PutOnly, Ops,
                         testing::Values(Setting{2, SK_COMM_PUT_ONLY, 1},
                                         Setting{3, SK_COMM_PUT_ONLY, 2},
                                         Setting{5, SK_COMM_PUT_ONLY, 1},
                                         Setting{16, SK_COMM_PUT_ONLY, 1}));
INSTANTIATE_TEST_SUITE_P(Workers, Ops,
                         testing::Values(Setting{1, 0, 3}, Setting{2, 0, 2}, Setting{3, 0, 3}));

}  // namespace
}  // namespace sk::testing_support
