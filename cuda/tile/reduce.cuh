// kReduce: several inputs, element by element, in rank order, into one or several outputs; rounded
// once.
#ifndef SK_CUDA_TILE_REDUCE_CUH_
#define SK_CUDA_TILE_REDUCE_CUH_

#include "cuda/ptx/memory.cuh"
#include "cuda/tile/element.cuh"
#include "cuda/tile/team.cuh"

namespace sk::cuda {

struct ReduceTask {
  const ReduceRecord& record;
  std::byte* const* addresses;

  SK_DEVICE std::byte* const* outputs() const { return addresses + record.all_in_count; }
  SK_DEVICE uint64_t bits() const {
    uint64_t bits = address_bits(outputs(), record.out_count, record.out_pitch, record.rows);
    std::byte* const* from = addresses;
    for (uint32_t i = 0; i < record.inputs; from += record.in_count[i++])
      bits |= address_bits(from, record.in_count[i], record.in_pitch[i], record.rows);
    return bits;
  }
};

template <typename Sum>
SK_DEVICE Sum reduce_element(const ReduceTask& task, uint64_t row, uint64_t column) {
  const ReduceRecord& record = task.record;
  const DType dtype = DType(record.dtype);
  const RedOp op = RedOp(record.op);
  const uint64_t at = column * dtype_bytes(dtype);
  Sum sum = Sum();
  bool first = true;
  std::byte* const* from = task.addresses;
  for (uint32_t i = 0; i < record.inputs; ++i) {
    for (uint32_t j = 0; j < record.in_count[i]; ++j, ++from) {
      const Sum value = load_element<Sum>(dtype, *from + row * record.in_pitch[i] + at);
      sum = first ? value : join(op, sum, value);
      first = false;
    }
  }
  return op == RedOp::kAvg ? sum / Sum(record.all_in_count) : sum;
}

// Columns from `first` on, whatever their types and alignment.
template <typename Sum>
SK_DEVICE void reduce_elements(const Team& team, const ReduceTask& task, uint64_t first) {
  const ReduceRecord& record = task.record;
  const DType out_dtype = DType(record.out_dtype);
  const uint64_t columns = record.columns - first;
  team.each(columns * record.rows, [&](uint64_t i) {
    const uint64_t row = record.rows == 1 ? 0 : i / columns;
    const uint64_t column = first + i - row * columns;
    const Sum sum = reduce_element<Sum>(task, row, column);
    const uint64_t place = row * record.out_pitch + column * dtype_bytes(out_dtype);
    for (uint32_t j = 0; j < record.out_count; ++j)
      store_element(out_dtype, task.outputs()[j] + place, sum);
  });
}

inline constexpr uint32_t kLoadsInFlight = 4;  // Of 16 bytes, by one thread.

// 16 bytes of every input at a time; returns the columns done.
template <DType dtype>
SK_DEVICE uint64_t reduce_packed(const Team& team, const ReduceTask& task) {
  constexpr uint32_t kPerWord = Packed<dtype>::kPerWord, kCount = 4 * kPerWord;
  const ReduceRecord& record = task.record;
  const RedOp op = RedOp(record.op);
  const uint64_t units = record.columns / kCount;
  team.each(units * record.rows, [&](uint64_t i) {
    const uint64_t row = record.rows == 1 ? 0 : i / units;
    const uint64_t at = (i - row * units) * 16;
    float sum[kCount];
    bool first = true;
    std::byte* const* from = task.addresses;
    for (uint32_t r = 0; r < record.inputs; from += record.in_count[r++]) {
      const uint32_t count = record.in_count[r];
      const uint64_t place = row * record.in_pitch[r] + at;
      for (uint32_t j = 0; j < count; j += kLoadsInFlight) {
        ptx::Bytes16 loaded[kLoadsInFlight];
#pragma unroll
        for (uint32_t u = 0; u < kLoadsInFlight; ++u)
          if (j + u < count) loaded[u] = ptx::load16(from[j + u] + place);
#pragma unroll
        for (uint32_t u = 0; u < kLoadsInFlight; ++u) {
          if (j + u >= count) break;
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
      result.word[e / kPerWord] |= Packed<dtype>::put(
          op == RedOp::kAvg ? sum[e] / float(record.all_in_count) : sum[e], e % kPerWord);
    for (uint32_t j = 0; j < record.out_count; ++j)
      ptx::store16(task.outputs()[j] + row * record.out_pitch + at, result);
  });
  return units * kCount;
}

SK_DEVICE void reduce_tile(const Team& team, const ReduceRecord& record,
                           std::byte* const* addresses) {
  const ReduceTask task{record, addresses};
  const DType dtype = DType(record.dtype);
  uint64_t done = 0;
  if (DType(record.out_dtype) == dtype && is_aligned(task.bits(), 16)) {
    if (dtype == DType::kF32) done = reduce_packed<DType::kF32>(team, task);
    if (dtype == DType::kBF16) done = reduce_packed<DType::kBF16>(team, task);
    if (dtype == DType::kF16) done = reduce_packed<DType::kF16>(team, task);
  }
  if (!is_float(dtype)) return reduce_elements<int64_t>(team, task, done);
  if (dtype == DType::kF64) return reduce_elements<double>(team, task, done);
  reduce_elements<float>(team, task, done);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_REDUCE_CUH_
