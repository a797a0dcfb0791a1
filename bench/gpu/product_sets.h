// Matrices of one product, several times over, and candidates that multiply them in turn.
#ifndef SK_BENCH_GPU_PRODUCT_SETS_H_
#define SK_BENCH_GPU_PRODUCT_SETS_H_

#include <optional>

#include "bench/gpu/bare.h"
#include "bench/gpu/cublaslt.h"
#include "bench/gpu/product_plan.h"
#include "bench/gpu/rounds.h"

namespace sk::cuda {

class ProductSets {
 public:
  static constexpr int kSets = 3;  // So that small matrices do not stay in the cache.

  // `with_kn`: B as k rows of n too.
  ProductSets(const Machine& machine, const Shape& shape, bool with_kn = false);

  Candidate of_plan(const char* name, ProductPlan& plan, OfB of_b = OfB::kPacked) const;
  Candidate of_bare(const std::string& name, const BareProduct& bare,
                    uint32_t band_rows = BareProduct::kBandRows) const;
  // Adds the peer, by the fastest algorithm that it names on random matrices; else says of `part`
  // why it is absent.
  void add_cublaslt(CublasLt& peer, const std::string& part, std::vector<Candidate>& candidates,
                    OfB of_b = OfB::kNK);

  // Compares each on whole numbers, and leaves others in the matrices. What is wrong is thrown, but
  // of a peer it is said that it is absent of `part`. Those that are there.
  std::vector<Candidate> check(const std::string& part, const std::vector<Candidate>& candidates);
  // The same, then measures them.
  void measure_checked(const std::string& part, const std::vector<Candidate>& candidates);

 private:
  struct Set {
    Matrix a, b, c;
    std::optional<Matrix> kn;
    Set(const Machine& machine, const Shape& shape, bool with_kn);
    const Matrix& of(OfB of_b) const { return of_b == OfB::kKN ? *kn : b; }
  };
  const Set& of_run(int run) const { return sets_[size_t(run) % kSets]; }
  Candidate of_cublaslt(CublasLt& peer, const std::string& name, OfB of_b);
  void fill_at_random();
  void check_candidate(const Candidate& candidate);

  const Machine& machine_;
  const Shape shape_;
  std::vector<Set> sets_;
};

}  // namespace sk::cuda

#endif  // SK_BENCH_GPU_PRODUCT_SETS_H_
