// The kernel without a plan: compared with the CPU, then beside cuBLASLt. The first that a visit to
// a GPU does of products, for it says most with least.
#include <fmt/format.h>

#include "bench/gpu/parts.h"
#include "bench/gpu/product_sets.h"

namespace sk::cuda {
namespace {

void check_shape(const Machine& machine, const BareProduct& bare, const char* part,
                 const Shape& shape) {
  const std::string why = bare.absent(shape);
  if (!why.empty()) throw std::runtime_error(fmt::format("{}: {}", shape.name(), why));
  Matrix a(machine, shape.a_bytes()), b(machine, shape.b_bytes()), c(machine, shape.c_bytes());
  a.fill(Fill::kWhole, 1);
  b.fill(Fill::kWhole, 2);
  c.poison();
  say_begun(fmt::format("{} {}: launch", part, shape.name()));
  bare.enqueue(shape, a, b, c);
  machine.synchronize();
  const ProductVerdict found = judge_product(shape, a.read(), b.read(), c.read());
  if (!found.wrong.empty())
    throw std::runtime_error(fmt::format("{}: {}", shape.name(), found.wrong));
  fmt::print("{{\"part\":{},\"case\":{},\"checked\":{}}}\n", quoted(part), quoted(shape.name()),
             found.compared);
}

// One stage of the pipeline, all of them once, round and round; more tiles than blocks.
void check_shapes(const Machine& machine, const Wanted& wanted, bool pairs) {
  const int64_t rows = pairs ? 256 : 128;
  const ShapeCase cases[] = {{{rows, 256, 64}, {rows, 40, 64}},
                             {{rows, 256, 256}, {rows, 40, 256}},
                             {{rows, 256, 4096}, {rows, 24, 640}},
                             {{4096, 4096, 256}, {1100, 300, 64}}};
  const BareProduct bare(machine, pairs);
  for (const ShapeCase& each : cases)
    if (wanted(each.real.name()))
      check_shape(machine, bare, pairs ? "bare_pairs" : "bare", each.on(machine));
}

constexpr ShapeCase kCases[] = {{{4096, 4096, 4096}, {130, 72, 64}},
                                {{8192, 8192, 8192}, {1000, 300, 64}}};

void measure_beside_peer(const Machine& machine, const Wanted& wanted, const char* part,
                         bool pairs) {
  const BareProduct bare(machine), bare_pairs(machine, /*pairs=*/true);
  CublasLt peer(machine);
  for (const ShapeCase& each : kCases) {
    if (!wanted(each.real.name())) continue;
    const Shape& shape = each.on(machine);
    ProductSets sets(machine, shape);
    std::vector<Candidate> candidates = {sets.of_bare("bare", bare)};
    if (pairs) candidates.push_back(sets.of_bare("bare_pairs", bare_pairs));
    sets.add_cublaslt(peer, part, candidates);
    sets.measure_checked(part, candidates);
  }
}

}  // namespace

void check_bare(const Machine& machine, const Wanted& wanted) {
  check_shapes(machine, wanted, /*pairs=*/false);
}
void check_bare_pairs(const Machine& machine, const Wanted& wanted) {
  check_shapes(machine, wanted, /*pairs=*/true);
}

void measure_versus(const Machine& machine, const Wanted& wanted) {
  measure_beside_peer(machine, wanted, "versus", /*pairs=*/false);
}
void measure_versus_pairs(const Machine& machine, const Wanted& wanted) {
  measure_beside_peer(machine, wanted, "versus_pairs", /*pairs=*/true);
}

// What the order of tiles is worth.
void measure_order(const Machine& machine, const Wanted& wanted) {
  const ShapeCase only{{8192, 8192, 8192}, {130, 72, 64}};
  if (!wanted(only.real.name())) return;
  const Shape& shape = only.on(machine);
  const BareProduct blocks(machine), pairs(machine, /*pairs=*/true);
  ProductSets sets(machine, shape);
  std::vector<Candidate> candidates;
  for (const BareProduct* bare : {&blocks, &pairs}) {
    if (!bare->absent(shape).empty()) continue;
    for (const uint32_t band_rows : {1u, 4u, 8u, 16u, 32u}) {
      const char* kind = bare == &pairs ? "pairs" : "bare";
      candidates.push_back(
          sets.of_bare(fmt::format("{}_bands_of_{}", kind, band_rows), *bare, band_rows));
    }
  }
  sets.measure_checked("order", candidates);
}

}  // namespace sk::cuda
