// Matrices of one product, several times over, and candidates that multiply them in turn.
#ifndef SK_BENCH_GPU_PRODUCT_SETS_H_
#define SK_BENCH_GPU_PRODUCT_SETS_H_

#include "bench/gpu/bare.h"
#include "bench/gpu/cublaslt.h"
#include "bench/gpu/product_plan.h"
#include "bench/gpu/rounds.h"

namespace sk::cuda {

class ProductSets {
 public:
  static constexpr int kSets = 3;  // So that small matrices do not stay in the cache.

  ProductSets(const Machine& machine, const Shape& shape);

  Candidate of_plan(const char* name, ProductPlan& plan) const;
  Candidate of_bare(const std::string& name, const BareProduct& bare,
                    uint32_t band_rows = BareProduct::kBandRows) const;
  // By the fastest algorithm that the library names; it must be there.
  Candidate of_cublaslt(CublasLt& peer) const;

  // Compares each on whole numbers, then measures them on others.
  void measure_checked(const std::string& part, const std::vector<Candidate>& candidates);

 private:
  struct Set {
    Matrix a, b, c;
    Set(const Machine& machine, const Shape& shape);
  };
  const Set& of_run(int run) const { return sets_[size_t(run) % kSets]; }
  int best_algorithm(const CublasLt& peer, int count) const;
  void check_candidate(const Candidate& candidate);

  const Machine& machine_;
  const Shape shape_;
  std::vector<Set> sets_;
};

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_PRODUCT_SETS_H_
