// Workers that have nothing left to start run the tasks of another's queue; what is computed, and
// in which order it is posted, stays as it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "lib/algo/planner.h"
#include "lib/exec/cpu/executor.h"
#include "lib/plan/builder.h"
#include "lib/tile/user_table.h"
#include "tests/support/op_words.h"
#include "tests/support/own_texts.h"
#include "transport/bootstrap/bootstrap.h"
#include "transport/shm/shm.h"

namespace sk::cpu {
namespace {

using testing_support::read_region;
using testing_support::written_region;

constexpr int64_t kRows = 64, kCols = 16384;  // A task of 64 KB has a row.
constexpr uint64_t kBytes = uint64_t(kRows) * kCols * sizeof(float);

// What the tile's function is told, and what it tells.
struct Watch {
  std::thread::id caller;
  int64_t rows = kRows;              // Of the whole call.
  bool blocks = false;               // The first task of another thread than the caller's.
  std::atomic<int64_t> done{0};      // Rows.
  std::atomic<int64_t> late{-1};     // The blocked task's row.
  std::atomic<bool> gave_up{false};  // It waited in vain.
};

bool becomes(const std::atomic<int64_t>& value, int64_t wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (value.load() < wanted) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

int32_t copy_rows(void* const* data, const sk_tile_view* views, const sk_tile_value*, void* user) {
  auto& watch = *static_cast<Watch*>(user);
  int64_t nobody = -1;
  if (watch.blocks && std::this_thread::get_id() != watch.caller &&
      watch.late.compare_exchange_strong(nobody, views[0].row) &&
      !becomes(watch.done, watch.rows - views[0].rows)) {
    watch.gave_up = true;
  }
  for (int64_t i = 0; i < views[0].rows; ++i) {
    std::copy_n(static_cast<const float*>(data[0]) + i * views[0].stride, views[0].cols,
                static_cast<float*>(data[1]) + i * views[1].stride);
  }
  watch.done += views[0].rows;
  return 1;
}

class OpenQueues : public testing::Test {
 protected:
  void SetUp() override {
    BootstrapConfig config;
    config.env = [](const char*) { return std::nullopt; };
    Result<std::unique_ptr<Bootstrap>> bootstrap = make_bootstrap(config);
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().message();
    SegmentLayout layout;
    layout.signal_count_max = signals_per_edge(1);
    layout.workspace_bytes_max = staging_bytes() + (16 << 20);
    Result<std::unique_ptr<Endpoint>> endpoint =
        connect_shm(**bootstrap, layout, {.timeout_ns = 1'000'000'000});
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().message();
    endpoint_ = std::move(*endpoint);
    ledger_ = std::make_unique<Ledger>(1, signals_per_edge(1));
    TileText text;
    text.name = "copied";
    text.effect = "y[i, j] = copied(x[i, j])";
    text.regions = {read_region("x", "f32", "m, n"), written_region("y", "x", "m, n")};
    const Result<OpKind> added = tiles_.add(text, {copy_rows, &watch_});
    ASSERT_TRUE(added.ok()) << added.status().message();
    tile_ = int32_t(added.value());
    watch_.caller = std::this_thread::get_id();
  }

  Plan copies(uint32_t workers, int64_t rows = kRows, int64_t cols = kCols) {
    TileSet::Use tile = tiles_.use(tile_).value();
    OpDesc op(tile->schema());
    op.set(tile->schema().dimension_field(0), rows);
    op.set(tile->schema().dimension_field(1), cols);
    for (uint32_t i = 0; i < 2; ++i) op.set(tile->schema().stride_field(i), cols);
    Target target;
    target.workers = target.cores = workers;
    return make_plan(op, target).value();
  }
  std::unique_ptr<Program> prepare(const Plan& plan, uint32_t workers) {
    executor_ = make_cpu_executor(*endpoint_, *ledger_, {.workers = workers});
    executor_->set_trace(&trace_);
    return std::move(executor_->prepare(std::make_shared<const Plan>(plan), fingerprint(plan)))
        .value();
  }
  Status run(Program& program, const void* x, void* y) {
    RunArgs args;
    args.operands[0].data = const_cast<void*>(x);
    args.operands[1].data = y;
    args.seq = ++seq_;
    args.timeout_ns = 30'000'000'000;
    trace_ = TraceBuffer();
    trace_.event_count_max = 1'000'000;
    return program.run(args);
  }

  Watch watch_;
  TileSet tiles_;
  int32_t tile_ = 0;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Executor> executor_;
  TraceBuffer trace_;
  uint64_t seq_ = 0;
};

// The tasks that ran, and how many of them on another worker than the one whose queue has them.
struct Ran {
  size_t tasks = 0, helped = 0;
};
Ran ran(const TraceBuffer& trace, const Plan& plan) {
  std::set<uint32_t> tasks;
  Ran out;
  for (const TaskEvent& event : trace.runs.at(0).events) {
    EXPECT_TRUE(tasks.insert(event.task).second) << "task " << event.task << " ran twice";
    const Queue& queue = plan.ranks[0].queues[event.queue];
    const bool own = event.task - queue.first_task < queue.task_count;
    out.helped += own ? 0 : 1;
  }
  out.tasks = tasks.size();
  return out;
}

// A worker that stands still in a tile holds up that one alone. Were its queue its own, the tasks
// behind it would never begin.
TEST_F(OpenQueues, AWorkerThatStandsStillHoldsUpOneTask) {
  std::vector<float> x(kBytes / sizeof(float)), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 9973);
  for (const uint32_t workers : {2u, 3u, 4u}) {
    const Plan plan = copies(workers);
    ASSERT_EQ(plan.ranks[0].queues.size(), workers);
    const std::unique_ptr<Program> program = prepare(plan, workers);
    watch_.blocks = true;
    for (int turn = 0; turn < 10; ++turn) {
      std::ranges::fill(y, -1.0f);
      watch_.done = 0;
      watch_.late = -1;
      const Status status = run(*program, x.data(), y.data());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_FALSE(watch_.gave_up) << "row " << watch_.late << " of " << workers << " workers";
      ASSERT_EQ(y, x);
      ASSERT_EQ(ran(trace_, plan).tasks, plan.ranks[0].tasks.size());
    }
  }
}

// Tasks that take less than the taking of them would cost stay with their worker.
TEST_F(OpenQueues, ShortTasksStayWhereTheyAre) {
  constexpr int64_t kShort = 16;
  std::vector<float> x(size_t(40'000) * kShort), y(x.size());
  Plan plan = copies(2, 40'000, kShort);
  // Cut anew: many tasks of 64 rows, 8 KB each.
  RankBuilder builder(0, 2);
  const RankPlan& part = plan.ranks[0];
  const Task& first = part.tasks[part.queues[0].first_task];
  const TileSet::Use tile = tiles_.use(tile_).value();
  for (int64_t row = 0; row < 40'000; row += 64) {
    std::vector<Region> regions(part.regions_of(first).begin(), part.regions_of(first).end());
    std::vector<int64_t> params(part.params_of(first).begin(), part.params_of(first).end());
    for (Region& region : regions) {
      region.offset = uint64_t(row) * kShort * sizeof(float);
      region.rows = 64;
    }
    params[tile->first_parameter(0)] = row;
    params[tile->count_parameter(0)] = 64;
    builder.add({.op = first.op,
                 .queue = row < 20'000 ? 0u : 1u,
                 .more_regions = regions,
                 .params = params});
  }
  plan.ranks[0] = builder.finish();
  const std::unique_ptr<Program> program = prepare(plan, 2);
  for (int turn = 0; turn < 20; ++turn) {
    watch_.done = 0;
    ASSERT_TRUE(run(*program, x.data(), y.data()).ok());
    const Ran all = ran(trace_, plan);
    ASSERT_EQ(all.tasks, plan.ranks[0].tasks.size());
    ASSERT_EQ(all.helped, 0u);
  }
}

// What begins behind all of its queue waits for the task that another worker still has.
TEST_F(OpenQueues, WhatComesBehindAllWaitsForTheOldest) {
  std::vector<float> x(kBytes / sizeof(float), 7.0f), y(x.size());
  Plan plan = copies(2);
  RankPlan& part = plan.ranks[0];
  // The last of the second queue's tasks are behind all before them, which need them not.
  const Queue& queue = part.queues[1];
  const uint32_t behind = queue.first_task + queue.task_count - 1;
  part.tasks[behind].flags |= kAfterAll;
  const int64_t row =
      part.params_of(part.tasks[behind])[tiles_.use(tile_).value()->first_parameter(0)];
  const std::unique_ptr<Program> program = prepare(plan, 2);
  watch_.blocks = true;
  for (int turn = 0; turn < 20; ++turn) {
    watch_.done = 0;
    watch_.late = -1;
    watch_.rows = kRows - 1;  // All but that one.
    ASSERT_TRUE(run(*program, x.data(), y.data()).ok());
    if (watch_.late == row) continue;  // The one that stood still was that one itself.
    ASSERT_FALSE(watch_.gave_up);
    int64_t begun = 0, ended = 0;
    for (const TaskEvent& event : trace_.runs.at(0).events) {
      if (event.task == behind) begun = event.start_ns;
      const bool before = event.task >= queue.first_task && event.task < behind;
      if (before) ended = std::max(ended, event.end_ns);
    }
    // An event ends before its task is known to have; so this holds where the order does.
    ASSERT_GE(begun, ended) << "turn " << turn;
  }
}

TEST_F(OpenQueues, RunsFollowOneAnother) {
  std::vector<float> x(kBytes / sizeof(float), 3.0f), y(x.size());
  const Plan plan = copies(3);
  const std::unique_ptr<Program> program = prepare(plan, 3);
  for (int turn = 0; turn < 300; ++turn) {
    x[size_t(turn)] = float(turn);
    ASSERT_TRUE(run(*program, x.data(), y.data()).ok());
    ASSERT_EQ(y, x) << "turn " << turn;
  }
}

}  // namespace
}  // namespace sk::cpu
