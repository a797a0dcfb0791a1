// rmsnorm and its gradient beside a copy, by their tiles alone: the tasks of their plans, walked by
// as many threads as there are queues, against the copy tile on x dealt in the same way. (The calls
// as users make them: e2e.)
//
// usage: tile_rows_bench [--workers N] [--rounds N] [--mib N]
//
// One JSON line per candidate goes to stdout (nanoseconds per call, one figure a visit; bytes are
// what a call must read and write at least), a table to stderr: bandwidth over the copy's, as the
// median of the rounds' own ratios with their quartiles, and of the fastest visit of each.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/e2e/harness.h"
#include "lib/algo/planner.h"
#include "lib/exec/cpu/tile_table.h"
#include "lib/op/ops/rmsnorm.h"
#include "lib/op/values.h"

namespace {

using sk::DType;
using sk::OpDesc;
using sk::Plan;
using sk::Schema;

struct FreeMemory {
  void operator()(std::byte* p) const { free(p); }
};
using Memory = std::unique_ptr<std::byte[], FreeMemory>;

[[noreturn]] void give_up(const char* why) {
  fprintf(stderr, "tile_rows_bench: %s\n", why);
  exit(2);
}

Memory allocate(uint64_t bytes, DType dtype) {
  const uint64_t room = (bytes + 4095) / 4096 * 4096;
  Memory memory(static_cast<std::byte*>(aligned_alloc(4096, std::max<uint64_t>(room, 4096))));
  if (memory == nullptr) give_up("out of memory");
  for (uint64_t i = 0; i * sk::dtype_bytes(dtype) < bytes; ++i) {
    const float value = float(int(i * 2654435761u >> 20 & 1023) - 512) / 256;
    const uint16_t half = sk::f32_to_bf16(value);
    if (dtype == DType::kBF16) {
      memcpy(memory.get() + 2 * i, &half, 2);
    } else {
      memcpy(memory.get() + 4 * i, &value, 4);
    }
  }
  return memory;
}

struct Bound {
  sk::TileFn function;
  sk::TileArgs args;
};

// A plan of one rank with its memory. Tasks of queues run in the order of phases, so that nobody
// waits for another's within one: what waits for signals begins the next.
class Walk {
 public:
  Walk(Plan plan, DType dtype) : plan_(std::move(plan)) {
    std::vector<std::byte*> bases;
    for (const sk::Buffer& buffer : plan_.buffers) {
      memory_.push_back(allocate(buffer.bytes, type_of(buffer, dtype)));
      bases.push_back(memory_.back().get());
    }
    const sk::RankPlan& part = plan_.ranks[0];
    for (const sk::Region& region : part.regions) {
      pointers_.push_back(bases[region.buffer] + region.offset);
    }
    for (size_t q = 0; q < part.queues.size(); ++q) {
      size_t phase = 0;
      const sk::Queue& queue = part.queues[q];
      for (uint32_t t = queue.first_task; t < queue.first_task + queue.task_count; ++t) {
        const sk::Task& task = part.tasks[t];
        const sk::Result<sk::cpu::PreparedTile> tile = sk::cpu::prepare_tile(part, task);
        if (!tile.ok()) give_up(tile.status().message().c_str());
        if (task.wait_count > 0) phase = 1;
        if (tile.value().function != nullptr) add(phase, q, bind(part, task, tile.value()));
      }
    }
  }
  size_t phases() const { return phases_.size(); }
  void run(size_t phase, size_t queue) const {
    if (queue >= phases_[phase].size()) return;
    for (const Bound& each : phases_[phase][queue]) each.function(each.args);
  }

 private:
  DType type_of(const sk::Buffer& buffer, DType dtype) const {
    if (buffer.kind == sk::BufferKind::kWorkspace) return DType::kF32;
    return buffer.operand < plan_.op.schema().operands.size() ? plan_.op.type(buffer.operand)
                                                              : dtype;
  }
  Bound bind(const sk::RankPlan& part, const sk::Task& task, const sk::cpu::PreparedTile& tile) {
    Bound bound{tile.function, {}};
    bound.args.regions = part.regions.data() + task.first_region;
    bound.args.params = part.params.data() + task.first_param;
    bound.args.region_count = task.region_count;
    for (uint32_t r = 0; r < task.region_count; ++r) {
      bound.args.pointers[r] = &pointers_[task.first_region + r];
    }
    return bound;
  }
  void add(size_t phase, size_t queue, const Bound& bound) {
    if (phases_.size() <= phase) phases_.resize(phase + 1);
    if (phases_[phase].size() <= queue) phases_[phase].resize(queue + 1);
    phases_[phase][queue].push_back(bound);
  }

