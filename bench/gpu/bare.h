// The product kernel without a plan: what plans cost is measured against it.
#ifndef SK_BENCH_GPU_BARE_H_
#define SK_BENCH_GPU_BARE_H_

#include "bench/gpu/matrices.h"

namespace sk::cuda {

class BareProduct {
 public:
  // `pairs`: by two blocks of a cluster for each tile of 256 rows.
  explicit BareProduct(const Machine& machine, bool pairs = false);
  BareProduct(const BareProduct&) = delete;
  BareProduct& operator=(const BareProduct&) = delete;

  // Why there is none for the shape on this GPU; "": there is.
  std::string absent(const Shape& shape) const;
  // C = A B on the machine's stream; tiles in bands of `band_rows` rows of them.
  void enqueue(const Shape& shape, const Matrix& a, const Matrix& b, const Matrix& c,
               uint32_t band_rows = kBandRows) const;
  static constexpr uint32_t kBandRows = 8;

 private:
  const Machine& machine_;
  const bool pairs_;
  const Kernel& kernel_;  // The plan's of the same tile: its needs are this one's.
  abi::Function function_ = nullptr;
};

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_BARE_H_
