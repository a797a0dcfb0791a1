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

// How many units of how many inputs one thread loads at once.
template <uint32_t ranks, uint32_t many>
struct Loads {
  static constexpr uint32_t kRanks = ranks, kUnits = many;
};
using OfTwo = Loads<2, 4>;   // As many as there are of two inputs,
using OfFour = Loads<4, 2>;  // and of four: fewer rounds where there are many ranks.
using OfAny = Loads<2, 2>;   // Whatever is to be done with them: that takes registers, too.

// The inputs' addresses one after the other, each with its pitch.
struct InputWalk {
  const ReduceRecord& record;
  uint32_t region = 0, end = record.in_count[0];

  // Of input `i`, never one before the last that was asked for.
  SK_DEVICE uint64_t pitch(uint32_t i) {
    while (i >= end) end += record.in_count[++region];
    return record.in_pitch[region];
  }
};

// Sums of the elements in 16 bytes, as the bits of the type they are summed in. Loads and stores
// are the same whatever that is, and what lies between them is the only code that there is of each
// type.
struct Sums {
  uint32_t word[8];

  template <DType dtype>
  SK_DEVICE typename Unit<dtype>::Sum get(uint32_t which) const {
    using Sum = typename Unit<dtype>::Sum;
    if constexpr (sizeof(Sum) == 4)
      return std::bit_cast<Sum>(word[which]);
    else
      return std::bit_cast<Sum>(word[2 * which] | uint64_t(word[2 * which + 1]) << 32);
  }
  template <DType dtype>
  SK_DEVICE void put(uint32_t which, typename Unit<dtype>::Sum sum) {
    using Sum = typename Unit<dtype>::Sum;
    if constexpr (sizeof(Sum) == 4) {
      word[which] = std::bit_cast<uint32_t>(sum);
    } else {
      const auto bits = std::bit_cast<uint64_t>(sum);
      word[2 * which] = uint32_t(bits);
      word[2 * which + 1] = uint32_t(bits >> 32);
    }
  }
};

// fn(integral_constant of the type).
template <typename Fn>
SK_DEVICE void of_type(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn(std::integral_constant<DType, DType::kF32>());
    case DType::kF64:
      return fn(std::integral_constant<DType, DType::kF64>());
    case DType::kBF16:
      return fn(std::integral_constant<DType, DType::kBF16>());
    case DType::kF16:
      return fn(std::integral_constant<DType, DType::kF16>());
    case DType::kI32:
      return fn(std::integral_constant<DType, DType::kI32>());
    case DType::kI64:
      return fn(std::integral_constant<DType, DType::kI64>());
  }
}

// Inputs from `first` on, as many of `loaded` as there are.
template <DType dtype, typename Shape, bool adds>
SK_DEVICE void join_loaded(const ReduceRecord& record, uint32_t first,
                           const ptx::Bytes16 (&loaded)[Shape::kRanks][Shape::kUnits],
                           Sums (&sums)[Shape::kUnits]) {
  const RedOp op = adds ? RedOp::kSum : RedOp(record.op);
#pragma unroll
  for (uint32_t r = 0; r < Shape::kRanks; ++r) {
    if (first + r >= record.all_in_count) break;
#pragma unroll
    for (uint32_t u = 0; u < Shape::kUnits; ++u) {
#pragma unroll
      for (uint32_t e = 0; e < Unit<dtype>::kCount; ++e) {
        const auto value = Unit<dtype>::get(loaded[r][u], e);
        sums[u].template put<dtype>(
            e, first + r == 0 ? value : join(op, sums[u].template get<dtype>(e), value));
      }
    }
  }
}

template <DType dtype, uint32_t many>
SK_DEVICE void round_sums(const ReduceRecord& record, Sums (&sums)[many],
                          ptx::Bytes16 (&result)[many]) {
#pragma unroll
  for (uint32_t u = 0; u < many; ++u) {
#pragma unroll
    for (uint32_t e = 0; e < Unit<dtype>::kCount; ++e) {
      auto sum = sums[u].template get<dtype>(e);
      if constexpr (is_float(dtype))
        if (RedOp(record.op) == RedOp::kAvg) sum = sum / decltype(sum)(record.all_in_count);
      Unit<dtype>::put(result[u], e, sum);
    }
  }
}

// A batch of 16 bytes of every input; `adds`: the operation is a sum or a mean.
template <typename Shape, bool adds>
SK_DEVICE void reduce_batch(const ReduceTask& task, const Batch<Shape::kUnits>& batch) {
  constexpr uint32_t kRanks = Shape::kRanks, kUnits = Shape::kUnits;
  const ReduceRecord& record = task.record;
  Sums sums[kUnits] = {};
  InputWalk walk{record};
  for (uint32_t first = 0; first < record.all_in_count; first += kRanks) {
    ptx::Bytes16 loaded[kRanks][kUnits];
#pragma unroll
    for (uint32_t r = 0; r < kRanks; ++r) {
      const bool is_one = first + r < record.all_in_count;
      const uint32_t input = is_one ? first + r : first;  // Some address, where it is none.
      const std::byte* const from = task.addresses[input];
      const uint64_t pitch = walk.pitch(input);
#pragma unroll
      for (uint32_t u = 0; u < kUnits; ++u)
        loaded[r][u] = ptx::load16_once(is_one && batch.there[u],
                                        from + batch.row[u] * pitch + uint64_t(batch.unit[u]) * 16);
    }
    of_type(DType(record.dtype), [&](auto dtype) {
      join_loaded<decltype(dtype)::value, Shape, adds>(record, first, loaded, sums);
    });
  }
  ptx::Bytes16 result[kUnits] = {};
  of_type(DType(record.dtype),
          [&](auto dtype) { round_sums<decltype(dtype)::value>(record, sums, result); });
  const bool past = record.past_caches != 0;
  for (uint32_t j = 0; j < record.out_count; ++j) {
    std::byte* const to = task.outputs()[j];
#pragma unroll
    for (uint32_t u = 0; u < kUnits; ++u) {
      std::byte* const at = to + batch.row[u] * record.out_pitch + uint64_t(batch.unit[u]) * 16;
      ptx::store16_past(batch.there[u] && past, at, result[u]);
      ptx::store16_where(batch.there[u] && !past, at, result[u]);
    }
  }
}

