// Columns summed over all rows in their order: reductions of some rows at a time, into what is
// carried on to the next ones. What is carried on loses digits as it grows beside what is added, so
// that some rows are a sum of their own, and some of those sums another one.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "lib/exec/cpu/tile/reduce.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {
namespace {

constexpr uint64_t kRowsAtOnce = 32;    // Their pages are near while the columns are gone over.
constexpr uint64_t kStripBytes = 4096;  // Of sums that are carried on; on the stack.
constexpr uint64_t kSummed = 128;       // Rows, or sums of rows, that make a sum: whole turns.
constexpr size_t kLevels = 5;           // 2^35 rows, and the last goes on.
static_assert(kSummed % kRowsAtOnce == 0);

struct Strip {
  DType dtype, out_dtype;
  const std::byte* in = nullptr;  // Of the first row.
  uint64_t pitch = 0, rows = 0, columns = 0;
  std::byte* out = nullptr;
};

class Sums {
 public:
  explicit Sums(const Strip& strip) : s_(strip) {}

  void run() {
    for (uint64_t row = 0; row < s_.rows;) {
      const uint64_t end = std::min(s_.rows, row + kRowsAtOnce);
      std::array<const void*, kRowsAtOnce> in;
      for (uint64_t i = row; i < end; ++i) in[i - row] = s_.in + i * s_.pitch;
      add(0, {in.data(), end - row});
      row = end;
      if (row < s_.rows) close_full();
    }
    finish();
  }

 private:
  struct Level {
    uint64_t count = 0;  // Of what it has.
    alignas(64) std::array<std::byte, kStripBytes> sum;
  };

  void reduce(std::span<const void* const> in, DType out_dtype, void* out) const {
    reduce_strided({.in_dtype = s_.dtype,
                    .out_dtype = out_dtype,
                    .op = RedOp::kSum,
                    .in = in.data(),
                    .in_count = int(in.size()),
                    .out = &out,
                    .out_count = 1,
                    .rows = 1,
                    .row_elements = s_.columns});
  }

  void add(size_t number, std::span<const void* const> what) {
    Level& level = levels_[number];
    std::array<const void*, kRowsAtOnce + 1> in;
    size_t count = 0;
    if (level.count > 0) in[count++] = level.sum.data();
    for (const void* each : what) in[count++] = each;
    reduce({in.data(), count}, s_.dtype, level.sum.data());
    level.count += what.size();
  }

  void close(size_t number) {
    const void* const sum = levels_[number].sum.data();
    add(number + 1, {&sum, 1});
    levels_[number].count = 0;
  }
  void close_full() {
    for (size_t i = 0; i + 1 < kLevels && levels_[i].count >= kSummed; ++i) close(i);
  }

  // What is left, from the highest level on: the order of rows.
  void finish() {
    std::array<const void*, kLevels> in;
    size_t count = 0;
    for (size_t i = kLevels; i > 0; --i) {
      if (levels_[i - 1].count > 0) in[count++] = levels_[i - 1].sum.data();
    }
    reduce({in.data(), count}, s_.out_dtype, s_.out);
  }

  const Strip& s_;
  std::array<Level, kLevels> levels_;
};

void run(const TileArgs& args) {
  const int64_t* p = args.params;
  Strip strip = {.dtype = DType(p[kSumRowsDtype]), .out_dtype = DType(p[kSumRowsOutDtype])};
  strip.pitch = args.regions[0].pitch;
  strip.rows = uint64_t(p[kSumRowsM]);
  const uint64_t element = dtype_bytes(strip.dtype), out_element = dtype_bytes(strip.out_dtype);
  const uint64_t columns = uint64_t(p[kSumRowsCols]);
  if (strip.rows == 0) std::memset(args.pointers[1][0], 0, columns * out_element);
  for (uint64_t first = 0; first < columns; first += strip.columns) {
    strip.columns = std::min(kStripBytes / element, columns - first);
    strip.in = args.pointers[0][0] + first * element;
    strip.out = args.pointers[1][0] + first * out_element;
    if (strip.rows > 0) Sums(strip).run();
  }
}

}  // namespace

constexpr CpuTile cpu_tiles::kSumRows = {
    .choose = [](const TileShape&, CpuIsa) -> TileFn { return run; }};

}  // namespace sk::cpu
