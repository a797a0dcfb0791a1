#include "bench/gpu/product_sets.h"

#include <fmt/format.h>

namespace sk::cuda {

ProductSets::Set::Set(const Machine& machine, const Shape& shape)
    : a(machine, shape.a_bytes()), b(machine, shape.b_bytes()), c(machine, shape.c_bytes()) {}

ProductSets::ProductSets(const Machine& machine, const Shape& shape)
    : machine_(machine), shape_(shape) {
  for (int i = 0; i < kSets; ++i) sets_.emplace_back(machine, shape);
}

Candidate ProductSets::of_plan(const char* name, ProductPlan& plan) const {
  return {name,
          [this, &plan](int run) {
            const Set& set = of_run(run);
            plan.enqueue({{set.a.data(), set.c.data(), set.b.data()}});
          },
          plan.note()};
}

Candidate ProductSets::of_bare(const std::string& name, const BareProduct& bare,
                               uint32_t band_rows) const {
  return {name,
          [this, &bare, band_rows](int run) {
            const Set& set = of_run(run);
            bare.enqueue(shape_, set.a, set.b, set.c, band_rows);
          },
          ""};
}

Candidate ProductSets::of_cublaslt(CublasLt& peer) const {
  const int count = peer.prepare(shape_);
  const int best = best_algorithm(peer, count);
  return {"cublaslt",
          [this, &peer, best](int run) {
            const Set& set = of_run(run);
            peer.enqueue(best, set.a, set.b, set.c);
          },
          fmt::format("version {}, algorithm {} of {}", peer.version(), best, count)};
}

// By two runs of each over all sets.
int ProductSets::best_algorithm(const CublasLt& peer, int count) const {
  int best = 0;
  double best_us = 0;
  for (int i = 0; i < count; ++i) {
    const Replay replay(machine_, [&] {
      for (const Set& set : sets_) peer.enqueue(i, set.a, set.b, set.c);
    });
    time_us(machine_, replay);
    const double us = time_us(machine_, replay);
    if (i > 0 && us >= best_us) continue;
    best = i;
    best_us = us;
  }
  return best;
}

void ProductSets::check_candidate(const Candidate& candidate) {
  Set& set = sets_[0];
  set.c.poison();
  candidate.enqueue(0);
  machine_.synchronize();
  const std::string wrong = compare_product(shape_, {set.a.read()}, {set.b.read()}, set.c.read());
  if (!wrong.empty())
    throw std::runtime_error(fmt::format("{}, {}: {}", shape_.name(), candidate.name, wrong));
}

void ProductSets::measure_checked(const std::string& part,
                                  const std::vector<Candidate>& candidates) {
  sets_[0].a.fill(Fill::kWhole, 1);
  sets_[0].b.fill(Fill::kWhole, 2);
  for (const Candidate& candidate : candidates) check_candidate(candidate);
  for (Set& set : sets_) {
    set.a.fill(Fill::kRandom, 1);
    set.b.fill(Fill::kRandom, 2);
  }
  measure(machine_, part, shape_.name(), candidates, kSets);
}

}  // namespace sk::cuda
