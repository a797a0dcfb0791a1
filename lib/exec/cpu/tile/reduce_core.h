// The reduction loops, as templates over an instruction set (see isa_types.h for the rules).
#ifndef SK_LIB_EXEC_CPU_TILE_REDUCE_CORE_H_
#define SK_LIB_EXEC_CPU_TILE_REDUCE_CORE_H_

#include "lib/exec/cpu/tile/isa_types.h"
#include "lib/exec/cpu/tile/reduce_table.h"

namespace sk::cpu {

template <RedOp kOp, typename V>
static inline __attribute__((always_inline)) V combine(V acc, V x) {
  if constexpr (kOp == RedOp::kProd) return acc * x;
  // x != x holds for NaN only: a NaN on either side stays.
  if constexpr (kOp == RedOp::kMin) return ((x < acc) | (x != x)) ? x : acc;
  if constexpr (kOp == RedOp::kMax) return ((x > acc) | (x != x)) ? x : acc;
  return acc + x;
}

template <typename Isa, typename In, typename Out, RedOp kOp, int kIn, int kOut>
struct ReduceLoop {
  using Acc = typename In::Acc;
  static constexpr size_t kLanes = In::kLanes;
  static constexpr size_t kInBytes = sizeof(typename In::Elem);
  static constexpr size_t kOutBytes = sizeof(typename Out::Elem);
  static constexpr size_t kUnroll = 4;
  static_assert(In::kLanes == Out::kLanes);

  // kIn and kOut are the counts where they are fixed: the pointers then live in registers.
  const void* const* in;
  void* const* out;
  int in_count, out_count;

  static Acc finish(Acc acc, int in_count) {
    if constexpr (kOp == RedOp::kAvg) {
      using Scalar = __typeof__(acc[0] + acc[0]);
      return acc / (Acc{} + Scalar(in_count));
    }
    return acc;
  }

  // Every load of these elements comes before the first store: an output may be an input.
  template <size_t kVectors, bool kStream>
  inline __attribute__((always_inline)) void block(size_t i) const {
    const int ins = kIn != 0 ? kIn : in_count, outs = kOut != 0 ? kOut : out_count;
    Acc acc[kVectors];
    const char* first = static_cast<const char*>(in[0]) + i * kInBytes;
    for (size_t v = 0; v < kVectors; ++v) {
      acc[v] = In::widen(load_vec<typename In::Mem>(first + v * sizeof(typename In::Mem)));
    }
    for (int r = 1; r < ins; ++r) {
      const char* next = static_cast<const char*>(in[r]) + i * kInBytes;
      for (size_t v = 0; v < kVectors; ++v) {
        acc[v] = combine<kOp>(
            acc[v], In::widen(load_vec<typename In::Mem>(next + v * sizeof(typename In::Mem))));
      }
    }
    for (size_t v = 0; v < kVectors; ++v) acc[v] = finish(acc[v], ins);
    for (int j = 0; j < outs; ++j) {
      char* to = static_cast<char*>(out[j]) + i * kOutBytes;
      for (size_t v = 0; v < kVectors; ++v) {
        char* at = to + v * sizeof(typename Out::Mem);
        if constexpr (kStream) {
          Isa::stream(at, Out::narrow(acc[v]));
        } else {
          store_vec(at, Out::narrow(acc[v]));
        }
      }
    }
  }

  // Fewer elements than a vector has.
  void part(size_t i, size_t count) const {
    using InMem = typename In::Mem;
    using OutMem = typename Out::Mem;
    const size_t in_bytes = count * kInBytes, out_bytes = count * kOutBytes;
    Acc acc = In::widen(
        Isa::template load_part<InMem>(static_cast<const char*>(in[0]) + i * kInBytes, in_bytes));
    for (int r = 1; r < in_count; ++r) {
      acc = combine<kOp>(acc, In::widen(Isa::template load_part<InMem>(
                                  static_cast<const char*>(in[r]) + i * kInBytes, in_bytes)));
    }
    const OutMem result = Out::narrow(finish(acc, in_count));
    for (int j = 0; j < out_count; ++j) {
      Isa::store_part(static_cast<char*>(out[j]) + i * kOutBytes, result, out_bytes);
    }
  }

  // Elements before every output is aligned for streaming; `elements` when that never happens.
  size_t stream_head(size_t elements) const {
    const size_t align = sizeof(typename Out::Mem);
    const size_t offset = reinterpret_cast<uintptr_t>(out[0]) % align;
    for (int j = 1; j < out_count; ++j) {
      if (reinterpret_cast<uintptr_t>(out[j]) % align != offset) return elements;
    }
    if (offset % kOutBytes != 0) return elements;
    const size_t head = offset == 0 ? 0 : (align - offset) / kOutBytes;
    return head < elements ? head : elements;
  }

