// A world of two for tests of the executor: rank 0 runs plans with two workers, rank 1 is the test,
// which enters and posts when it likes. A user's tile runs what the test wants in place of work.
#ifndef SK_TESTS_UNIT_EXEC_CPU_TWO_RANKS_H_
#define SK_TESTS_UNIT_EXEC_CPU_TWO_RANKS_H_

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "lib/algo/planner.h"
#include "lib/exec/cpu/executor.h"
#include "lib/plan/builder.h"
#include "lib/tile/user_table.h"
#include "tests/support/mem_bootstrap.h"
#include "tests/support/own_texts.h"
#include "tests/support/until.h"
#include "transport/shm/shm.h"

namespace sk::cpu {

inline constexpr uint64_t kFingerprint = 77;

class TwoRanks : public testing::Test {
 protected:
  void SetUp() override {
    meeting_ = testing_support::make_meeting();
    ASSERT_NE(meeting_, nullptr);
    layout_.world_size = 2;
    layout_.signal_count_max = 2 * signals_per_edge(2);
    layout_.workspace_bytes_max = staging_bytes() + (2 << 20);
    layout_.heap_bytes_max = 4 << 20;
    std::thread other([this] { connect(1); });
    connect(0);
    other.join();
    ASSERT_NE(ends_[0], nullptr);
    ASSERT_NE(ends_[1], nullptr);
    ledger_ = std::make_unique<Ledger>(2, signals_per_edge(2));
    executor_ = make_cpu_executor(*ends_[0], *ledger_, {.workers = 2});
  }

  // In one thread each: whoever waits for an entry of rank 0 runs beside its run.
  void enter(uint64_t seq, const EntrySlot& entry) {
    while (ends_[1]->entry(0, kCollectiveLane, seq).seq.load(std::memory_order_acquire) != seq)
      std::this_thread::yield();
    EXPECT_TRUE(ends_[1]->session(0).enter(entry, kCollectiveLane, seq).ok());
  }
  void enter(uint64_t seq) {
    EntrySlot entry{};
    entry.fingerprint = kFingerprint;
    enter(seq, entry);
  }
  // The signal 0 of the edge from rank 1.
  void post() { EXPECT_TRUE(ends_[1]->session(0).post(ledger_->index(1, 0), 1).ok()); }

  std::unique_ptr<Program> prepare(Plan plan) {
    Result<std::unique_ptr<Program>> program =
        executor_->prepare(std::make_shared<const Plan>(std::move(plan)), kFingerprint);
    EXPECT_TRUE(program.ok()) << program.status().message();
    return std::move(program).value();
  }

 private:
  void connect(int rank) {
    testing_support::MemBootstrap bootstrap(*meeting_, rank, 2);
    Result<std::unique_ptr<Endpoint>> end =
        connect_shm(bootstrap, layout_, {.timeout_ns = 60'000'000'000});
    EXPECT_TRUE(end.ok()) << end.status().message();
    if (end.ok()) ends_[rank] = std::move(*end);
  }

  testing_support::MeetingPtr meeting_;

 protected:
  SegmentLayout layout_;
  std::array<std::unique_ptr<Endpoint>, 2> ends_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Executor> executor_;
};

// A flag that a test's threads wait for.
class Flag {
 public:
  void set() { is_set_ = true; }
  bool is_set() const { return is_set_; }
  [[nodiscard]] bool await() const {
    return testing_support::until([this] { return is_set_.load(); });
  }

 private:
  std::atomic<bool> is_set_{false};
};

// So long others do what they do meanwhile; a test passes whether or not they have.
inline void let_pass(std::chrono::microseconds time) {
  std::this_thread::sleep_for(time);  // tidy: allow sleep: what others do meanwhile leaves no trace
}

// Tasks of the user's tile: rows of 128 KB, so that helpers take them; number i does `work[i]`.
class TwoRanksAndATile : public TwoRanks {
 protected:
  static constexpr int64_t kRows = 8, kCols = 32768;

  void SetUp() override {
    TwoRanks::SetUp();
    TileText text;
    text.name = "hooked";
    text.effect = "y[i, j] = hooked(x[i, j])";
    text.regions = {testing_support::read_region("x", "f32", "m, n"),
                    testing_support::written_region("y", "x", "m, n")};
    const Result<OpKind> added = tiles_.add(text, {&run_hook, this});
    ASSERT_TRUE(added.ok()) << added.status().message();
    tile_.emplace(tiles_.use(int32_t(added.value())).value());
    OpDesc op((*tile_)->schema());
    op.set((*tile_)->schema().dimension_field(0), kRows);
    op.set((*tile_)->schema().dimension_field(1), kCols);
    for (uint32_t i = 0; i < 2; ++i) op.set((*tile_)->schema().stride_field(i), kCols);
    plan_ = make_plan(op, Target()).value();
  }

  // A task of that row; behind `builder`'s earlier ones of `queue`.
  struct Flags {
    bool after_all = false;
    bool is_short = false;  // No helper takes it.
    std::span<const Wait> waits = {};
  };
  void add(RankBuilder& builder, uint32_t queue, int64_t row) const {
    add(builder, queue, row, Flags());
  }
  void add(RankBuilder& builder, uint32_t queue, int64_t row, const Flags& flags) const {
    const RankPlan& made = plan_.ranks[0];
    const Task& task = made.tasks[made.queues[0].first_task];
    std::vector<Region> regions(made.regions_of(task).begin(), made.regions_of(task).end());
    std::vector<int64_t> params(made.params_of(task).begin(), made.params_of(task).end());
    for (Region& region : regions) {
      region.offset = uint64_t(row * kCols) * sizeof(float);
      region.row_bytes = region.pitch = (flags.is_short ? 1 : kCols) * sizeof(float);
      region.rows = 1;
    }
    params[(*tile_)->first_parameter(0)] = row;
    params[(*tile_)->count_parameter(0)] = 1;
    builder.add({.op = task.op,
                 .queue = queue,
                 .after_all = flags.after_all,
                 .more_regions = regions,
                 .params = params,
                 .waits = flags.waits});
  }
  std::unique_ptr<Program> prepare(RankBuilder& builder) {
    Plan plan = plan_;
    plan.target.world_size = 2;
    plan.ranks[0] = builder.finish();
    return TwoRanks::prepare(std::move(plan));
  }
  Status run(Program& program, int64_t timeout_ns = 60'000'000'000) {
    RunArgs args;
    args.operands[0].data = x_.data();
    args.operands[1].data = y_.data();
    args.seq = ++seq_;
    args.timeout_ns = timeout_ns;
    return program.run(args);
  }

  std::array<std::function<void()>, kRows> work_;
  uint64_t seq_ = 0;

 private:
  static int32_t run_hook(void* const*, const sk_tile_view* views, const sk_tile_value*,
                          void* user) {
    const auto& work = static_cast<TwoRanksAndATile*>(user)->work_[size_t(views[0].row)];
    if (work) work();
    return 1;
  }

  TileSet tiles_;
  std::optional<TileSet::Use> tile_;
  Plan plan_;
  std::vector<float> x_ = std::vector<float>(kRows * kCols), y_ = x_;
};

}  // namespace sk::cpu

#endif  // SK_TESTS_UNIT_EXEC_CPU_TWO_RANKS_H_
