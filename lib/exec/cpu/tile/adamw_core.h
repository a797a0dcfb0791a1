// The loop of AdamW, as a template over an instruction set (see isa_types.h for the rules).
#ifndef SK_LIB_EXEC_CPU_TILE_ADAMW_CORE_H_
#define SK_LIB_EXEC_CPU_TILE_ADAMW_CORE_H_

#include "lib/exec/cpu/tile/adamw_table.h"
#include "lib/exec/cpu/tile/isa_types.h"

namespace sk::cpu {

// `M` is the type of moments, and what is computed in.
template <typename Isa, typename P, typename G, typename M>
struct Adamw {
  using Acc = typename M::Acc;
  using Number = typename M::Elem;
  static constexpr size_t kLanes = M::kLanes;
  static_assert(P::kLanes == kLanes && G::kLanes == kLanes);

  struct Numbers {
    Number m_keeps, m_takes, v_keeps, v_takes, p_keeps, rate, v_scale, eps;
  };
  struct Elements {
    Acc p, g, m, v;
  };

  // Lane by lane: vectors of this kind have no function, and this loop becomes one instruction.
  static inline __attribute__((always_inline)) Acc root(Acc value) {
    Number lanes[kLanes];
    store_vec(lanes, value);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if constexpr (sizeof(Number) == 8) {
        lanes[lane] = __builtin_sqrt(lanes[lane]);
      } else {
        lanes[lane] = __builtin_sqrtf(lanes[lane]);
      }
    }
    return load_vec<Acc>(lanes);
  }

  static inline __attribute__((always_inline)) void step(const Numbers& by, Elements& e) {
    e.m = e.m * by.m_keeps + e.g * by.m_takes;
    e.v = e.v * by.v_keeps + e.g * by.v_takes * e.g;
    e.p = e.p * by.p_keeps - e.m * by.rate / (root(e.v) * by.v_scale + by.eps);
  }

  template <typename T>
  static inline __attribute__((always_inline)) const char* at(const void* vector, size_t i) {
    return static_cast<const char*>(vector) + i * sizeof(typename T::Elem);
  }
  template <typename T>
  static inline __attribute__((always_inline)) char* at(void* vector, size_t i) {
    return static_cast<char*>(vector) + i * sizeof(typename T::Elem);
  }
  template <typename T>
  static inline __attribute__((always_inline)) Acc load(const void* vector, size_t i) {
    return T::widen(load_vec<typename T::Mem>(at<T>(vector, i)));
  }
  template <typename T>
  static inline __attribute__((always_inline)) void store(void* vector, size_t i, Acc value) {
    store_vec(at<T>(vector, i), T::narrow(value));
  }
  template <typename T>
  static Acc load_last(const void* vector, size_t i, size_t count) {
    return T::widen(Isa::template load_part<typename T::Mem>(at<T>(vector, i),
                                                             count * sizeof(typename T::Elem)));
  }
  template <typename T>
  static void store_last(void* vector, size_t i, Acc value, size_t count) {
    Isa::store_part(at<T>(vector, i), T::narrow(value), count * sizeof(typename T::Elem));
  }

  static void run(const AdamwArgs& a) {
    const Numbers by{Number(a.m_keeps), Number(a.m_takes), Number(a.v_keeps), Number(a.v_takes),
                     Number(a.p_keeps), Number(a.rate),    Number(a.v_scale), Number(a.eps)};
    size_t i = 0;
    for (; i + kLanes <= a.count; i += kLanes) {
      Elements e{load<P>(a.p, i), load<G>(a.g, i), load<M>(a.m, i), load<M>(a.v, i)};
      step(by, e);
      store<P>(a.new_p, i, e.p);
      store<M>(a.new_m, i, e.m);
      store<M>(a.new_v, i, e.v);
    }
    if (i == a.count) return;
    const size_t left = a.count - i;
    Elements e{load_last<P>(a.p, i, left), load_last<G>(a.g, i, left), load_last<M>(a.m, i, left),
               load_last<M>(a.v, i, left)};
    step(by, e);
    store_last<P>(a.new_p, i, e.p, left);
    store_last<M>(a.new_m, i, e.m, left);
    store_last<M>(a.new_v, i, e.v, left);
  }
};

template <typename Isa>
constexpr AdamwTable make_adamw_table() {
  using F32 = Plain<Isa, float>;
  using F64 = Plain<Isa, double>;
  // f64 with gradients of f32: those are widened.
  return {{{Adamw<Isa, F32, F32, F32>::run, Adamw<Isa, F32, F32, F32>::run},
           {Adamw<Isa, F64, F64, F64>::run, Adamw<Isa, F64, F32OfF64<Isa>, F64>::run},
           {Adamw<Isa, Bf16<Isa>, Bf16<Isa>, F32>::run, Adamw<Isa, Bf16<Isa>, F32, F32>::run},
           {Adamw<Isa, F16<Isa>, F16<Isa>, F32>::run, Adamw<Isa, F16<Isa>, F32, F32>::run}}};
}

}  // namespace sk::cpu

#endif  // SK_LIB_EXEC_CPU_TILE_ADAMW_CORE_H_
