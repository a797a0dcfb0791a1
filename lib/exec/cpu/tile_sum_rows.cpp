// Columns summed over all rows in their order: reductions of some rows at a time, into what is
// carried on to the next ones.
#include <algorithm>
#include <array>
#include <cstring>

#include "lib/exec/cpu/tile/reduce.h"
#include "lib/exec/cpu/tile_table.h"

namespace sk::cpu {
namespace {

constexpr uint64_t kRowsAtOnce = 32;    // Their pages are near while the columns are gone over.
constexpr uint64_t kStripBytes = 4096;  // Of sums that are carried on; on the stack.

struct Strip {
  DType dtype, out_dtype;
  const std::byte* in = nullptr;  // Of the first row.
  uint64_t pitch = 0, rows = 0, columns = 0;
  std::byte* out = nullptr;
};

void sum(const Strip& s) {
  alignas(64) std::array<std::byte, kStripBytes> carried;
  void* const carry = carried.data();
  for (uint64_t row = 0; row < s.rows;) {
    std::array<const void*, kRowsAtOnce + 1> in;
    int count = 0;
    if (row > 0) in[size_t(count++)] = carry;
    const uint64_t end = std::min(s.rows, row + kRowsAtOnce);
    for (; row < end; ++row) in[size_t(count++)] = s.in + row * s.pitch;
    void* out = row == s.rows ? s.out : carry;
    reduce_strided({.in_dtype = s.dtype,
                    .out_dtype = row == s.rows ? s.out_dtype : s.dtype,
                    .op = RedOp::kSum,
                    .in = in.data(),
                    .in_count = count,
                    .out = &out,
                    .out_count = 1,
                    .rows = 1,
                    .row_elements = s.columns});
  }
}

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
    sum(strip);
  }
}

}  // namespace

constexpr CpuTile cpu_tiles::kSumRows = {
    .choose = [](const TileShape&, CpuIsa) -> TileFn { return run; }};

}  // namespace sk::cpu
