// The ring of stages by itself: two operations that fill stages otherwise share one, task by task.
#include "cuda/tile/pipeline.cuh"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/devhost/machine.h"
#include "tests/devhost/world.h"

namespace sk {
namespace {

using namespace devhost;

constexpr uint32_t kStages = 3, kReaders = 2, kColumns = 64, kRows = 16;
constexpr uint32_t kBoxBytes = kRows * kColumns * 2;
using Ring = cuda::Pipeline<2 * kBoxBytes, kStages>;

// Of stages. A tall one has a box of 2 * kRows rows; a wide one two boxes side by side, of which
// the second counts twice.
struct Shape {
  bool wide;
  uint32_t stages;
};

// 16-bit numbers in rows of 2 * kColumns, and how the copy engine reads them.
struct Matrix {
  Aligned memory;
  uint32_t rows;

  explicit Matrix(uint32_t count) : memory(size_t(count) * kColumns * 4), rows(count) {
    std::mt19937 random(5);
    for (size_t i = 0; i < memory.size / 2; ++i) {
      const auto value = uint16_t(random());
      std::memcpy(memory.data() + 2 * i, &value, 2);
    }
  }
  cuda::TensorMap map(uint32_t box_rows) {
    return map_of({reinterpret_cast<uint64_t>(memory.data()), rows, 2 * kColumns, kColumns * 4,
                   DType::kBF16, box_rows});
  }
};

// However a box's rows are swizzled, the sum of each is the same.
uint64_t sum_of(const std::byte* from, uint32_t rows, uint64_t pitch) {
  uint64_t sum = 0;
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t column = 0; column < kColumns; ++column) {
      uint16_t value;
      std::memcpy(&value, from + row * pitch + 2 * column, 2);
      sum += uint64_t(row + 1) * value;
    }
  }
  return sum;
}

class Walk {
 public:
  Walk(std::vector<Shape> tasks, Matrix& matrix, bool early)
      : tasks_(std::move(tasks)),
        early_(early),
        tall_(matrix.map(2 * kRows)),
        wide_(matrix.map(kRows)) {
    for (const Shape& task : tasks_) count_ += task.stages;
    for (std::vector<uint64_t>& sums : seen) sums.resize(count_);
  }

  // By every warp.
  void operator()() {
    auto& ring = *reinterpret_cast<Ring*>(cuda::ptx::shared_memory());
    if (cuda::ptx::warp() == 0) ring.init(kReaders);
    cuda::ptx::sync_block();
    uint32_t n = 0;  // Of all tasks.
    for (const Shape& task : tasks_) {
      for (uint32_t i = 0; i < task.stages; ++i, ++n) {
        if (cuda::ptx::warp() == 0)
          fill(ring, task, n);
        else
          read(ring, task, n, seen[cuda::ptx::warp() - 1]);
      }
    }
  }

  uint32_t count() const { return count_; }
  std::vector<uint64_t> seen[kReaders];

 private:
  void fill(Ring& ring, const Shape& task, uint32_t n) const {
    ring.begin_fill(n);
    cuda::ptx::fence_async_proxy();  // Of the matrix, and of what the readers have read.
    ring.expect(n, 2 * kBoxBytes);
    if (!task.wide) return cuda::ptx::load_box(ring.at(n), tall_, 0, n, ring.arrivals(n));
    for (uint32_t side = 0; side < 2; ++side)
      cuda::ptx::load_box(ring.at(n) + side * kBoxBytes, wide_, side * kColumns, n,
                          ring.arrivals(n));
  }

  void read(Ring& ring, const Shape& task, uint32_t n, std::vector<uint64_t>& sums) const {
    ring.wait_full(n);
    if (early_) {
      ring.release(n);
      if (n + kStages < count_) ring.wait_full(n + kStages);  // What has come into its place.
    }
    const std::byte* at = ring.at(n);
    sums[n] = task.wide ? sum_of(at, kRows, 128) + 2 * sum_of(at + kBoxBytes, kRows, 128)
                        : sum_of(at, 2 * kRows, 128);
    if (!early_) ring.release(n);
  }

  const std::vector<Shape> tasks_;
  const bool early_;
  const cuda::TensorMap tall_, wide_;
  uint32_t count_ = 0;
};

// How many stages a reader has seen otherwise than they are in memory.
uint32_t wrong_stages(bool early) {
  std::mt19937 random(9);
  std::vector<Shape> tasks;
  std::vector<bool> wide;
  for (uint32_t i = 0; i < 24; ++i) {
    tasks.push_back({i % 2 != 0, 1 + uint32_t(random() % 5)});
    wide.insert(wide.end(), tasks.back().stages, tasks.back().wide);
  }
  Matrix matrix(uint32_t(wide.size()) + 2 * kRows);
  Walk walk(tasks, matrix, early);
  EXPECT_TRUE(launch(1, (1 + kReaders) * kLanes, sizeof(Ring), [&] { walk(); }));
  uint32_t wrong = 0;
  for (uint32_t n = 0; n < walk.count(); ++n) {
    const std::byte* row = matrix.memory.data() + size_t(n) * kColumns * 4;
    const uint64_t sum = wide[n] ? sum_of(row, kRows, kColumns * 4) +
                                       2 * sum_of(row + kColumns * 2, kRows, kColumns * 4)
                                 : sum_of(row, 2 * kRows, kColumns * 4);
    for (const std::vector<uint64_t>& seen : walk.seen) wrong += seen[n] != sum ? 1 : 0;
  }
  return wrong;
}

TEST(Pipeline, IsSharedByOperations) { EXPECT_EQ(wrong_stages(/*early=*/false), 0u); }

// Planted: readers give stages back before they have read them.
TEST(Pipeline, ShowsAStageThatIsGivenBackEarly) { EXPECT_GT(wrong_stages(/*early=*/true), 0u); }

}  // namespace
}  // namespace sk