  Plan plan_;
  std::vector<Memory> memory_;
  std::vector<std::byte*> pointers_;
  std::vector<std::vector<std::vector<Bound>>> phases_;
};

// Threads that start together; the caller is the first.
class Crew {
 public:
  explicit Crew(size_t count) : count_(count) {
    bench_pin(0);
    for (size_t i = 1; i < count; ++i) threads_.emplace_back([this, i] { loop(i); });
  }
  ~Crew() {
    stop_ = true;
    turn_.fetch_add(1);
    for (std::thread& each : threads_) each.join();
  }
  double run(const Walk& walk, int calls) {
    const double start = bench_now();
    for (int i = 0; i < calls; ++i) {
      for (phase_ = 0; phase_ < walk.phases(); ++phase_) {
        walk_ = &walk;
        left_.store(count_ - 1, std::memory_order_relaxed);
        turn_.fetch_add(1, std::memory_order_release);
        walk.run(phase_, 0);
        while (left_.load(std::memory_order_acquire) != 0) bench_pause();
      }
    }
    return (bench_now() - start) / calls * 1e9;
  }

 private:
  void loop(size_t worker) {
    bench_pin(int(worker));
    for (uint32_t seen = 0;; ++seen) {
      while (turn_.load(std::memory_order_acquire) == seen) bench_pause();
      if (stop_) return;
      walk_->run(phase_, worker);
      left_.fetch_sub(1, std::memory_order_release);
    }
  }

