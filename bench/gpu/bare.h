// The product kernel without a plan: what plans cost is measured against it.
#ifndef SK_BENCH_GPU_BARE_H_
#define SK_BENCH_GPU_BARE_H_

#include "bench/gpu/matrices.h"

namespace sk::cuda {

class BareProduct {
 public:
  explicit BareProduct(const Machine& machine);
  ~BareProduct();
  BareProduct(const BareProduct&) = delete;
  BareProduct& operator=(const BareProduct&) = delete;

  // Why there is none for the shape on this GPU; "": there is.
  std::string absent(const Shape& shape) const;
  // C = A B on the machine's stream.
  void enqueue(const Shape& shape, const Matrix& a, const Matrix& b, const Matrix& c) const;

 private:
  const Machine& machine_;
  abi::Module module_ = nullptr;
  abi::Function function_ = nullptr;
};

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_BARE_H_
