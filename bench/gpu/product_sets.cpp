#include "bench/gpu/product_sets.h"

#include <fmt/format.h>

namespace sk::cuda {

ProductSets::Set::Set(const Machine& machine, const Shape& shape, bool with_kn)
    : a(machine, shape.a_bytes()), b(machine, shape.b_bytes()), c(machine, shape.c_bytes()) {
  if (with_kn) kn.emplace(machine, shape.kn_bytes());
}

ProductSets::ProductSets(const Machine& machine, const Shape& shape, bool with_kn)
    : machine_(machine), shape_(shape) {
  for (int i = 0; i < kSets; ++i) sets_.emplace_back(machine, shape, with_kn);
}

Candidate ProductSets::of_plan(const char* name, ProductPlan& plan, OfB of_b) const {
  return {name,
          [this, &plan, of_b](int run) {
            const Set& set = of_run(run);
            plan.enqueue({{set.a.data(), set.c.data(), set.of(of_b).data()}});
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
    if (set.kn) set.kn->fill(Fill::kRandom, 2);
  }
}

Candidate ProductSets::of_cublaslt(CublasLt& peer, const std::string& name, OfB of_b) {
  const int count = peer.prepare(shape_, of_b);
  std::vector<Candidate> algorithms;
  for (int i = 0; i < count; ++i) {
    const auto enqueue = [this, &peer, i, of_b](int run) {
      const Set& set = of_run(run);
      peer.enqueue(i, set.a, set.of(of_b), set.c);
    };
    algorithms.push_back({name, enqueue, "", /*is_peer=*/true});
  }
  fill_at_random();  // Zeros, which fresh memory may be, multiply faster.
  const size_t best = fastest(machine_, algorithms, kSets);
  Candidate found = std::move(algorithms[best]);
  found.note = fmt::format("version {}, algorithm {} of {}", peer.version(), best, count);
  return found;
}

void ProductSets::add_cublaslt(CublasLt& peer, const std::string& part,
                               std::vector<Candidate>& candidates, OfB of_b) {
  const std::string name = of_b == OfB::kKN ? "cublaslt_kn" : "cublaslt";
  std::string why = peer.absent();
  try {
    say_begun(fmt::format("{}: algorithms of {}", shape_.name(), name));
    if (why.empty()) candidates.push_back(of_cublaslt(peer, name, of_b));
  } catch (const std::exception& problem) {
    why = problem.what();
  }
  if (!why.empty()) print_absent(part, shape_.name(), name, why);
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
  if (sets_[0].kn) sets_[0].kn->write(turned_b(shape_, sets_[0].b.read()));
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
