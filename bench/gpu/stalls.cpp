// Where the time of a product goes: of each role's warps the share that they wait, by what they
// wait for, and the way from the end of the work before to the first tile. By the watched kernels,
// which look at clocks at every wait: shares and orders are to be had from them, no speed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "bench/gpu/health.h"
#include "bench/gpu/parts.h"
#include "bench/gpu/product_sets.h"

namespace sk::cuda {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Samples {
  std::map<std::string, std::vector<double>> stalls;  // Shares, by "role at place".
  std::vector<double> begin_us, task_us, stage_us, end_us;
  std::vector<Health::Reading> readings;
};

std::string as_json(const Samples& samples) {
  std::vector<std::string> stalls;
  for (const auto& [name, shares] : samples.stalls)
    stalls.push_back(fmt::format("{}:{:.5f}", quoted(name), median(shares)));
  return fmt::format(
      "\"launch\":{{\"begin_us\":{:.3f},\"first_task_us\":{:.3f},\"first_stage_us\":{:.3f},"
      "\"end_us\":{:.3f}}},\"stalls\":{{{}}}",
      median(samples.begin_us), median(samples.task_us), median(samples.stage_us),
      median(samples.end_us), fmt::join(stalls, ","));
}

// Behind a kernel that says when it ends.
void sample(const Machine& machine, const Candidate& candidate, const Health& health,
            Samples& samples, int run) {
  const Watching& watching = *machine.device().watching();
  const Matrix clock(machine, sizeof(ClockReading));
  const Replay replay(machine, [&] {
    must(machine.device().enqueue_time(clock.address(), machine.stream()));
    candidate.enqueue(run);
  });
  time_us(machine, replay);
  for (WatchedBlock& block : watching.blocks()) block = {};
  time_us(machine, replay, [&] { samples.readings.push_back(health.read()); });
  const std::vector<uint16_t> bytes = clock.read();
  ClockReading before{};
  std::memcpy(&before, bytes.data(), sizeof before);
  for (const auto& [role, place, share] : stalls_of(watching.blocks()))
    samples.stalls[fmt::format("{} at {}", role, place)].push_back(share);
  const FirstTimes times = first_times_of(watching.blocks());
  const double begin_us = double(int64_t(times.begin_ns - before.now_ns)) / 1000;
  samples.begin_us.push_back(begin_us);
  samples.task_us.push_back(begin_us + double(times.task_ns) / 1000);
  samples.stage_us.push_back(begin_us + double(times.stage_ns) / 1000);
  samples.end_us.push_back(begin_us + double(times.end_ns) / 1000);
}

void measure_shape(const Machine& machine, const Shape& shape) {
  constexpr int kSamples = 9;
  const BareProduct bare(machine), bare_pairs(machine, /*pairs=*/true);
  const uint32_t pair_count = machine.pair_workers(1);
  const std::string no_pairs = ProductPlan::no_pairs(shape, pair_count);
  ProductSets sets(machine, shape);
  ProductPlan plan(machine, shape, /*ranks=*/1, machine.workers(1));
  std::unique_ptr<ProductPlan> pairs;
  std::vector<Candidate> candidates = {sets.of_plan("plan", plan), sets.of_bare("bare", bare)};
  if (no_pairs.empty()) {
    pairs = std::make_unique<ProductPlan>(machine, shape, /*ranks=*/1, pair_count,
                                          ProgramOptions{.pairs = true});
    candidates.push_back(sets.of_plan("plan_pairs", *pairs));
    candidates.push_back(sets.of_bare("bare_pairs", bare_pairs));
  } else {
    print_absent("stalls", shape.name(), "plan_pairs", no_pairs);
  }
  sets.check("stalls", candidates);
  const Health health;
  for (const Candidate& candidate : candidates) {
    Samples samples;
    say_begun(fmt::format("stalls {}: runs of {}", shape.name(), candidate.name));
    for (int run = 0; run < (machine.is_real() ? kSamples : 1); ++run)
      sample(machine, candidate, health, samples, run);
    fmt::print("{{\"part\":\"stalls\",\"case\":{},\"candidate\":{},\"note\":{},\"gpu\":{},{}}}\n",
               quoted(shape.name()), quoted(candidate.name), quoted(candidate.note),
               as_json(health, samples.readings), as_json(samples));
    std::fflush(stdout);
  }
}

}  // namespace

void measure_stalls(const Machine& machine, const Wanted& wanted) {
  if (machine.device().watching() == nullptr)
    throw std::runtime_error("these kernels are not watched; gpu_bench_watched has some that are");
  const ShapeCase cases[] = {{{8192, 8192, 8192}, {1000, 304, 320}},
                             {{4096, 4096, 4096}, {1000, 300, 64}},
                             {{4096, 4096, 512}, {130, 72, 64}},
                             {{128, 8192, 8192}, {128, 72, 64}}};
  for (const ShapeCase& each : cases)
    if (wanted(each.real.name())) measure_shape(machine, each.on(machine));
}

}  // namespace sk::cuda
