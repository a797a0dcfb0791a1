// What comes behind the peers' entries uses the addresses that those tell, whichever worker runs
// it: one that helps another's queue does not begin while that one still reads the entries.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/support/op_words.h"
#include "tests/unit/exec/cpu/two_ranks.h"

namespace sk::cpu {
namespace {

constexpr uint64_t kShort = 64;      // Bytes of a task that stays with its worker,
constexpr uint64_t kLong = 256'000;  // and of one that others take.
constexpr int kShortTasks = 100'000;

enum : uint32_t { kOwnIn, kOwnOut, kPeersIn, kPeersOut };

// Rank 0's part. The peer's input is used so often that all its addresses take a while to write,
// and only behind them come those of its output: that of the first task behind the entries.
Plan plan_of_rank_0() {
  Plan plan;
  plan.op = testing_support::op_desc({.kind = OpKind::kAllreduce,
                                      .symmetric_in = true,
                                      .symmetric_out = true,
                                      .count = int64_t(kLong + kShort) / 4});
  plan.target.world_size = 2;
  constexpr uint64_t kBytes = kLong + kShort;
  const auto local = BufferAccess::kLocal, mapped = BufferAccess::kMapped;
  plan.buffers = {{.kind = BufferKind::kInput, .access = local, .operand = 0, .bytes = kBytes},
                  {.kind = BufferKind::kOutput, .access = local, .operand = 1, .bytes = kBytes}};
  for (uint32_t i = 0; i < 2; ++i) {
    plan.buffers.push_back(plan.buffers[i]);
    plan.buffers.back().access = mapped;
    plan.buffers.back().owner = 1;
  }
  const int64_t params[kCopyParamCount] = {kStoreDefault};
  const auto copy = [&](RankBuilder& builder, uint32_t from, uint64_t offset, uint64_t bytes) {
    builder.add({.op = TaskOp::kCopy,
                 .regions = {flat(from, 0, bytes, kRead), flat(kOwnOut, offset, bytes, kWrite)},
                 .params = params});
  };
  RankBuilder builder(0, 2);
  builder.set_peers({1});
  builder.add({.op = TaskOp::kEnter});
  builder.add({.op = TaskOp::kAwait});
  copy(builder, kPeersOut, 0, kLong);
  for (int i = 0; i < kShortTasks; ++i) copy(builder, kPeersIn, kLong, kShort);
  builder.add({.op = TaskOp::kNop, .queue = 1});
  plan.ranks.push_back(builder.finish());
  return plan;
}

class Admission : public TwoRanks {
 protected:
  // Fills rank 1's place with `value`.
  uint64_t place(uint64_t number, uint8_t value) {
    const uint64_t offset = layout_.heap_offset() + (number << 20);
    memset(ends_[1]->segment() + offset, value, kLong);
    return offset;
  }
};

TEST_F(Admission, AHelperDoesNotBeginBeforeTheEntriesAreRead) {
  ASSERT_TRUE(ends_[1]->commit(layout_.heap_offset(), layout_.heap_bytes_max).ok());
  const std::unique_ptr<Program> program = prepare(plan_of_rank_0());
  std::vector<uint8_t> in(kLong + kShort), out(in.size());
  for (uint64_t seq = 1; seq <= 50; ++seq) {
    const auto value = uint8_t(2 * seq);
    EntrySlot entry{};  // With other places each time.
    entry.fingerprint = kFingerprint;
    entry.words[0] = place(seq % 2, value);
    entry.words[1] = place(2 + seq % 2, value + 1);
    std::ranges::fill(out, uint8_t(0));
    RunArgs args;
    args.operands[0].data = in.data();
    args.operands[1].data = out.data();
    args.seq = seq;
    args.timeout_ns = 60'000'000'000;
    std::thread peer([&] {
      let_pass(std::chrono::microseconds(100));  // Both workers wait by then.
      enter(seq, entry);
    });
    const Status status = program->run(args);
    peer.join();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(std::count(out.begin(), out.begin() + kLong, uint8_t(value + 1)), int64_t(kLong))
        << "run " << seq;
    ASSERT_EQ(std::count(out.begin() + kLong, out.end(), value), int64_t(kShort)) << "run " << seq;
  }
}

}  // namespace
}  // namespace sk::cpu
