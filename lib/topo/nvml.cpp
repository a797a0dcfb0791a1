// GPUs by NVIDIA's management library, loaded at run time. Its functions are declared here: its
// header is not on every machine, and these have been the same for ten years.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "lib/topo/host.h"

namespace sk::topo {
namespace {

using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};
constexpr unsigned kTextBytes = 96;
constexpr unsigned kGpusMax = 64;

struct Close {
  void operator()(void* library) const { dlclose(library); }
};

// False when the library lacks the function or the function fails. The arguments have exactly the
// types of the function's parameters.
template <typename... Parameters>
bool ask(void* library, const char* name, Parameters... arguments) {
  auto* function = reinterpret_cast<int (*)(Parameters...)>(dlsym(library, name));
  return function != nullptr && function(arguments...) == 0;
}

std::string text_of(const char (&text)[kTextBytes]) {
  return {text, std::find(text, text + kTextBytes, '\0')};
}

Gpu describe(void* library, Device device) {
  Gpu gpu;
  char name[kTextBytes] = {};
  if (ask(library, "nvmlDeviceGetName", device, static_cast<char*>(name), kTextBytes))
    gpu.name = text_of(name);
  Memory memory{};
  if (ask(library, "nvmlDeviceGetMemoryInfo", device, &memory)) gpu.memory_bytes = memory.total;
  return gpu;
}

}  // namespace

GpuFacts ask_nvml(const char* name) {
  GpuFacts facts;
  const std::unique_ptr<void, Close> library(dlopen(name, RTLD_NOW | RTLD_LOCAL));
  if (!library || !ask(library.get(), "nvmlInit_v2")) return facts;
  char driver[kTextBytes] = {};
  if (ask(library.get(), "nvmlSystemGetDriverVersion", static_cast<char*>(driver), kTextBytes))
    facts.driver = text_of(driver);
  int cuda = 0;  // 12040 is 12.4.
  if (ask(library.get(), "nvmlSystemGetCudaDriverVersion_v2", &cuda))
    facts.cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  unsigned count = 0;
  ask(library.get(), "nvmlDeviceGetCount_v2", &count);
  for (unsigned i = 0; i < std::min(count, kGpusMax); ++i) {
    Device device = nullptr;
    if (ask(library.get(), "nvmlDeviceGetHandleByIndex_v2", i, &device))
      facts.gpus.push_back(describe(library.get(), device));
  }
  ask(library.get(), "nvmlShutdown");
  return facts;
}

}  // namespace sk::topo