template <typename Shape>
SK_DEVICE void add_rows(const Team& team, const ReduceTask& task, uint32_t units) {
  team.each_in_rows<Shape::kUnits>(task.record.rows, units, [&](const Batch<Shape::kUnits>& batch) {
    reduce_batch<Shape, /*adds=*/true>(task, batch);
  });
}

// 16 bytes of every input at a time; returns the columns done. (No task has more than kUnitsMax of
// them, 16 GiB, in a row but where one queue has them all.)
SK_DEVICE uint64_t reduce_packed(const Team& team, const ReduceTask& task) {
  const ReduceRecord& record = task.record;
  const auto in_unit = uint32_t(16 / dtype_bytes(DType(record.dtype)));
  const uint64_t all = record.columns / in_unit;
  const uint32_t units = all < kUnitsMax ? uint32_t(all) : kUnitsMax;
  const bool adds = RedOp(record.op) == RedOp::kSum || RedOp(record.op) == RedOp::kAvg;
  if (!adds || !team.fills_rows<OfTwo::kUnits>(record.rows, units)) {
    team.each_across_rows<OfAny::kUnits>(record.rows, units,
                                         [&](const Batch<OfAny::kUnits>& batch) {
                                           reduce_batch<OfAny, /*adds=*/false>(task, batch);
                                         });
  } else if (record.all_in_count <= OfTwo::kRanks) {
    add_rows<OfTwo>(team, task, units);
  } else {
    add_rows<OfFour>(team, task, units);
  }
  return uint64_t(units) * in_unit;
}

// The same, of floats of up to 32 bits, in the registers that are left beside the sums of a
// product: one place at a time, up to four addresses of an input at once.
template <DType dtype>
SK_DEVICE uint64_t reduce_lean(const Team& team, const ReduceTask& task) {
  using In = Unit<dtype>;
  constexpr uint32_t kAtOnce = 4;
  const ReduceRecord& record = task.record;
  const RedOp op = RedOp(record.op);
  const uint64_t units = record.columns / In::kCount;
  team.each(units * record.rows, [&](uint64_t i) {
    const uint64_t row = record.rows == 1 ? 0 : i / units;
    const uint64_t at = (i - row * units) * 16;
    float sum[In::kCount];
    bool first = true;
    std::byte* const* from = task.addresses;
    for (uint32_t r = 0; r < record.inputs; from += record.in_count[r++]) {
      const uint32_t count = record.in_count[r];
      const uint64_t place = row * record.in_pitch[r] + at;
      for (uint32_t j = 0; j < count; j += kAtOnce) {
        ptx::Bytes16 loaded[kAtOnce];
#pragma unroll
        for (uint32_t u = 0; u < kAtOnce; ++u)
          if (j + u < count) loaded[u] = ptx::load16(from[j + u] + place);
#pragma unroll
        for (uint32_t u = 0; u < kAtOnce; ++u) {
          if (j + u >= count) break;
#pragma unroll
          for (uint32_t e = 0; e < In::kCount; ++e) {
            const float value = In::get(loaded[u], e);
            sum[e] = first ? value : join(op, sum[e], value);
          }
          first = false;
        }
      }
    }
    ptx::Bytes16 result{};
#pragma unroll
    for (uint32_t e = 0; e < In::kCount; ++e)
      In::put(result, e, op == RedOp::kAvg ? sum[e] / float(record.all_in_count) : sum[e]);
    for (uint32_t j = 0; j < record.out_count; ++j)
      ptx::store16(task.outputs()[j] + row * record.out_pitch + at, result);
  });
  return units * In::kCount;
}

// `lean`: see copy_tile().
template <bool lean>
SK_DEVICE void reduce_tile(const Team& team, const ReduceRecord& record,
                           std::byte* const* addresses) {
  const ReduceTask task{record, addresses};
  const DType dtype = DType(record.dtype);
  uint64_t done = 0;
  if (record.out_dtype == record.dtype && is_aligned(task.bits(), 16)) {
    if constexpr (lean) {
      if (dtype == DType::kF32) done = reduce_lean<DType::kF32>(team, task);
      if (dtype == DType::kBF16) done = reduce_lean<DType::kBF16>(team, task);
      if (dtype == DType::kF16) done = reduce_lean<DType::kF16>(team, task);
    } else {
      done = reduce_packed(team, task);
    }
  }
  if (done == record.columns) return;
  if (!is_float(dtype)) return reduce_elements<int64_t>(team, task, done);
  if (dtype == DType::kF64) return reduce_elements<double>(team, task, done);
  reduce_elements<float>(team, task, done);
}

}  // namespace sk::cuda

#endif  // SK_CUDA_TILE_REDUCE_CUH_
