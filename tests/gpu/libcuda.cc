// The fake driver as a libcuda.so.1, so that the way to a real one is gone in tests too: loaded by
// its name, with the symbols and versions that a driver has.
#include "tests/gpu/fake_calls.h"

namespace {

struct Both {
  sk::cuda::FakeDriver driver;
  sk::cuda::Calls calls = sk::cuda::fake_calls(driver);
};
const Both& both() {
  static const Both& made = *new Both;  // Never destroyed: callers' statics may come later.
  return made;
}

}  // namespace

// Each symbol is resolved, when it is asked for, to the fake's function of that name.
#define SK_SYMBOL(table, name, symbol)                                                          \
  extern "C" void (*sk_resolve_##name())() { return reinterpret_cast<void (*)()>(table.name); } \
  extern "C" __attribute__((visibility("default"),                                              \
                            ifunc("sk_resolve_" #name))) void sk_##name() __asm__(symbol);
#define SK_DRIVER_SYMBOL(name, symbol, ...) SK_SYMBOL(both().driver.runtime().driver, name, symbol)
#define SK_CALLERS_SYMBOL(name, symbol, ...) SK_SYMBOL(both().calls, name, symbol)
SK_CUDA_DRIVER_FUNCTIONS(SK_DRIVER_SYMBOL)
SK_CUDA_CALLERS_FUNCTIONS(SK_CALLERS_SYMBOL)