  void run(size_t elements, StoreHint hint) const {
    size_t i = 0;
    if (hint == StoreHint::kNonTemporal) {
      const size_t head = stream_head(elements);
      if (head < elements) {
        if (head != 0) part(0, head);
        i = head;
        for (; i + kUnroll * kLanes <= elements; i += kUnroll * kLanes) {
          block<kUnroll, true>(i);
        }
        Isa::stream_fence();
      }
    }
    for (; i + kUnroll * kLanes <= elements; i += kUnroll * kLanes) block<kUnroll, false>(i);
    for (; i + kLanes <= elements; i += kLanes) block<1, false>(i);
    if (i < elements) part(i, elements - i);
  }

  static void entry(const void* const* in, int in_count, void* const* out, int out_count,
                    size_t elements, StoreHint hint) {
    if constexpr (kIn != 0) {
      const void* ins[kIn];
      void* outs[kOut];
      for (int r = 0; r < kIn; ++r) ins[r] = in[r];
      for (int j = 0; j < kOut; ++j) outs[j] = out[j];
      ReduceLoop{ins, outs, kIn, kOut}.run(elements, hint);
    } else {
      ReduceLoop{in, out, in_count, out_count}.run(elements, hint);
    }
  }
};

template <typename Isa, typename In, typename Out, RedOp kOp>
constexpr ReduceFn kReduceAny = &ReduceLoop<Isa, In, Out, kOp, 0, 0>::entry;

// Sums and products wrap, so integers are added as unsigned; order needs the sign.
template <typename Isa, typename Signed, typename Unsigned>
constexpr void fill_integer(ReduceTable& table, DType dtype) {
  using S = Plain<Isa, Signed>;
  using U = Plain<Isa, Unsigned>;
  const int d = int(dtype) - 1;
  table.any[d][int(RedOp::kSum) - 1] = kReduceAny<Isa, U, U, RedOp::kSum>;
  table.any[d][int(RedOp::kProd) - 1] = kReduceAny<Isa, U, U, RedOp::kProd>;
  table.any[d][int(RedOp::kMin) - 1] = kReduceAny<Isa, S, S, RedOp::kMin>;
  table.any[d][int(RedOp::kMax) - 1] = kReduceAny<Isa, S, S, RedOp::kMax>;
  table.sum_2_to_1[d] = &ReduceLoop<Isa, U, U, RedOp::kSum, 2, 1>::entry;
  table.sum_2_to_2[d] = &ReduceLoop<Isa, U, U, RedOp::kSum, 2, 2>::entry;
}

template <typename Isa, typename In, typename Out>
constexpr void fill_ops(ReduceFn (&row)[kRedOpCount]) {
  row[int(RedOp::kSum) - 1] = kReduceAny<Isa, In, Out, RedOp::kSum>;
  row[int(RedOp::kProd) - 1] = kReduceAny<Isa, In, Out, RedOp::kProd>;
  row[int(RedOp::kMin) - 1] = kReduceAny<Isa, In, Out, RedOp::kMin>;
  row[int(RedOp::kMax) - 1] = kReduceAny<Isa, In, Out, RedOp::kMax>;
  row[int(RedOp::kAvg) - 1] = kReduceAny<Isa, In, Out, RedOp::kAvg>;
}

template <typename Isa, typename T>
constexpr void fill_float(ReduceTable& table, DType dtype) {
  const int d = int(dtype) - 1;
  fill_ops<Isa, T, T>(table.any[d]);
  table.sum_2_to_1[d] = &ReduceLoop<Isa, T, T, RedOp::kSum, 2, 1>::entry;
  table.sum_2_to_2[d] = &ReduceLoop<Isa, T, T, RedOp::kSum, 2, 2>::entry;
}

template <typename Isa>
constexpr ReduceTable make_reduce_table() {
  ReduceTable table{};
  fill_float<Isa, Plain<Isa, float>>(table, DType::kF32);
  fill_float<Isa, Plain<Isa, double>>(table, DType::kF64);
  fill_float<Isa, Bf16<Isa>>(table, DType::kBF16);
  fill_float<Isa, F16<Isa>>(table, DType::kF16);
  fill_integer<Isa, int32_t, uint32_t>(table, DType::kI32);
  fill_integer<Isa, int64_t, uint64_t>(table, DType::kI64);
  fill_ops<Isa, Plain<Isa, float>, Bf16<Isa>>(table.mixed[0]);
  fill_ops<Isa, Plain<Isa, float>, F16<Isa>>(table.mixed[1]);
  fill_ops<Isa, Plain<Isa, double>, F32OfF64<Isa>>(table.mixed[2]);
  fill_ops<Isa, Bf16<Isa>, Plain<Isa, float>>(table.mixed[3]);
  fill_ops<Isa, F16<Isa>, Plain<Isa, float>>(table.mixed[4]);
  return table;
}

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_REDUCE_CORE_H_
