// Collectives of virtual ranks, each beside a copy of as many bytes as it has to read and write.
#include "lib/op/ops/collectives.h"

#include <fmt/format.h>

#include "bench/gpu/parts.h"
#include "bench/gpu/product_plan.h"
#include "bench/gpu/rounds.h"
#include "cuda/exec/cut.h"

namespace sk::cuda {
namespace {

struct Collective {
  OpKind kind;
  const char* name;
  // In and out elements of one rank for `count`, and what all ranks together must move: each input
  // element is read once, each output element written once.
  uint64_t (*in)(uint64_t count, uint64_t ranks, bool root);
  uint64_t (*out)(uint64_t count, uint64_t ranks);
  bool parts = false;  // `count` is of one rank's part of the whole.
};

constexpr Collective kCollectives[] = {
    {OpKind::kAllreduce, "allreduce", [](uint64_t n, uint64_t, bool) { return n; },
     [](uint64_t n, uint64_t) { return n; }},
    {OpKind::kAllgather, "allgather", [](uint64_t n, uint64_t, bool) { return n; },
     [](uint64_t n, uint64_t ranks) { return n * ranks; }, true},
    {OpKind::kReduceScatter, "reduce_scatter",
     [](uint64_t n, uint64_t ranks, bool) { return n * ranks; },
     [](uint64_t n, uint64_t) { return n; }, true},
    {OpKind::kBroadcast, "broadcast", [](uint64_t n, uint64_t, bool root) { return root ? n : 0; },
     [](uint64_t n, uint64_t) { return n; }},
};

constexpr uint64_t kElement = 4;  // f32.

void measure_one(const Machine& machine, const Collective& collective, uint32_t ranks,
                 uint64_t count) {
  const OpDesc op =
      describe(*schema_of(collective.kind),
               {.symmetric_in = true, .symmetric_out = true, .count = int64_t(count)});
  Target target{.world_size = ranks, .workers = machine.workers(ranks)};
  cut_moves(target);
  PlanRun run(machine, op, target);
  const Plan& plan = run.program().plan();
  std::vector<Matrix> memory;
  memory.reserve(plan.buffers.size());
  std::vector<RankOperands> operands(ranks, RankOperands{});
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kWorkspace) continue;
    memory.emplace_back(machine, std::max<uint64_t>(buffer.bytes, 2)).fill(Fill::kRandom, 1);
    operands[buffer.owner][buffer.operand] = memory.back().data();
  }
  uint64_t elements = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    elements += collective.in(count, ranks, rank == 0) + collective.out(count, ranks);
  // A copy reads one half of the bytes and writes the other.
  const uint64_t half = elements * kElement / 2;
  const Matrix from(machine, half), to(machine, half);
  const auto copy = [&](int) {
    machine.check(
        machine.calls().cuMemcpyDtoDAsync(to.address(), from.address(), half, machine.stream()),
        "cuMemcpyDtoDAsync");
  };
  const std::string name =
      fmt::format("{} {} ranks {} bytes", collective.name, ranks, count * kElement);
  measure(machine, "collectives", name,
          {{"plan", [&](int) { run.enqueue(operands); }, fmt::format("{} bytes moved", 2 * half)},
           {"copy", copy, fmt::format("{} bytes moved", 2 * half)}},
          1);
}

}  // namespace

void measure_collectives(const Machine& machine, const Wanted& wanted) {
  const std::vector<uint64_t> sizes =  // Elements of the whole.
      machine.is_real() ? std::vector<uint64_t>{1 << 14, 1 << 18, 1 << 22, 1 << 25}
                        : std::vector<uint64_t>{1000};
  for (const Collective& collective : kCollectives) {
    for (const uint32_t ranks : {2u, 4u, 8u}) {
      if (!wanted(fmt::format("{} {} ranks", collective.name, ranks))) continue;
      for (const uint64_t size : sizes)
        measure_one(machine, collective, ranks, collective.parts ? size / ranks : size);
    }
  }
}

}  // namespace sk::cuda
