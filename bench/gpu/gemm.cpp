// One product three ways: as a plan of one rank, by the bare kernel of the same tile, by cuBLASLt.
// Plans of a B that nobody packs, however it lies, beside those of a packed one.
// And plans of pairs of blocks, two of a cluster for each tile, beside those of single ones.
#include "bench/gpu/parts.h"
#include "bench/gpu/product_sets.h"

namespace sk::cuda {
namespace {

void measure_shape(const Machine& machine, const BareProduct& bare, CublasLt& peer,
                   const Shape& shape) {
  ProductSets sets(machine, shape);
  ProductPlan plan(machine, shape, /*ranks=*/1, machine.workers(1));
  std::vector<Candidate> candidates = {sets.of_plan("plan", plan)};
  const std::string why =
      plan.is_narrow() ? "its blocks are wider than the plan's" : bare.absent(shape);
  if (why.empty()) {
    candidates.push_back(sets.of_bare("bare", bare));
  } else {
    print_absent("gemm", shape.name(), "bare", why);
  }
  sets.add_cublaslt(peer, "gemm", candidates);
  sets.measure_checked("gemm", candidates);
}

// A packed B, one that is [n, k] and one that is [k, n]; the peer with both of these.
void measure_layouts(const Machine& machine, CublasLt& peer, CublasLt& peer_kn,
                     const Shape& shape) {
  ProductSets sets(machine, shape, /*with_kn=*/true);
  const uint32_t workers = machine.workers(1);
  ProductPlan packed(machine, shape, /*ranks=*/1, workers);
  ProductPlan nk(machine, shape, /*ranks=*/1, workers, {}, OfB::kNK);
  ProductPlan kn(machine, shape, /*ranks=*/1, workers, {}, OfB::kKN);
  std::vector<Candidate> candidates = {sets.of_plan("plan", packed),
                                       sets.of_plan("plan_nk", nk, OfB::kNK),
                                       sets.of_plan("plan_kn", kn, OfB::kKN)};
  sets.add_cublaslt(peer, "raw", candidates);
  sets.add_cublaslt(peer_kn, "raw", candidates, OfB::kKN);
  sets.measure_checked("raw", candidates);
}

void measure_paired(const Machine& machine, const BareProduct& bare, const BareProduct& bare_pairs,
                    const Shape& shape) {
  const uint32_t pair_count = machine.pair_workers(1);
  const std::string why = ProductPlan::no_pairs(shape, pair_count);
  if (!why.empty()) return print_absent("pairs", shape.name(), "plan_pairs", why);
  ProductSets sets(machine, shape);
  ProductPlan blocks(machine, shape, /*ranks=*/1, machine.workers(1));
  ProductPlan pairs(machine, shape, /*ranks=*/1, pair_count, {.pairs = true});
  sets.measure_checked("pairs",
                       {sets.of_plan("plan", blocks), sets.of_plan("plan_pairs", pairs),
                        sets.of_bare("bare", bare), sets.of_bare("bare_pairs", bare_pairs)});
}

}  // namespace

void measure_gemm(const Machine& machine, const Wanted& wanted) {
  const ShapeCase cases[] = {
      {{8192, 8192, 8192}, {1000, 300, 64}}, {{4096, 4096, 4096}, {130, 72, 64}},
      {{8192, 28672, 8192}, {20, 33, 35}},   {{1000, 777, 3333}, {20, 33, 35}},
      {{16, 8192, 8192}, {16, 33, 64}},      {{128, 8192, 8192}, {128, 33, 64}},
      {{4096, 4096, 512}, {130, 72, 64}},    {{300, 5000, 4100}, {30, 50, 41}},
  };
  const BareProduct bare(machine);
  CublasLt peer(machine);
  for (const ShapeCase& each : cases)
    if (wanted(each.real.name())) measure_shape(machine, bare, peer, each.on(machine));
}

void measure_raw(const Machine& machine, const Wanted& wanted) {
  const ShapeCase cases[] = {{{8192, 8192, 8192}, {300, 264, 64}},
                             {{4096, 4096, 4096}, {130, 72, 64}},
                             {{128, 8192, 8192}, {128, 33, 64}},
                             {{4096, 4096, 512}, {130, 72, 64}}};
  CublasLt peer(machine), peer_kn(machine);
  for (const ShapeCase& each : cases)
    if (wanted(each.real.name())) measure_layouts(machine, peer, peer_kn, each.on(machine));
}

void measure_pairs(const Machine& machine, const Wanted& wanted) {
  const ShapeCase cases[] = {{{8192, 8192, 8192}, {1000, 300, 64}},
                             {{4096, 4096, 4096}, {1000, 300, 64}},
                             {{8192, 28672, 8192}, {1000, 300, 64}},
                             {{4096, 4096, 512}, {130, 72, 64}}};
  const BareProduct bare(machine), bare_pairs(machine, /*pairs=*/true);
  for (const ShapeCase& each : cases)
    if (wanted(each.real.name())) measure_paired(machine, bare, bare_pairs, each.on(machine));
}

}  // namespace sk::cuda
