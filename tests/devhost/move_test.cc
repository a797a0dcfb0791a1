// Copies and reductions by themselves: every size, alignment, number of rows and of buffers comes
// out as the tile's reference has it, and nothing beside it is touched.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "cuda/exec/decode.h"
#include "cuda/tile/copy.cuh"
#include "cuda/tile/reduce.cuh"
#include "lib/plan/builder.h"
#include "lib/tile/tile_op.h"
#include "tests/devhost/machine.h"
#include "tests/devhost/world.h"

namespace sk {
namespace {

using namespace devhost;

constexpr uint32_t kWarps = 8;
#if defined(__SANITIZE_THREAD__)
constexpr int kCases = 60;
#else
constexpr int kCases = 400;
#endif

struct Place {
  uint32_t rows;
  uint64_t row_bytes, pitch, offset;

  uint64_t bytes() const { return offset + (rows - 1) * pitch + row_bytes + 32; }
};

// One task, with memory for each of its buffers.
struct Move {
  TaskOp op;
  std::vector<Region> regions = {};
  std::vector<int64_t> params = {};
  std::vector<Aligned> memory = {};

  // Returns where the region starts in each of its buffers.
  void add(const Place& place, uint32_t buffers, RegionAccess access) {
    regions.push_back({place.offset, place.row_bytes, place.pitch, place.rows,
                       uint32_t(memory.size()), buffers, access});
    for (uint32_t i = 0; i < buffers; ++i) memory.emplace_back(place.bytes());
  }
  std::vector<std::byte*> addresses() {
    std::vector<std::byte*> all;
    for (const Region& region : regions)
      for (uint32_t i = 0; i < region.buffer_count; ++i)
        all.push_back(memory[region.buffer + i].data() + region.offset);
    return all;
  }
};

void by_reference(Move& move) {
  const std::vector<std::byte*> all = move.addresses();
  TileArgs args{.regions = move.regions.data(),
                .pointers = {},
                .params = move.params.data(),
                .region_count = uint32_t(move.regions.size())};
  std::byte* const* next = all.data();
  for (size_t i = 0; i < move.regions.size(); next += move.regions[i++].buffer_count)
    args.pointers[i] = next;
  tile_op(move.op)->reference(args);
}

// By one block, or two that share it.
void on_device(Move& move, uint32_t sides, bool lean) {
  RankBuilder builder(0, 1);
  builder.add({.op = move.op, .more_regions = move.regions, .params = move.params});
  Plan plan;
  plan.ranks.push_back(builder.finish());
  auto records = cuda::decode(plan, plan.ranks[0], nullptr);
  ASSERT_TRUE(records.ok()) << records.status().message();
  const std::vector<std::byte*> all = move.addresses();
  ASSERT_TRUE(launch(sides, kWarps * kLanes, 64, [&] {
    const cuda::Team team{0, kWarps, 1, cuda::ptx::block(), sides};
    const cuda::TaskRecord& record = (*records)[0];
    if (move.op == TaskOp::kCopy) {
      if (lean) cuda::copy_tile</*lean=*/true>(team, record.copy, all.data());
      if (!lean) cuda::copy_tile</*lean=*/false>(team, record.copy, all.data());
    } else {
      if (lean) cuda::reduce_tile</*lean=*/true>(team, record.reduce, all.data());
      if (!lean) cuda::reduce_tile</*lean=*/false>(team, record.reduce, all.data());
    }
  }));
}

void expect_as_reference(Move move, uint32_t sides, bool lean, const std::string& what) {
  Move expected = move;
  for (size_t i = 0; i < move.memory.size(); ++i)  // A copy begins elsewhere in what it has.
    std::memcpy(expected.memory[i].data(), move.memory[i].data(), move.memory[i].size);
  by_reference(expected);
  on_device(move, sides, lean);
  for (size_t i = 0; i < move.memory.size(); ++i) {
    ASSERT_EQ(std::memcmp(move.memory[i].data(), expected.memory[i].data(), move.memory[i].size), 0)
        << "buffer " << i << ", " << what;
  }
}

class Moves {
 public:
  explicit Moves(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t end) { return random_() % end; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  // Long rows, of several batches of all threads; short ones; a few bytes.
  uint64_t size(uint64_t unit) {
    return unit * (1 + below(one_of<uint64_t>({3, 70, 1000, 40'000}) / unit + 1));
  }
  Place place(uint32_t rows, uint64_t row_bytes, uint64_t unit) {
    const uint64_t align = one_of<uint64_t>({16, 16, 4, 1}) * unit;
    const uint64_t gap = rows > 1 ? below(4) * align : 0;
    const uint64_t pitch = rows > 1 ? (row_bytes + align - 1) / align * align + gap : row_bytes;
    return {rows, row_bytes, pitch, below(4) * align};
  }
  // Every sign, and of floats numbers whose sums are rounded.
  void fill(Aligned& memory, DType dtype) {
    for (size_t at = 0; at + dtype_bytes(dtype) <= memory.size; at += dtype_bytes(dtype)) {
      std::byte* const to = memory.data() + at;
      const double value = std::ldexp(double(below(8191)) - 4095, int(below(12)) - 8);
      const auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
      switch (dtype) {
        case DType::kF32:
          put(float(value));
          break;
        case DType::kF64:
          put(value);
          break;
        case DType::kBF16:
          put(f32_to_bf16(float(value)));
          break;
        case DType::kF16:
          put(f32_to_f16(float(value)));
          break;
        case DType::kI32:
          put(int32_t(random_()));
          break;
        case DType::kI64:
          put(int64_t(random_()));
          break;
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

TEST(Moves, CopiesAreTheReferences) {
  Moves choose(3);
  for (int i = 0; i < kCases; ++i) {
    const auto rows = choose.one_of<uint32_t>({1, 1, 2, 7, 60});
    const uint64_t row_bytes = choose.size(choose.one_of<uint64_t>({1, 4, 16}));
    const auto outputs = choose.one_of<uint32_t>({1, 2, 8});
    Move move{.op = TaskOp::kCopy,
              .params = {choose.one_of<int64_t>({kStoreDefault, kStoreNonTemporal})}};
    move.add(choose.place(rows, row_bytes, 1), 1, kRead);
    move.add(choose.place(rows, row_bytes, 1), outputs, kWrite);
    for (Aligned& memory : move.memory) choose.fill(memory, DType::kI32);
    expect_as_reference(std::move(move), choose.one_of<uint32_t>({1, 2}), choose.below(4) == 0,
                        fmt::format("{} rows of {} bytes", rows, row_bytes));
  }
}

TEST(Moves, ReductionsAreTheReferences) {
  Moves choose(5);
  for (int i = 0; i < kCases; ++i) {
    const DType dtype = choose.one_of({DType::kF32, DType::kF32, DType::kF64, DType::kBF16,
                                       DType::kF16, DType::kI32, DType::kI64});
    const RedOp redop = is_float(dtype)
                            ? choose.one_of({RedOp::kSum, RedOp::kSum, RedOp::kAvg, RedOp::kMin,
                                             RedOp::kMax, RedOp::kProd})
                            : choose.one_of({RedOp::kSum, RedOp::kMin, RedOp::kMax, RedOp::kProd});
    const bool widens = dtype == DType::kBF16 && choose.below(4) == 0;
    const DType out_dtype = widens ? DType::kF32 : dtype;
    const uint64_t element = dtype_bytes(dtype);
    const auto rows = choose.one_of<uint32_t>({1, 1, 2, 7, 60});
    const uint64_t columns = choose.size(element) / element;
    Move move{.op = TaskOp::kReduce,
              .params = {int64_t(dtype), int64_t(out_dtype), int64_t(redop),
                         choose.one_of<int64_t>({kStoreDefault, kStoreNonTemporal})}};
    const uint64_t inputs = 1 + choose.below(5);
    uint32_t all = 0;
    for (uint64_t j = 0; j < inputs; ++j) {
      const auto buffers = choose.one_of<uint32_t>({1, 1, 2, 3});
      move.add(choose.place(rows, columns * element, element), buffers, kRead);
      all += buffers;
    }
    move.add(choose.place(rows, columns * dtype_bytes(out_dtype), dtype_bytes(out_dtype)),
             choose.one_of<uint32_t>({1, 2, 5}), kWrite);
    for (Aligned& memory : move.memory) choose.fill(memory, dtype);
    expect_as_reference(std::move(move), choose.one_of<uint32_t>({1, 2}), choose.below(4) == 0,
                        fmt::format("{} of {} {}, {} rows of {}", redop_name(redop), all,
                                    dtype_name(dtype), rows, columns));
  }
}

// The output is one of the inputs: no thread reads what another has written.
TEST(Moves, ReductionsInPlace) {
  Moves choose(7);
  for (const uint64_t columns : {1, 255, 1024, 4097, 20'000}) {
    for (const uint32_t all : {2u, 3u, 5u}) {
      Move move{.op = TaskOp::kReduce,
                .params = {int64_t(DType::kF32), int64_t(DType::kF32), int64_t(RedOp::kSum),
                           kStoreDefault}};
      move.add({1, columns * 4, columns * 4, 0}, all, kRead);
      move.regions.push_back(move.regions[0]);
      move.regions[1].access = kWrite;
      for (Aligned& memory : move.memory) choose.fill(memory, DType::kF32);
      expect_as_reference(std::move(move), 2, false, fmt::format("{} of {}", all, columns));
    }
  }
}

// Minimum and maximum with a NaN are one, whichever way round.
TEST(Moves, NaNsStay) {
  for (const RedOp redop : {RedOp::kMin, RedOp::kMax}) {
    Move move{
        .op = TaskOp::kReduce,
        .params = {int64_t(DType::kF32), int64_t(DType::kF32), int64_t(redop), kStoreDefault}};
    constexpr uint64_t kColumns = 64;
    move.add({1, kColumns * 4, kColumns * 4, 0}, 3, kRead);
    move.add({1, kColumns * 4, kColumns * 4, 0}, 1, kWrite);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      for (uint64_t i = 0; i < kColumns; ++i) {
        const float value = i % 4 == rank ? std::nanf("") : float(i + rank);
        std::memcpy(move.memory[rank].data() + 4 * i, &value, 4);
      }
    }
    on_device(move, 1, false);
    for (uint64_t i = 0; i < kColumns; ++i) {
      float value;
      std::memcpy(&value, move.memory[3].data() + 4 * i, 4);
      const float one = redop == RedOp::kMin ? float(i) : float(i + 2);
      EXPECT_TRUE(i % 4 < 3 ? std::isnan(value) : value == one) << i << ": " << value;
    }
  }
}

}  // namespace
}  // namespace sk
