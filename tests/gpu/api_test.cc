// The C ABI on this machine's GPU, by the library as a program finds it: rows of random operations
// against the independent oracle. Memory that the host does not reach is written by copies.
#include <gtest/gtest.h>

#include "tests/gpu/machine.h"
#include "tests/multi/op_case.h"

namespace sk::cuda {
namespace {

using testing_ops::Gpu;
using testing_ops::kRanksMax;
using testing_ops::Row;

// What rows need of a GPU, on its primary context, which libsk uses too.
class Board {
 public:
  explicit Board(bool streams) {
    const Current current(machine_.device().driver(), machine_.device().context());
    for (abi::Stream& stream : streams_)
      if (streams) check(driver_.cuStreamCreate(&stream, abi::kStreamNonBlocking));
  }
  ~Board() {
    const Current current(machine_.device().driver(), machine_.device().context());
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
            .upload =
                [this](void* to, const void* from, size_t bytes, void* stream) {
                  copy(stream, [=, this](abi::Stream on) {
                    return driver_.cuMemcpyHtoDAsync(abi::DevicePtr(to), from, bytes, on);
                  });
                },
            .download =
                [this](void* to, const void* from, size_t bytes, void* stream) {
                  copy(stream, [=, this](abi::Stream on) {
                    return driver_.cuMemcpyDtoHAsync(to, abi::DevicePtr(from), bytes, on);
                  });
                }};
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
  template <typename Enqueue>
  void copy(void* stream, const Enqueue& enqueue) {
    const Current current(driver_, machine_.device().context());
    const auto on = static_cast<abi::Stream>(stream);
    check(enqueue(on));
    check(driver_.cuStreamSynchronize(on));
  }

  const Machine& machine_ = Machine::get();
  const Driver& driver_ = machine_.device().driver();
  abi::Stream streams_[kRanksMax] = {};
};

class Api : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!Machine::get().is_real())
      GTEST_SKIP() << "the library would find no GPU: " << Machine::get().reason();
  }
  // A fake one's kernels run on the CPU.
  static int cases() {
    if (!Machine::get().device().name().starts_with("Fake")) return 150;
    return GetParam() > 8 ? 2 : 12;
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
