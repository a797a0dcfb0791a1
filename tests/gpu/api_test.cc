// The C ABI on this machine's GPU, by the library as a program finds it: rows of random operations
// against the independent oracle. Memory that the host does not reach is written by copies.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/gpu/machine.h"
#include "tests/multi/op_case.h"

namespace sk::cuda {
namespace {

using testing_ops::Gpu;
using testing_ops::kRanksMax;
using testing_ops::Row;

// The driver in a real one's place, whose kernels run on the CPU.
bool is_fake() { return Machine::get().device().name().starts_with("Fake"); }

// What rows need of a GPU, on its primary context, which libsk uses too.
class Board {
 public:
  explicit Board(bool streams) {
    const Current current(machine_.device().driver(), machine_.device().context());
    for (abi::Stream& stream : streams_)
      if (streams) check(driver_.cuStreamCreate(&stream, abi::kStreamNonBlocking));
    check(driver_.cuMemAlloc(&delay_, delay_bytes()));
  }
  ~Board() {
    const Current current(machine_.device().driver(), machine_.device().context());
    driver_.cuMemFree(delay_);
    for (abi::Stream stream : streams_)
      if (stream != nullptr) driver_.cuStreamDestroy(stream);
  }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  Gpu gpu() {
    return {.id = 0,
            .take = [this](size_t bytes) { return take(bytes); },
            .give_back = [this](void* memory) { give_back(memory); },
            .stream = [this](int rank) -> void* { return streams_[size_t(rank)]; },
            .upload = [this](void* to, const void* from, size_t bytes,
                             void* stream) { upload(to, from, bytes, stream); },
            .download = [this](void* to, const void* from, size_t bytes,
                               void* stream) { download(to, from, bytes, stream); }};
  }

 private:
  void check(abi::Result result) const { machine_.check(result, "a call of the test's"); }
  void* take(size_t bytes) {
    const Current current(driver_, machine_.device().context());
    abi::DevicePtr address = 0;
    check(driver_.cuMemAlloc(&address, bytes));
    return pointer<void>(address);
  }
  void give_back(void* memory) {
    const Current current(driver_, machine_.device().context());
    check(driver_.cuMemFree(abi::DevicePtr(memory)));
  }
  // Still under way when it returns, behind some work: a call that does not wait for its caller's
  // stream reads what was there before. From memory of the GPU, since the driver may wait for the
  // stream before it copies from the host's.
  void upload(void* to, const void* from, size_t bytes, void* stream) {
    const Current current(driver_, machine_.device().context());
    const auto on = static_cast<abi::Stream>(stream);
    DeviceMemory& staged = staged_.emplace_back(must(
        DeviceMemory::allocate(machine_.device().owner(), std::max<size_t>(bytes, 1), "test")));
    check(driver_.cuMemcpyHtoDAsync(staged.address(), from, bytes, on));
    check(driver_.cuMemsetD8Async(delay_, 0, delay_bytes(), on));
    check(machine_.calls().cuMemcpyDtoDAsync(abi::DevicePtr(to), staged.address(), bytes, on));
  }
  void download(void* to, const void* from, size_t bytes, void* stream) {
    const Current current(driver_, machine_.device().context());
    const auto on = static_cast<abi::Stream>(stream);
    check(driver_.cuMemcpyDtoHAsync(to, abi::DevicePtr(from), bytes, on));
    check(driver_.cuStreamSynchronize(on));
    uint64_t held = 0;  // To give memory back is to wait for all of the GPU: seldom.
    for (const DeviceMemory& each : staged_) held += each.bytes();
    if (held > kStagedMax) staged_.clear();
  }
  static constexpr uint64_t kStagedMax = 32 << 20;
  // A tenth of a millisecond of an H100; a fake one is slow by itself.
  static size_t delay_bytes() { return is_fake() ? 1 << 16 : 256 << 20; }

  const Machine& machine_ = Machine::get();
  const Driver& driver_ = machine_.device().driver();
  abi::Stream streams_[kRanksMax] = {};
  abi::DevicePtr delay_ = 0;
  static thread_local std::vector<DeviceMemory> staged_;  // Of this rank.
};
thread_local std::vector<DeviceMemory> Board::staged_;

class Api : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!Machine::get().is_real())
      GTEST_SKIP() << "the library would find no GPU: " << Machine::get().reason();
  }
  static int cases() {
    if (!is_fake()) return 150;
    return GetParam() > 8 ? 2 : 8;
  }
  static void check(Row row, bool streams) {
    Board board(streams);
    const Gpu gpu = board.gpu();
    row.ranks = GetParam();
    row.seed = testing_ops::base_seed();
    row.workers = 0;
    row.gpu = &gpu;
    row.timeout_ms = Machine::get().patience_ns() / 1'000'000;
    EXPECT_EQ(testing_ops::run_threads(row), "")
        << "streams " << streams << ", SK_TEST_SEED=" << row.seed;
  }
};

TEST_P(Api, OperationsEqualTheOracle) {
  check({.cases = cases()}, false);
  check({.cases = cases()}, true);
}

TEST_P(Api, OperationsEqualTheOracleWithPutsOnly) {
  check({.cases = cases() / 2, .flags = SK_COMM_PUT_ONLY}, true);
}

TEST_P(Api, LargeOperationsEqualTheOracle) { check({.cases = 4, .large = true}, true); }

INSTANTIATE_TEST_SUITE_P(Ranks, Api, testing::Values(1, 2, 4, 8, 12, 16),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace sk::cuda
