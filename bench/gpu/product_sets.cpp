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

void ProductSets::fill_at_random() {
  for (Set& set : sets_) {
    set.a.fill(Fill::kRandom, 1);
    set.b.fill(Fill::kRandom, 2);
  }
}

Candidate ProductSets::of_cublaslt(CublasLt& peer) {
  const int count = peer.prepare(shape_);
  std::vector<Candidate> algorithms;
  for (int i = 0; i < count; ++i) {
    const auto enqueue = [this, &peer, i](int run) {
      const Set& set = of_run(run);
      peer.enqueue(i, set.a, set.b, set.c);
    };
    algorithms.push_back({"cublaslt", enqueue, "", /*is_peer=*/true});
  }
  fill_at_random();  // Zeros, which fresh memory may be, multiply faster.
  const size_t best = fastest(machine_, algorithms, kSets);
  Candidate found = std::move(algorithms[best]);
  found.note = fmt::format("version {}, algorithm {} of {}", peer.version(), best, count);
  return found;
}

void ProductSets::add_cublaslt(CublasLt& peer, const std::string& part,
                               std::vector<Candidate>& candidates) {
  std::string why = peer.absent();
  try {
    say_begun(fmt::format("{}: algorithms of cublaslt", shape_.name()));
    if (why.empty()) candidates.push_back(of_cublaslt(peer));
  } catch (const std::exception& problem) {
    why = problem.what();
  }
  if (!why.empty()) print_absent(part, shape_.name(), "cublaslt", why);
}

void ProductSets::check_candidate(const Candidate& candidate) {
  Set& set = sets_[0];
  set.c.poison();
  say_begun(fmt::format("{}: check of {}", shape_.name(), candidate.name));
  candidate.enqueue(0);
  machine_.synchronize();
  const std::string wrong = compare_product(shape_, {set.a.read()}, {set.b.read()}, set.c.read());
  if (!wrong.empty())
    throw std::runtime_error(fmt::format("{}, {}: {}", shape_.name(), candidate.name, wrong));
}

std::vector<Candidate> ProductSets::check(const std::string& part,
                                          const std::vector<Candidate>& candidates) {
  sets_[0].a.fill(Fill::kWhole, 1);
  sets_[0].b.fill(Fill::kWhole, 2);
  std::vector<Candidate> sound;
  for (const Candidate& candidate : candidates) {
    try {
      check_candidate(candidate);
      sound.push_back(candidate);
    } catch (const std::exception& problem) {
      if (!candidate.is_peer) throw;
      print_absent(part, shape_.name(), candidate.name, problem.what());
    }
  }
  fill_at_random();
  return sound;
}

void ProductSets::measure_checked(const std::string& part,
                                  const std::vector<Candidate>& candidates) {
  measure(machine_, part, shape_.name(), check(part, candidates), kSets);
}

}  // namespace sk::cuda
