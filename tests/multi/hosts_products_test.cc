// Products of ranks of several hosts have the bits that they have in one host, wherever ranks lie:
// of elements whose sums are rounded, so that another order of ranks gives others.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/multi/fault_backend.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

struct Product {
  int32_t dtype, out_dtype;
  int64_t m, n, k;
  int64_t gap = 0;  // Columns between the rows of C.
};

size_t bytes_of(int32_t dtype) { return dtype == SK_F64 ? 8 : dtype == SK_F32 ? 4 : 2; }

sk_tensor matrix(void* data, int32_t dtype, int64_t rows, int64_t cols, int64_t stride) {
  sk_tensor out{};
  out.struct_size = sizeof(out);
  out.data = data;
  out.dtype = dtype;
  out.ndim = 2;
  out.device_type = SK_DEVICE_CPU;
  out.shape[0] = rows;
  out.shape[1] = cols;
  out.strides[0] = stride;
  out.strides[1] = 1;
  return out;
}

std::vector<char> elements(int32_t dtype, int64_t count, uint64_t seed) {
  std::vector<char> out(size_t(count) * bytes_of(dtype));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> values(-1, 1);
  for (int64_t i = 0; i < count; ++i) {
    const double value = values(random);
    const auto narrow = float(value);
    uint32_t bits = 0;
    std::memcpy(&bits, &narrow, sizeof(bits));
    const auto upper = uint16_t(bits >> 16);  // bf16.
    const void* const from = dtype == SK_F64   ? static_cast<const void*>(&value)
                             : dtype == SK_F32 ? static_cast<const void*>(&narrow)
                                               : static_cast<const void*>(&upper);
    std::memcpy(out.data() + size_t(i) * bytes_of(dtype), from, bytes_of(dtype));
  }
  return out;
}

// C of each rank, whose workers are `workers`.
std::vector<std::vector<char>> products(const Product& p, int ranks, int workers) {
  std::vector<std::vector<char>> all(static_cast<size_t>(ranks));
  const int64_t stride = p.n + p.gap;
  in_thread_ranks(
      ranks,
      [&](sk_comm* comm, int rank) {
        std::vector<char> a = elements(p.dtype, p.m * p.k, 2 * uint64_t(rank) + 1);
        std::vector<char> b = elements(p.dtype, p.k * p.n, 2 * uint64_t(rank) + 2);
        std::vector<char>& c = all[size_t(rank)];
        c.assign(size_t(p.m * stride) * bytes_of(p.out_dtype), '\x55');
        const sk_tensor left = matrix(a.data(), p.dtype, p.m, p.k, p.k);
        const sk_tensor right = matrix(b.data(), p.dtype, p.k, p.n, p.n);
        sk_tensor out = matrix(c.data(), p.out_dtype, p.m, p.n, stride);
        for (int run = 0; run < 2; ++run) {
          ASSERT_EQ(sk_allreduce_gemm(comm, &left, &right, nullptr, &out, 0, nullptr), SK_OK)
              << sk_last_error();
        }
      },
      [&](sk_comm_config& config) { config.workers = workers; });
  return all;
}

struct Placed {
  const char* name;
  int ranks, ranks_per_host, workers;
};

void PrintTo(const Placed& placed, std::ostream* out) { *out << placed.name; }

class HostsProducts : public testing::TestWithParam<Placed> {};

TEST_P(HostsProducts, HaveTheBitsOfOneHost) {
  const Placed& placed = GetParam();
  for (const Product& p :
       {Product{SK_F32, SK_F32, 512, 700, 20}, Product{SK_BF16, SK_BF16, 1000, 1100, 33, 4},
        Product{SK_BF16, SK_F32, 777, 600, 10}, Product{SK_F64, SK_F64, 300, 519, 7, 5},
        Product{SK_F64, SK_F32, 400, 500, 7}, Product{SK_F32, SK_F32, 30, 20, 7}}) {
    SCOPED_TRACE(std::to_string(p.m) + " x " + std::to_string(p.n));
    const std::vector<std::vector<char>> of_one_host = products(p, placed.ranks, placed.workers);
    use_hosts(placed.ranks_per_host);
    const std::vector<std::vector<char>> of_hosts = products(p, placed.ranks, placed.workers);
    use_backend(nullptr);
    for (int rank = 0; rank < placed.ranks; ++rank) {
      ASSERT_EQ(of_hosts[size_t(rank)] == of_one_host[0], true) << "rank " << rank;
      ASSERT_EQ(of_one_host[size_t(rank)] == of_one_host[0], true) << "rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostsProducts,
                         testing::Values(Placed{"two_alone", 2, 1, 1},
                                         Placed{"four_in_pairs", 4, 2, 1},
                                         Placed{"four_in_pairs_of_two_workers", 4, 2, 2},
                                         Placed{"three_and_one", 4, 3, 1},
                                         Placed{"five_in_pairs", 5, 2, 3},
                                         Placed{"eight_in_pairs", 8, 2, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sk::testing_ops
