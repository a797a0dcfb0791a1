// kReduce: several inputs, element by element, in rank order, into one or several outputs; rounded
// once.
#ifndef SK_CUDA_TILE_REDUCE_CUH_
#define SK_CUDA_TILE_REDUCE_CUH_

#include "cuda/tile/copy.cuh"
#include "cuda/tile/element.cuh"

namespace sk::cuda {

// All inputs, one after the other: regions' pitches may differ.
struct ReduceInputs {
  const TileArgs& args;
  uint32_t regions, count;

  SK_DEVICE explicit ReduceInputs(const TileArgs& all)
      : args(all), regions(all.region_count - 1), count(all.first_pointer[all.region_count - 1]) {}
  SK_DEVICE uint64_t alignment() const {
    uint64_t bits = alignment_bits(args, regions);
    for (uint32_t i = 0; i < regions; ++i) bits |= alignment_bits(args, i);
    return bits;
  }
};

template <typename Sum>
SK_DEVICE Sum reduce_element(const ReduceInputs& in, uint64_t row, uint64_t column) {
  const DType dtype = DType(in.args.params[kReduceDtype]);
  const RedOp op = RedOp(in.args.params[kReduceOp]);
  Sum sum = Sum();
  bool first = true;
  for (uint32_t i = 0; i < in.regions; ++i) {
    const Region& region = in.args.regions[i];
    for (uint32_t j = 0; j < region.buffer_count; ++j) {
      const Sum value = load_element<Sum>(
          dtype, in.args.pointer(i, j) + row * region.pitch + column * dtype_bytes(dtype));
      sum = first ? value : join(op, sum, value);
      first = false;
    }
  }
  return op == RedOp::kAvg ? sum / Sum(in.count) : sum;
}

// Columns from `first` on, whatever their types and alignment.
template <typename Sum>
SK_DEVICE void reduce_elements(const Team& team, const ReduceInputs& in, uint64_t first) {
  const Region& out = in.args.regions[in.regions];
  const DType out_dtype = DType(in.args.params[kReduceOutDtype]);
  const uint64_t columns = out.row_bytes / dtype_bytes(out_dtype) - first;
  team.each(columns * out.rows, [&](uint64_t i) {
    const uint64_t row = out.rows == 1 ? 0 : i / columns;
    const uint64_t column = first + i - row * columns;
    const Sum sum = reduce_element<Sum>(in, row, column);
    for (uint32_t j = 0; j < out.buffer_count; ++j)
      store_element(
          out_dtype,
          in.args.pointer(in.regions, j) + row * out.pitch + column * dtype_bytes(out_dtype), sum);
  });
}

inline constexpr uint32_t kLoadsInFlight = 4;  // Of 16 bytes, by one thread.

// 16 bytes of every input at a time; returns the columns done.
template <DType dtype>
SK_DEVICE uint64_t reduce_packed(const Team& team, const ReduceInputs& in) {
  constexpr uint32_t kPerWord = Packed<dtype>::kPerWord, kCount = 4 * kPerWord;
  const Region& out = in.args.regions[in.regions];
  const RedOp op = RedOp(in.args.params[kReduceOp]);
  const uint64_t units = out.row_bytes / 16;
  team.each(units * out.rows, [&](uint64_t i) {
    const uint64_t row = out.rows == 1 ? 0 : i / units;
    const uint64_t at = (i - row * units) * 16;
    float sum[kCount];
    bool first = true;
    for (uint32_t r = 0; r < in.regions; ++r) {
      const Region& region = in.args.regions[r];
      const uint64_t place = row * region.pitch + at;
      for (uint32_t j = 0; j < region.buffer_count; j += kLoadsInFlight) {
        ptx::Bytes16 loaded[kLoadsInFlight];
#pragma unroll
        for (uint32_t u = 0; u < kLoadsInFlight; ++u)
          if (j + u < region.buffer_count)
            loaded[u] = ptx::load16(in.args.pointer(r, j + u) + place);
#pragma unroll
        for (uint32_t u = 0; u < kLoadsInFlight; ++u) {
          if (j + u >= region.buffer_count) break;
#pragma unroll
          for (uint32_t e = 0; e < kCount; ++e) {
            const float value = Packed<dtype>::get(loaded[u].word[e / kPerWord], e % kPerWord);
            sum[e] = first ? value : join(op, sum[e], value);
          }
          first = false;
        }
      }
    }
    ptx::Bytes16 result{};
#pragma unroll
    for (uint32_t e = 0; e < kCount; ++e)
      result.word[e / kPerWord] |=
          Packed<dtype>::put(op == RedOp::kAvg ? sum[e] / float(in.count) : sum[e], e % kPerWord);
    for (uint32_t j = 0; j < out.buffer_count; ++j)
      ptx::store16(in.args.pointer(in.regions, j) + row * out.pitch + at, result);
  });
  return units * kCount;
}

SK_DEVICE void reduce_tile(const Team& team, const TileArgs& args) {
  const ReduceInputs in(args);
  const DType dtype = DType(args.params[kReduceDtype]);
  uint64_t done = 0;
  if (DType(args.params[kReduceOutDtype]) == dtype && is_aligned(in.alignment(), 16)) {
    if (dtype == DType::kF32) done = reduce_packed<DType::kF32>(team, in);
    if (dtype == DType::kBF16) done = reduce_packed<DType::kBF16>(team, in);
    if (dtype == DType::kF16) done = reduce_packed<DType::kF16>(team, in);
  }
  if (!is_float(dtype)) return reduce_elements<int64_t>(team, in, done);
  if (dtype == DType::kF64) return reduce_elements<double>(team, in, done);
  reduce_elements<float>(team, in, done);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_REDUCE_CUH_
