// One product three ways: as a plan of one rank, by the bare kernel of the same tile, by cuBLASLt.
// And pairs of blocks, two of a cluster for each tile, beside single ones, with and without a plan.
#include <fmt/format.h>

#include "bench/gpu/bare.h"
#include "bench/gpu/cublaslt.h"
#include "bench/gpu/parts.h"
#include "bench/gpu/product_plan.h"
#include "bench/gpu/rounds.h"

namespace sk::cuda {
namespace {

constexpr int kSets = 3;  // So that small matrices do not stay in the cache.

struct Set {
  Matrix a, b, c;
  Set(const Machine& machine, const Shape& shape)
      : a(machine, shape.a_bytes()), b(machine, shape.b_bytes()), c(machine, shape.c_bytes()) {}
};

// The fastest of those that the library names, by three runs of each.
int best_algorithm(const Machine& machine, const CublasLt& peer, int count,
                   const std::vector<Set>& sets) {
  int best = 0;
  double best_us = 0;
  for (int i = 0; i < count; ++i) {
    const Replay replay(machine, [&] {
      for (const Set& set : sets) peer.enqueue(i, set.a, set.b, set.c);
    });
    time_us(machine, replay);
    const double us = time_us(machine, replay);
    if (i > 0 && us >= best_us) continue;
    best = i;
    best_us = us;
  }
  return best;
}

void check_candidate(const Machine& machine, const Shape& shape, const Candidate& candidate,
                     Set& set) {
  set.c.poison();
  candidate.enqueue(0);
  machine.synchronize();
  const std::string wrong = compare_product(shape, {set.a.read()}, {set.b.read()}, set.c.read());
  if (!wrong.empty())
    throw std::runtime_error(fmt::format("{}, {}: {}", shape.name(), candidate.name, wrong));
}

// Compared on whole numbers first.
void measure_checked(const Machine& machine, const std::string& part, const Shape& shape,
                     const std::vector<Candidate>& candidates, std::vector<Set>& sets) {
  const auto fill = [](Set& set, Fill how) {
    set.a.fill(how, 1);
    set.b.fill(how, 2);
  };
  fill(sets[0], Fill::kWhole);
  for (const Candidate& candidate : candidates) check_candidate(machine, shape, candidate, sets[0]);
  for (Set& set : sets) fill(set, Fill::kRandom);
  measure(machine, part, shape.name(), candidates, kSets);
}

void measure_shape(const Machine& machine, const BareProduct& bare, CublasLt& peer,
                   const Shape& shape) {
  std::vector<Set> sets;
  for (int i = 0; i < kSets; ++i) sets.emplace_back(machine, shape);
  ProductPlan plan(machine, shape, /*ranks=*/1, machine.workers(1));
  std::vector<Candidate> candidates;
  candidates.push_back({"plan",
                        [&](int run) {
                          const Set& set = sets[size_t(run) % kSets];
                          plan.enqueue({{set.a.data(), set.c.data(), set.b.data()}});
                        },
                        plan.note()});
  const std::string why =
      plan.is_narrow() ? "its blocks are wider than the plan's" : bare.absent(shape);
  if (why.empty()) {
    candidates.push_back({"bare",
                          [&](int run) {
                            const Set& set = sets[size_t(run) % kSets];
                            bare.enqueue(shape, set.a, set.b, set.c);
                          },
                          ""});
  } else {
    print_absent("gemm", shape.name(), "bare", why);
  }
  if (peer.absent().empty()) {
    const int count = peer.prepare(shape);
    const int best = best_algorithm(machine, peer, count, sets);
    candidates.push_back(
        {"cublaslt",
         [&peer, &sets, best](int run) {
           const Set& set = sets[size_t(run) % kSets];
           peer.enqueue(best, set.a, set.b, set.c);
         },
         fmt::format("version {}, algorithm {} of {}", peer.version(), best, count)});
  } else {
    print_absent("gemm", shape.name(), "cublaslt", peer.absent());
  }
  measure_checked(machine, "gemm", shape, candidates, sets);
}

void measure_paired(const Machine& machine, const BareProduct& bare, const BareProduct& bare_pairs,
                    const Shape& shape) {
  const uint32_t pair_count = machine.pair_workers(1);
  const std::string why = ProductPlan::no_pairs(shape, pair_count);
  if (!why.empty()) return print_absent("pairs", shape.name(), "plan_pairs", why);
  std::vector<Set> sets;
  for (int i = 0; i < kSets; ++i) sets.emplace_back(machine, shape);
  ProductPlan blocks(machine, shape, /*ranks=*/1, machine.workers(1));
  ProductPlan pairs(machine, shape, /*ranks=*/1, pair_count, {.pairs = true});
  const auto planned = [&](const char* name, ProductPlan& plan) {
    return Candidate{name,
                     [&](int run) {
                       const Set& set = sets[size_t(run) % kSets];
                       plan.enqueue({{set.a.data(), set.c.data(), set.b.data()}});
                     },
                     plan.note()};
  };
  const auto unplanned = [&](const char* name, const BareProduct& product) {
    return Candidate{name,
                     [&](int run) {
                       const Set& set = sets[size_t(run) % kSets];
                       product.enqueue(shape, set.a, set.b, set.c);
                     },
                     ""};
  };
  measure_checked(machine, "pairs", shape,
                  {planned("plan", blocks), planned("plan_pairs", pairs), unplanned("bare", bare),
                   unplanned("bare_pairs", bare_pairs)},
                  sets);
}

// The bare kernels in bands of more and more rows: what the order of tiles is worth.
void measure_order(const Machine& machine, const BareProduct& bare, const BareProduct& bare_pairs,
                   const Shape& shape) {
  std::vector<Set> sets;
  for (int i = 0; i < kSets; ++i) sets.emplace_back(machine, shape);
  std::vector<Candidate> candidates;
  for (const bool pairs : {false, true}) {
    const BareProduct& product = pairs ? bare_pairs : bare;
    if (!product.absent(shape).empty()) continue;
    for (const uint32_t band_rows : {1u, 4u, 8u, 16u, 32u}) {
      candidates.push_back({fmt::format("{}_bands_of_{}", pairs ? "pairs" : "bare", band_rows),
                            [&, band_rows](int run) {
                              const Set& set = sets[size_t(run) % kSets];
                              product.enqueue(shape, set.a, set.b, set.c, band_rows);
                            },
                            ""});
    }
  }
  measure_checked(machine, "order", shape, candidates, sets);
}

}  // namespace

void measure_gemm(const Machine& machine) {
  const std::vector<Shape> real = {{8192, 8192, 8192}, {4096, 4096, 4096}, {8192, 28672, 8192},
                                   {1000, 777, 3333},  {16, 8192, 8192},   {128, 8192, 8192},
                                   {4096, 4096, 512},  {300, 5000, 4100}};
  const std::vector<Shape> fake = {{1000, 300, 64}, {130, 72, 64}, {20, 33, 35}};
  const BareProduct bare(machine);
  CublasLt peer(machine);
  for (const Shape& shape : machine.is_real() ? real : fake)
    measure_shape(machine, bare, peer, shape);
}

void measure_pairs(const Machine& machine) {
  const std::vector<Shape> real = {
      {8192, 8192, 8192}, {4096, 4096, 4096}, {8192, 28672, 8192}, {4096, 4096, 512}};
  const std::vector<Shape> fake = {{1000, 300, 64}, {130, 72, 64}};
  const BareProduct bare(machine), bare_pairs(machine, /*pairs=*/true);
  for (const Shape& shape : machine.is_real() ? real : fake)
    measure_paired(machine, bare, bare_pairs, shape);
  measure_order(machine, bare, bare_pairs, machine.is_real() ? real[0] : fake[1]);
}

}  // namespace sk::cuda
