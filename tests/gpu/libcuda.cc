// The fake driver as a libcuda.so.1, so that the way to a real one is gone in tests too: loaded by
// its name, with the symbols and versions that a driver has. There are two GPUs, with memory for
// what the tests on real ones take, and SK_FAKE_MULTIPROCESSORS multiprocessors, or 8;
// SK_FAKE_FAULT has them fail (fault.h).
#include <cstdlib>
#include <future>
#include <memory>

#include "tests/gpu/fake_calls.h"
#include "tests/gpu/fault.h"

namespace {

struct Both {
  Both() {
    driver.gpus.resize(2);
    const char* wanted = std::getenv("SK_FAKE_MULTIPROCESSORS");
    for (auto& gpu : driver.gpus) {
      gpu.memory_bytes = uint64_t(8) << 30;
      if (wanted != nullptr) gpu.multiprocessors = std::atoi(wanted);
    }
    plant_fault(driver);
  }
  mutable sk::cuda::FakeDriver driver;
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
SK_CUDA_LATER_FUNCTIONS(SK_DRIVER_SYMBOL)
SK_CUDA_CALLERS_FUNCTIONS(SK_CALLERS_SYMBOL)

// For tests in other languages: what they do to a GPU beside the library.
#define SK_HOOK extern "C" __attribute__((visibility("default")))

// Memory of `gpu`, or pinned memory of the host for -1, each byte 0xab.
SK_HOOK void* sk_fake_allocate(int gpu, size_t bytes) { return both().driver.allocate(gpu, bytes); }
SK_HOOK void sk_fake_free(void* memory) { both().driver.free(memory); }
SK_HOOK void* sk_fake_stream(int gpu) { return both().driver.make_stream(gpu); }
SK_HOOK int sk_fake_launches() { return both().driver.count(sk::cuda::Call::cuLaunchKernelEx); }

// `stream` does not go on before sk_fake_open() of what this returns, once.
SK_HOOK void* sk_fake_hold(void* stream) {
  auto* gate = new std::promise<void>;
  sk::cuda::FakeDriver::Graph graph;
  graph.nodes.emplace_back([opened = gate->get_future().share()] { opened.wait(); });
  both().driver.replay(graph, static_cast<sk::cuda::abi::Stream>(stream));
  return gate;
}
SK_HOOK void sk_fake_open(void* hold) {
  const std::unique_ptr<std::promise<void>> gate(static_cast<std::promise<void>*>(hold));
  gate->set_value();
}
