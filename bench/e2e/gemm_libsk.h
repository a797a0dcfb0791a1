// A GEMM with packed weights through libsk's C ABI: sk_allreduce_gemm on a given communicator.
//
// On a communicator of one rank it is the GEMM alone.
#ifndef SK_BENCH_E2E_GEMM_LIBSK_H_
#define SK_BENCH_E2E_GEMM_LIBSK_H_

#include "bench/e2e/gemm_data.h"
#include "bench/e2e/launch.h"

namespace sk_bench {

constexpr int kSets = 3;  // Rotated, so that A and C do not stay in cache between calls.

// A dense matrix where it lies.
sk_tensor matrix_of(void* data, int32_t dtype, int64_t rows, int64_t cols);
// The values in the wanted type, at `to` and in aligned memory of its own.
void store(const std::vector<float>& values, bool bf16, void* to);
void* stored(bench_world* world, const std::vector<float>& values, bool bf16);

class LibskGemm {
 public:
  // Collective over `comm`. `data_rank` picks the data; C is memory of sk_alloc().
  LibskGemm(bench_world* world, sk_comm* comm, const Shape& shape, bool bf16, int data_rank);
  ~LibskGemm();
  LibskGemm(const LibskGemm&) = delete;
  LibskGemm& operator=(const LibskGemm&) = delete;

  void run(int set);
  float* out(int set) { return static_cast<float*>(c_[set]); }

 private:
  bench_world* world_;
  sk_comm* comm_;
  Shape shape_;
  bool bf16_;
  void* a_[kSets] = {};
  void* c_[kSets] = {};
  sk_packed* packed_ = nullptr;
};

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_GEMM_LIBSK_H_
