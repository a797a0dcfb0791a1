#include "bench/e2e/gemm_libsk.h"

#include <cstdlib>
#include <cstring>

namespace sk_bench {

sk_tensor matrix_of(void* data, int32_t dtype, int64_t rows, int64_t cols) {
  sk_tensor t = {};
  t.struct_size = sizeof t;
  t.dtype = dtype;
  t.data = data;
  t.ndim = 2;
  t.shape[0] = rows;
  t.shape[1] = cols;
  t.strides[0] = cols;
  t.strides[1] = 1;
  return t;
}

void store(const std::vector<float>& values, bool bf16, void* to) {
  if (!bf16) {
    memcpy(to, values.data(), values.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) static_cast<uint16_t*>(to)[i] = to_bf16(values[i]);
}

void* stored(bench_world* world, const std::vector<float>& values, bool bf16) {
  void* p = nullptr;
  const size_t bytes = values.size() * (bf16 ? sizeof(uint16_t) : sizeof(float));
  if (posix_memalign(&p, 4096, bytes) != 0) bench_die(world, "out of memory");
  store(values, bf16, p);
  return p;
}

LibskGemm::LibskGemm(bench_world* world, sk_comm* comm, const Shape& shape, bool bf16,
                     int data_rank)
    : world_(world), comm_(comm), shape_(shape), bf16_(bf16) {
  const int32_t dtype = bf16 ? SK_BF16 : SK_F32;
  for (int set = 0; set < kSets; ++set) {
    const auto which = static_cast<uint32_t>(set);
    a_[set] = stored(world, gemm_matrix(data_rank, which, shape.m * shape.k), bf16);
    const auto bytes = static_cast<uint64_t>(shape.m * shape.n) * sizeof(float);
    must(world, sk_alloc(comm, bytes, &c_[set]), "sk_alloc");
    bench_poison(out(set), shape.m * shape.n);
  }
  void* b = stored(world, gemm_matrix(data_rank, kWeights, shape.k * shape.n), bf16);
  const sk_tensor weights = matrix_of(b, dtype, shape.k, shape.n);
  must(world, sk_pack(comm, &weights, 0, &packed_), "sk_pack");
  ::free(b);
}

LibskGemm::~LibskGemm() {
  sk_packed_free(packed_);
  for (int set = 0; set < kSets; ++set) {
    ::free(a_[set]);
    must(world_, sk_free(comm_, c_[set]), "sk_free");
  }
}

void LibskGemm::run(int set) {
  const sk_tensor a = matrix_of(a_[set], bf16_ ? SK_BF16 : SK_F32, shape_.m, shape_.k);
  sk_tensor c = matrix_of(c_[set], SK_F32, shape_.m, shape_.n);
  must(world_, sk_allreduce_gemm(comm_, &a, nullptr, packed_, &c, 0, nullptr), "sk_allreduce_gemm");
}

}  // namespace sk_bench
