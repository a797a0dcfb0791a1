// Weights packed once in a GPU's memory: products with them are exact, whatever becomes of B and of
// the communicator; other devices refuse them. The driver is a fake, all else is the library.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "lib/op/dtype.h"
#include "tests/multi/gpu_world.h"

namespace sk::testing_ops {
namespace {

using cuda::Call;

struct Shape {
  int m, n, k;
};

// Whole numbers so small that every type and every sum holds them exactly.
float a_at(int rank, int i) { return float((i * 7 + rank) % 5 - 2); }
float b_at(int rank, int i) { return float((i * 3 + rank) % 7 - 3); }

size_t bytes_of(int32_t dtype) { return dtype == SK_F32 ? 4 : 2; }

void put(void* to, int32_t dtype, int i, float value) {
  if (dtype == SK_F32) {
    std::memcpy(static_cast<char*>(to) + i * 4, &value, 4);
  } else {
    const uint16_t bits = dtype == SK_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
    std::memcpy(static_cast<char*>(to) + i * 2, &bits, 2);
  }
}

sk_tensor tensor(void* data, int32_t dtype, int rows, int columns,
                 int32_t device_type = SK_DEVICE_CUDA) {
  sk_tensor t{};
  t.struct_size = sizeof(t);
  t.dtype = dtype;
  t.data = data;
  t.ndim = 2;
  t.device_type = device_type;
  t.shape[0] = rows;
  t.shape[1] = t.strides[0] = columns;
  t.strides[1] = 1;
  return t;
}

// A rank's packed B of [k, n], or its transpose; B itself is overwritten and gone.
sk_packed* pack(sk_comm* comm, Machine& machine, int rank, int32_t dtype, int k, int n,
                bool transposed) {
  void* const b = machine.take(size_t(k * n) * bytes_of(dtype));
  for (int row = 0; row < k; ++row) {
    for (int column = 0; column < n; ++column) {
      put(b, dtype, transposed ? column * k + row : row * n + column, b_at(rank, row * n + column));
    }
  }
  const sk_tensor t = transposed ? tensor(b, dtype, n, k) : tensor(b, dtype, k, n);
  sk_packed* packed = nullptr;
  EXPECT_EQ(sk_pack(comm, &t, transposed ? SK_GEMM_TRANSPOSE_B : 0, &packed), SK_OK)
      << sk_last_error();
  std::memset(b, 0x5a, size_t(k * n) * bytes_of(dtype));
  machine.fake.free(b);
  return packed;
}

// One product of all ranks; "" or the first wrong element of C, which began as poison.
std::string multiply(sk_comm* comm, Machine& machine, int rank, int ranks, int32_t dtype,
                     const Shape& shape, const sk_packed* packed, const sk_tensor* b = nullptr,
                     uint32_t flags = 0) {
  const auto [m, n, k] = shape;
  void* const a = machine.take(size_t(m * k) * bytes_of(dtype));
  auto* const c = static_cast<float*>(machine.take(size_t(m * n) * 4));
  const bool turned = (flags & SK_GEMM_TRANSPOSE_A) != 0;
  for (int i = 0; i < m * k; ++i) put(a, dtype, turned ? i % k * m + i / k : i, a_at(rank, i));
  sk_tensor ta = turned ? tensor(a, dtype, k, m) : tensor(a, dtype, m, k),
            tc = tensor(c, SK_F32, m, n);
  EXPECT_EQ(sk_allreduce_gemm(comm, &ta, b, packed, &tc, flags, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_comm_synchronize(comm, nullptr), SK_OK) << sk_last_error();
  std::string wrong;
  for (int i = 0; i < m * n && wrong.empty(); ++i) {
    float sum = 0;
    for (int each = 0; each < ranks; ++each)
      for (int l = 0; l < k; ++l) sum += a_at(each, i / n * k + l) * b_at(each, l * n + i % n);
    if (c[i] != sum) wrong = "element " + std::to_string(i);
  }
  // Others may still read and write it: their part of the launch is this rank's too.
  EXPECT_EQ(sk_barrier(comm, nullptr), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_comm_synchronize(comm, nullptr), SK_OK) << sk_last_error();
  machine.fake.free(a);
  machine.fake.free(c);
  return wrong;
}

TEST(GpuPack, ServesManyProducts) {
  Machine machine;
  for (const int32_t dtype : {SK_F32, SK_BF16, SK_F16}) {
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << "dtype " << dtype << ", transposed " << transposed);
      in_ranks(2, [&](sk_comm* comm, int rank) {
        // An odd k: columns are padded to what the copy engine reads.
        constexpr int kN = 131, kK = 37;
        sk_packed* const packed = pack(comm, machine, rank, dtype, kK, kN, transposed);
        const int launches = machine.fake.count(Call::cuLaunchKernelEx);
        for (const int m : {1, 130, 257})
          EXPECT_EQ(multiply(comm, machine, rank, 2, dtype, {m, kN, kK}, packed), "") << m;
        EXPECT_GE(machine.fake.count(Call::cuLaunchKernelEx), launches + 3);
        EXPECT_EQ(sk_packed_free(packed), SK_OK);
      });
    }
  }
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

TEST(GpuPack, IsForTheCopyEngineToo) {
  Machine machine;
  in_ranks(1, [&](sk_comm* comm, int) {
    sk_packed* const packed = pack(comm, machine, 0, SK_BF16, 64, 40, false);
    EXPECT_EQ(multiply(comm, machine, 0, 1, SK_BF16, {30, 40, 64}, packed), "");
    sk_packed* const wide = pack(comm, machine, 0, SK_BF16, 72, 300, true);
    EXPECT_EQ(multiply(comm, machine, 0, 1, SK_BF16, {30, 300, 72}, wide), "");
    EXPECT_EQ(sk_packed_free(packed), SK_OK);
    EXPECT_EQ(sk_packed_free(wide), SK_OK);
  });
}

// Eight multiprocessors of the fake GPU are four pairs; 512 x 512 has four tiles for them. Which
// kernel is launched, by the operation, and that the product is right.
TEST(GpuPack, PairsOfBlocksMultiplyWhereTheyFillTheGpu) {
  struct Row {
    const char* wish;
    int ranks;
    Shape shape;
    int32_t dtype;
    const char* kernel;
  };
  const Row rows[] = {{"1", 1, {512, 512, 16}, SK_BF16, "sk_run_pairs_bf16"},
                      {"1", 2, {512, 512, 16}, SK_F16, "sk_run_pairs_f16"},
                      {"0", 1, {512, 512, 16}, SK_BF16, "sk_run_boxes_bf16"},
                      {"1", 1, {512, 256, 16}, SK_BF16, "sk_run_narrow_bf16"},  // Too few tiles.
                      {"1", 1, {300, 1024, 16}, SK_BF16, "sk_run_boxes_bf16"},  // Rows for 3 of 4.
                      {"1", 5, {512, 512, 16}, SK_BF16, "sk_run_boxes_bf16"},   // One block each.
                      {"1", 1, {512, 512, 15}, SK_BF16, "sk_run_gemms"},        // Odd rows of A.
                      {"1", 1, {512, 512, 16}, SK_F32, "sk_run_gemms"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.kernel << " for " << row.ranks << " ranks, "
                                    << row.shape.m << " x " << row.shape.n << " x " << row.shape.k);
    setenv("SK_GPU_PAIRS", row.wish, 1);
    Machine machine;
    std::mutex mutex;
    std::set<std::string> kernels;
    in_ranks(row.ranks, [&](sk_comm* comm, int rank) {
      const auto [m, n, k] = row.shape;
      sk_packed* const packed = pack(comm, machine, rank, row.dtype, k, n, false);
      machine.fake.at_each_launch([&](const std::string& kernel) {
        const std::lock_guard lock(mutex);
        kernels.insert(kernel);
      });
      EXPECT_EQ(multiply(comm, machine, rank, row.ranks, row.dtype, row.shape, packed), "");
      EXPECT_EQ(sk_packed_free(packed), SK_OK);
    });
    machine.fake.at_each_launch(nullptr);
    EXPECT_TRUE(kernels.contains(row.kernel)) << testing::PrintToString(kernels);
    unsetenv("SK_GPU_PAIRS");
  }
}

// Which kernel multiplies it, by how it lies; nothing packs it where the copy engine can read it.
TEST(GpuPack, ABThatIsNotPackedIsReadAsItLies) {
  struct Row {
    Shape shape;
    int32_t dtype;
    bool transposed;
    size_t skipped;  // Bytes, behind an address of the GPU's.
    const char* kernel;
    bool turned_a = false;
  };
  const Row rows[] = {
      {{300, 72, 16}, SK_BF16, false, 0, "sk_run_narrow_kn_bf16"},
      {{304, 72, 16}, SK_BF16, false, 0, "sk_run_narrow_km_kn_bf16", true},
      {{512, 512, 16}, SK_F16, false, 0, "sk_run_pairs_km_kn_f16", true},
      {{304, 72, 16}, SK_BF16, true, 0, "sk_run_gemms", true},
      {{300, 72, 16}, SK_F16, true, 0, "sk_run_narrow_f16"},
      {{300, 1024, 16}, SK_F16, false, 0, "sk_run_boxes_kn_f16"},
      {{512, 512, 16}, SK_BF16, false, 0, "sk_run_pairs_kn_bf16"},
      {{512, 512, 16}, SK_BF16, true, 0, "sk_run_pairs_bf16"},
      {{300, 71, 16}, SK_BF16, false, 0, "sk_run_narrow_bf16"},  // Odd rows: packed.
      {{300, 72, 16}, SK_BF16, false, 2, "sk_run_gemms"},        // An odd address.
      {{300, 72, 16}, SK_F32, false, 0, "sk_run_gemms"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.kernel << ", " << row.shape.n << " columns");
    Machine machine;
    std::mutex mutex;
    std::set<std::string> kernels;
    in_ranks(1, [&](sk_comm* comm, int rank) {
      const auto [m, n, k] = row.shape;
      char* const memory = static_cast<char*>(machine.take(size_t(k * n) * 4 + row.skipped));
      void* const b = memory + row.skipped;
      for (int i = 0; i < k * n; ++i)
        put(b, row.dtype, row.transposed ? i % n * k + i / n : i, b_at(rank, i));
      const sk_tensor t = row.transposed ? tensor(b, row.dtype, n, k) : tensor(b, row.dtype, k, n);
      machine.fake.at_each_launch([&](const std::string& kernel) {
        const std::lock_guard lock(mutex);
        kernels.insert(kernel);
      });
      uint32_t flags = 0;
      if (row.transposed) flags |= SK_GEMM_TRANSPOSE_B;
      if (row.turned_a) flags |= SK_GEMM_TRANSPOSE_A;
      EXPECT_EQ(multiply(comm, machine, rank, 1, row.dtype, row.shape, nullptr, &t, flags), "");
      machine.fake.at_each_launch(nullptr);
      machine.fake.free(memory);
    });
    EXPECT_TRUE(kernels.contains(row.kernel)) << testing::PrintToString(kernels);
  }
}

TEST(GpuPack, AWishForPairsThatIsNoneIsRefused) {
  Machine machine;
  setenv("SK_GPU_PAIRS", "yes", 1);
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm_config config = gpu_config(0, 1);
  sk_comm* comm = nullptr;
  expect_refused(sk_comm_create(context, &config, &comm), SK_ERR_INVALID_ARGUMENT,
                 "SK_GPU_PAIRS is \"yes\": it must be 0 or 1");
  unsetenv("SK_GPU_PAIRS");
  EXPECT_EQ(sk_comm_create(context, &config, &comm), SK_OK) << sk_last_error();
  EXPECT_EQ(sk_comm_free(comm), SK_OK);
  EXPECT_EQ(sk_finalize(context), SK_OK);
}

TEST(GpuPack, OutlivesItsCommunicatorAndTakesNothing) {
  Machine machine;
  sk_packed* packed = nullptr;
  in_ranks(1, [&](sk_comm* comm, int) {
    packed = pack(comm, machine, 0, SK_F32, 5, 9, false);
    for (const auto& [k, n] : {std::pair(0, 4), std::pair(4, 0)}) {
      const sk_tensor nothing = tensor(nullptr, SK_F32, k, n);
      sk_packed* empty = nullptr;
      ASSERT_EQ(sk_pack(comm, &nothing, 0, &empty), SK_OK) << sk_last_error();
      EXPECT_EQ(sk_packed_free(empty), SK_OK);
    }
  });
  in_ranks(1, [&](sk_comm* comm, int) {
    EXPECT_EQ(multiply(comm, machine, 0, 1, SK_F32, {7, 9, 5}, packed), "");
  });
  EXPECT_GT(machine.fake.allocated_bytes(), 0u);
  EXPECT_EQ(sk_packed_free(packed), SK_OK);
  EXPECT_EQ(machine.fake.allocated_bytes(), 0u);
}

TEST(GpuPack, OfAnotherDeviceIsRefused) {
  Machine machine;
  sk_context* context = nullptr;
  ASSERT_EQ(sk_init(nullptr, &context), SK_OK);
  sk_comm_config config = gpu_config(0, 1);
  sk_comm *gpu = nullptr, *cpu = nullptr;
  ASSERT_EQ(sk_comm_create(context, &config, &gpu), SK_OK) << sk_last_error();
  config.device_type = SK_DEVICE_CPU;
  config.name = "cpu";
  ASSERT_EQ(sk_comm_create(context, &config, &cpu), SK_OK) << sk_last_error();
  float host[3][16] = {};
  void* const memory = machine.take(256);
  const sk_tensor b = tensor(host[0], SK_F32, 4, 4, SK_DEVICE_CPU);
  sk_packed *of_cpu = nullptr, *const of_gpu = pack(gpu, machine, 0, SK_F32, 4, 4, false);
  ASSERT_EQ(sk_pack(cpu, &b, 0, &of_cpu), SK_OK) << sk_last_error();

  sk_tensor a = tensor(memory, SK_F32, 4, 4),
            c = tensor(static_cast<char*>(memory) + 64, SK_F32, 4, 4);
  expect_refused(sk_allreduce_gemm(gpu, &a, nullptr, of_cpu, &c, 0, nullptr),
                 SK_ERR_INVALID_ARGUMENT,
                 "packed holds weights for the CPU (0:0); the communicator is on GPU 0 (2:0)");
  EXPECT_EQ(sk_allreduce_gemm(gpu, &a, nullptr, of_gpu, &c, 0, nullptr), SK_OK) << sk_last_error();
  a = tensor(host[1], SK_F32, 4, 4, SK_DEVICE_CPU);
  c = tensor(host[2], SK_F32, 4, 4, SK_DEVICE_CPU);
  expect_refused(sk_allreduce_gemm(cpu, &a, nullptr, of_gpu, &c, 0, nullptr),
                 SK_ERR_INVALID_ARGUMENT,
                 "packed holds weights for GPU 0 (2:0); the communicator is on the CPU (0:0)");
  EXPECT_EQ(sk_allreduce_gemm(cpu, &a, nullptr, of_cpu, &c, 0, nullptr), SK_OK) << sk_last_error();
  for (sk_packed* packed : {of_cpu, of_gpu}) EXPECT_EQ(sk_packed_free(packed), SK_OK);
  for (sk_comm* comm : {cpu, gpu}) EXPECT_EQ(sk_comm_free(comm), SK_OK);
  EXPECT_EQ(sk_finalize(context), SK_OK);
  machine.fake.free(memory);
}

// The planted bug: columns packed as close as they come, where products look for padded ones.
TEST(GpuPack, OfAnotherPitchIsNoticed) {
  using Launch = decltype(cuda::Driver::cuLaunchKernelEx);
  static Launch real = nullptr;
  Machine machine([](cuda::Driver& driver) {
    real = driver.cuLaunchKernelEx;
    driver.cuLaunchKernelEx = [](const cuda::abi::LaunchConfig* config,
                                 cuda::abi::Function function, void** parameters, void** extra) {
      if (config->block_x == cuda::kPackThreads)
        static_cast<cuda::BareWeights*>(parameters[0])->packed_bytes = 0;
      return real(config, function, parameters, extra);
    };
  });
  in_ranks(1, [&](sk_comm* comm, int) {
    sk_packed* const packed = pack(comm, machine, 0, SK_BF16, 37, 40, false);
    EXPECT_NE(multiply(comm, machine, 0, 1, SK_BF16, {30, 40, 37}, packed), "");
    EXPECT_EQ(sk_packed_free(packed), SK_OK);
  });
}

}  // namespace
}  // namespace sk::testing_ops
