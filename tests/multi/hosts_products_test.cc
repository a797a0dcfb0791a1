// Products of ranks of several hosts have the bits that they have in one host, wherever ranks lie:
// of elements whose sums are rounded, so that another order of ranks gives others.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
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
  uint32_t flags = 0;
  bool packed = false;
  bool small = false;  // So that it is flat between more than two hosts.
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

// Of an f32 below 1, whose last bits are cut; 0 of one that f16 has no exponent for.
uint16_t half_of(uint32_t bits) {
  const uint32_t exponent = bits >> 23 & 0xff, least = 127 - 14;
  if (exponent < least) return 0;
  return uint16_t((bits >> 16 & 0x8000) + ((exponent - least + 1) << 10) + (bits >> 13 & 0x3ff));
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
    const auto upper = dtype == SK_F16 ? half_of(bits) : uint16_t(bits >> 16);
    const void* const from = dtype == SK_F64   ? static_cast<const void*>(&value)
                             : dtype == SK_F32 ? static_cast<const void*>(&narrow)
                                               : static_cast<const void*>(&upper);
    std::memcpy(out.data() + size_t(i) * bytes_of(dtype), from, bytes_of(dtype));
  }
  return out;
}

// What the library says of plans.
struct Told {
  std::mutex mutex;
  int plans = 0, along_hosts = 0;

  static void line(void* user, int32_t, const char*, const char* message) {
    auto* const told = static_cast<Told*>(user);
    const std::string_view text(message);
    const std::lock_guard lock(told->mutex);
    told->plans += text.find("plan of allreduce_gemm") != text.npos;
    told->along_hosts += text.find("in two levels, from host to host") != text.npos;
  }
};

// C of each rank, whose workers are `workers`.
std::vector<std::vector<char>> products(const Product& p, int ranks, int workers, Told& told) {
  std::vector<std::vector<char>> all(static_cast<size_t>(ranks));
  const int64_t stride = p.n + p.gap;
  sk_config library{};
  library.struct_size = sizeof(library);
  library.log_level = SK_LOG_INFO;
  library.log = Told::line;
  library.log_user = &told;
  in_thread_ranks(
      ranks,
      [&](sk_comm* comm, int rank) {
        std::vector<char> a = elements(p.dtype, p.m * p.k, 2 * uint64_t(rank) + 1);
        std::vector<char> b = elements(p.dtype, p.k * p.n, 2 * uint64_t(rank) + 2);
        std::vector<char>& c = all[size_t(rank)];
        c.assign(size_t(p.m * stride) * bytes_of(p.out_dtype), '\x55');
        const bool turned_a = p.flags & SK_GEMM_TRANSPOSE_A,
                   turned_b = p.flags & SK_GEMM_TRANSPOSE_B;
        const sk_tensor left = turned_a ? matrix(a.data(), p.dtype, p.k, p.m, p.m)
                                        : matrix(a.data(), p.dtype, p.m, p.k, p.k);
        const sk_tensor right = turned_b ? matrix(b.data(), p.dtype, p.n, p.k, p.k)
                                         : matrix(b.data(), p.dtype, p.k, p.n, p.n);
        sk_tensor out = matrix(c.data(), p.out_dtype, p.m, p.n, stride);
        sk_packed* packed = nullptr;
        if (p.packed) {
          ASSERT_EQ(sk_pack(comm, &right, p.flags & SK_GEMM_TRANSPOSE_B, &packed), SK_OK)
              << sk_last_error();
        }
        const uint32_t flags = p.packed ? p.flags & SK_GEMM_TRANSPOSE_A : p.flags;
        for (int run = 0; run < 2; ++run) {
          ASSERT_EQ(sk_allreduce_gemm(comm, &left, p.packed ? nullptr : &right, packed, &out, flags,
                                      nullptr),
                    SK_OK)
              << sk_last_error();
        }
        EXPECT_EQ(p.packed ? sk_packed_free(packed) : SK_OK, SK_OK) << sk_last_error();
      },
      [&](sk_comm_config& config) { config.workers = workers; }, &library);
  return all;
}

struct Placed {
  const char* name;
  int ranks, ranks_per_host, workers;
  bool uneven = false;  // So that narrow results are flat, whose sums would double what goes up.

  bool goes_along_hosts(const Product& p) const {
    const bool narrow = p.out_dtype != (p.dtype == SK_F64 ? SK_F64 : SK_F32);
    if (ranks_per_host == 1) return false;
    return p.small ? ranks <= 2 * ranks_per_host : !(narrow && uneven);
  }
};

void PrintTo(const Placed& placed, std::ostream* out) { *out << placed.name; }

class HostsProducts : public testing::TestWithParam<Placed> {};

TEST_P(HostsProducts, HaveTheBitsOfOneHost) {
  const Placed& placed = GetParam();
  for (const Product& p :
       {Product{SK_F32, SK_F32, 512, 700, 20}, Product{SK_BF16, SK_BF16, 1000, 1100, 33, 4},
        Product{SK_BF16, SK_F32, 777, 600, 10}, Product{SK_F64, SK_F64, 300, 519, 7, 5},
        Product{SK_F64, SK_F32, 400, 500, 7},
        Product{.dtype = SK_F16, .out_dtype = SK_F16, .m = 700, .n = 900, .k = 40, .packed = true},
        // Tiles of several pieces, whose products take several steps of k.
        Product{SK_F32, SK_F32, 300, 2100, 2500, 3, SK_GEMM_TRANSPOSE_A | SK_GEMM_TRANSPOSE_B},
        Product{SK_BF16, SK_BF16, 1030, 1000, 1300, 0, SK_GEMM_TRANSPOSE_A, /*packed=*/true},
        Product{SK_F16, SK_F32, 520, 1500, 20, 0, SK_GEMM_TRANSPOSE_B, /*packed=*/true},
        Product{.dtype = SK_F32, .out_dtype = SK_F32, .m = 30, .n = 20, .k = 7, .small = true}}) {
    SCOPED_TRACE(std::to_string(p.m) + " x " + std::to_string(p.n));
    Told near, told;
    const std::vector<std::vector<char>> of_one_host =
        products(p, placed.ranks, placed.workers, near);
    use_hosts(placed.ranks_per_host);
    const std::vector<std::vector<char>> of_hosts = products(p, placed.ranks, placed.workers, told);
    use_backend(nullptr);
    // Each rank tells of its plan.
    EXPECT_EQ(near.along_hosts, 0);
    EXPECT_EQ(told.plans, placed.ranks);
    EXPECT_EQ(told.along_hosts, placed.goes_along_hosts(p) ? placed.ranks : 0);
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
                                         Placed{"three_and_one", 4, 3, 1, /*uneven=*/true},
                                         Placed{"five_in_pairs", 5, 2, 3},
                                         Placed{"eight_in_pairs", 8, 2, 1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sk::testing_ops