  size_t count_, phase_ = 0;
  std::vector<std::thread> threads_;
  const Walk* walk_ = nullptr;
  std::atomic<uint32_t> turn_{0};
  std::atomic<size_t> left_{0};
  std::atomic<bool> stop_{false};
};

struct Shape {
  DType dtype;
  int64_t m, n;
  uint64_t bytes() const { return uint64_t(m) * uint64_t(n) * sk::dtype_bytes(dtype); }
};

OpDesc op_of(const Schema& schema, const Shape& shape, bool second) {
  OpDesc op(schema);
  op.set(schema.field("m"), shape.m);
  op.set(schema.field("n"), shape.n);
  for (uint32_t i = 0; i < schema.operands.size(); ++i) {
    const std::string_view name = schema.operands[i].name;
    op.set(OpDesc::type_field(i), int64_t(name == "rstd" ? DType::kF32 : shape.dtype));
    if (const sk::Field stride = schema.stride_field(i)) op.set(stride, shape.n);
    const bool is_second = schema.operands[i].optional && name != "weight";
    if (is_second && !second) op.set(OpDesc::absent_field(i), 1);
  }
  if (const sk::Field eps = schema.field("eps")) op.set(eps, sk::bits_of(1e-5));
  return op;
}

Plan plan_of(const OpDesc& op, uint32_t workers) {
  sk::Target target;
  target.workers = target.cores = workers;
  sk::Result<Plan> plan = sk::make_plan(op, target);
  if (!plan.ok()) give_up(plan.status().message().c_str());
  return std::move(plan).value();
}

// x to y, task for task as rmsnorm deals its rows.
Plan copy_plan(const Shape& shape, uint32_t workers) {
  Plan plan = plan_of(op_of(sk::ops::kRmsnorm, shape, false), workers);
  sk::RankPlan& part = plan.ranks[0];
  for (sk::Task& task : part.tasks) {
    part.params[task.first_param] = part.params[task.first_param + sk::kRowsHint];
    part.regions[task.first_region + 1] = part.regions[task.first_region + task.region_count - 1];
    task.op = sk::TaskOp::kCopy;
    task.region_count = 2;
    task.param_count = sk::kCopyParamCount;
    for (uint32_t r = 0; r < 2; ++r) {  // Rows are side by side: one.
      sk::Region& region = part.regions[task.first_region + r];
      region.row_bytes = region.pitch = region.row_bytes * region.rows;
      region.rows = 1;
    }
  }
  return plan;
}

struct Candidate {
  std::string name;
  uint64_t bytes;  // Read and written.
  std::unique_ptr<Walk> walk;
  std::vector<double> ns;
};

double quantile(std::vector<double> v, double at) {
  std::sort(v.begin(), v.end());
  return v[size_t(std::lround(at * double(v.size() - 1)))];
}

void report(const Candidate& c, const Candidate& copy, const Shape& shape, uint32_t workers) {
  printf(
      "{\"case\": \"%s\", \"dtype\": \"%s\", \"rows\": %ld, \"cols\": %ld, \"workers\": %u, "
      "\"bytes\": %lu, \"ns\": [",
      c.name.c_str(), sk::dtype_name(shape.dtype), long(shape.m), long(shape.n), workers,
      static_cast<unsigned long>(c.bytes));
  for (size_t i = 0; i < c.ns.size(); ++i) printf("%s%.0f", i != 0 ? ", " : "", c.ns[i]);
  printf("]}\n");
  std::vector<double> ratios;
  for (size_t i = 0; i + 1 < c.ns.size(); i += 2) {  // Both visits of a round.
    const double own = double(c.bytes) / (c.ns[i] + c.ns[i + 1]);
    ratios.push_back(own / (double(copy.bytes) / (copy.ns[i] + copy.ns[i + 1])));
  }
  const double best = double(c.bytes) / quantile(c.ns, 0) * quantile(copy.ns, 0);
  fprintf(stderr,
          "%-4s %6ld x %5ld  %-24s %7.2f GB/s  %5.3f of the copy (%5.3f to %5.3f), best %5.3f\n",
          sk::dtype_name(shape.dtype), long(shape.m), long(shape.n), c.name.c_str(),
          double(c.bytes) / quantile(c.ns, 0.5), quantile(ratios, 0.5), quantile(ratios, 0.25),
          quantile(ratios, 0.75), best / double(copy.bytes));
}

void run_shape(Crew& crew, const Shape& shape, uint32_t workers, int rounds) {
  const uint64_t bytes = shape.bytes();
  std::vector<Candidate> all;
  const auto add = [&](const char* name, uint64_t arrays, Plan plan) {
    all.push_back({name, arrays * bytes, std::make_unique<Walk>(std::move(plan), shape.dtype), {}});
  };
  const Schema &forward = sk::ops::kRmsnorm, &backward = sk::ops::kRmsnormBackward;
  add("copy", 2, copy_plan(shape, workers));
  add("forward", 2, plan_of(op_of(forward, shape, false), workers));
  add("forward with rstd", 2, plan_of(op_of(forward, shape, true), workers));
  add("backward without dweight", 3, plan_of(op_of(backward, shape, false), workers));
  add("backward", 3, plan_of(op_of(backward, shape, true), workers));
  const int calls = int(std::max<uint64_t>(1, (uint64_t(8) << 20) / bytes));
  const int count = int(all.size());
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 2 * count; ++i) {  // Forth and back.
      Candidate& c = all[size_t(i < count ? i : 2 * count - 1 - i)];
      crew.run(*c.walk, 1);
      c.ns.push_back(crew.run(*c.walk, calls));
    }
  }
  for (const Candidate& c : all) report(c, all[0], shape, workers);
}

}  // namespace

int main(int argc, char** argv) {
  uint32_t workers = 2;
  int rounds = 15;
  int64_t mib = 64;
  for (int i = 1; i + 1 < argc; i += 2) {
    const int value = std::max(1, atoi(argv[i + 1]));
    if (strcmp(argv[i], "--workers") == 0) workers = uint32_t(value);
    if (strcmp(argv[i], "--rounds") == 0) rounds = value;
    if (strcmp(argv[i], "--mib") == 0) mib = value;
  }
  Crew crew(workers);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t n : {1024, 4096, 16384}) {
      const int64_t large = (mib << 20) / (n * int64_t(sk::dtype_bytes(dtype)));
      run_shape(crew, {dtype, large, n}, workers, rounds);
    }
    const int64_t n = 4096;  // Stays in the caches.
    run_shape(crew, {dtype, (512 << 10) / (n * int64_t(sk::dtype_bytes(dtype))), n}, workers,
              rounds);
  }
  return 0;
}
