// Calls that a communicator has seen: training loops repeat theirs, with the same buffers.
//
// The arguments of an element-wise call, as they came, lead straight to its program and where its
// operands lie; checking them again would find what was found before. Whatever changes that (memory
// allocated, freed or registered, a plan evicted) forgets everything.
#ifndef SK_LIB_COMM_CALL_MEMORY_H_
#define SK_LIB_COMM_CALL_MEMORY_H_

#include <array>
#include <cstdint>

#include "lib/exec/executor.h"

namespace sk {

// Equal keys mean equal calls. Calls with options have no key: `function` is 0.
struct CallKey {
  uint32_t function = 0;  // OpKind + 1.
  int32_t dtype = 0;
  int32_t variant = 0;  // Reduction, root or peer.
  bool sends = false;
  const void* in = nullptr;
  const void* out = nullptr;
  int64_t count = 0;

  bool operator==(const CallKey&) const = default;
};

struct KnownCall {
  CallKey key;
  Program* program = nullptr;
  uint64_t* last_use = nullptr;  // Of the program's place in the plan cache.
  RunArgs args;                  // All but lane and seq.
};

class CallMemory {
 public:
  // Null where `key` has no place here.
  KnownCall* find(const CallKey& key) {
    KnownCall& known = place(key);
    return known.key == key && known.program != nullptr ? &known : nullptr;
  }
  void remember(const KnownCall& call) {
    if (call.key.function != 0) place(call.key) = call;
  }
  void forget_all() { known_.fill({}); }

 private:
  static constexpr size_t kPlaces = 32;  // A power of two; one call each.

  KnownCall& place(const CallKey& key) {
    // Buffers differ in their middle bits: aligned below, alike above.
    const uint64_t mixed = (uint64_t(reinterpret_cast<uintptr_t>(key.in)) >> 6) * 3 +
                           (uint64_t(reinterpret_cast<uintptr_t>(key.out)) >> 6) * 5 +
                           uint64_t(key.count) * 7 + key.function + uint64_t(key.variant) * 11;
    return known_[(mixed * 0x9e3779b97f4a7c15u) >> 59];
  }
  static_assert(kPlaces == 1 << (64 - 59));

  std::array<KnownCall, kPlaces> known_;
};

}  // namespace sk

#endif  // SK_LIB_COMM_CALL_MEMORY_H_
