// cuBLASLt, loaded at run time where it is installed: the peer that products are measured against.
#ifndef SK_BENCH_GPU_CUBLASLT_H_
#define SK_BENCH_GPU_CUBLASLT_H_

#include "bench/gpu/matrices.h"

namespace sk::cuda {

class CublasLt {
 public:
  explicit CublasLt(const Machine& machine);
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Why it cannot be used; "": it can.
  const std::string& absent() const { return absent_; }
  uint64_t version() const;  // 130101 is 13.1.1; 0: absent.

  // Gets its best algorithms for the shape, as many as it names, up to 8: at least one, or throws.
  // B is as n rows of k, or as k rows of n (OfB::kKN).
  int prepare(const Shape& shape, OfB of_b = OfB::kNK);
  // C = A B on the machine's stream, by one of them; 0 is its own choice.
  void enqueue(int algorithm, const Matrix& a, const Matrix& b, const Matrix& c) const;

 private:
  struct Library;
  struct Product;
  const Machine& machine_;
  std::string absent_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Product> product_;
  std::unique_ptr<Matrix> workspace_;
};

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_CUBLASLT_H_
