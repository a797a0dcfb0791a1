#include "lib/control/host/own_unwinder.h"

#include <unwind.h>

#include <bit>
#include <cstddef>

// libgcc's functions under the names that the build gives to this copy of them.
extern "C" {
_Unwind_Reason_Code sk_own_unwind_backtrace(_Unwind_Trace_Fn each, void* state);
_Unwind_Ptr sk_own_unwind_get_ip(_Unwind_Context* context);
}

namespace sk::control {
namespace {

struct Found {
  std::span<void*> frames;
  size_t count = 0;
  bool is_own = true;  // The first is callers().
};

_Unwind_Reason_Code add(_Unwind_Context* context, void* state) {
  auto& found = *static_cast<Found*>(state);
  if (found.is_own) {
    found.is_own = false;
    return _URC_NO_REASON;
  }
  if (found.count == found.frames.size()) return _URC_END_OF_STACK;
  void* const address = std::bit_cast<void*>(sk_own_unwind_get_ip(context));
  if (address == nullptr) return _URC_END_OF_STACK;  // Of what begins a thread.
  found.frames[found.count++] = address;
  return _URC_NO_REASON;
}

}  // namespace

[[gnu::noinline]] int callers(std::span<void*> frames) {
  Found found{frames};
  const _Unwind_Reason_Code ignored = sk_own_unwind_backtrace(add, &found);
  (void)ignored;  // Where a stack cannot be followed to its end, this is what there is of it.
  return static_cast<int>(found.count);
}

}  // namespace sk::control
