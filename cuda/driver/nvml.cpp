#include "cuda/driver/nvml.h"

#include <dlfcn.h>

namespace sk::cuda {

Nvml load_nvml(const char* library) {
  Nvml nvml;
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nvml;
  nvml.init = reinterpret_cast<decltype(nvml.init)>(dlsym(handle, "nvmlInit_v2"));
  nvml.system_driver_version = reinterpret_cast<decltype(nvml.system_driver_version)>(
      dlsym(handle, "nvmlSystemGetDriverVersion"));
  nvml.shutdown = reinterpret_cast<decltype(nvml.shutdown)>(dlsym(handle, "nvmlShutdown"));
  if (nvml.init == nullptr || nvml.system_driver_version == nullptr || nvml.shutdown == nullptr)
    return {};
  return nvml;
}

std::string driver_release(const Nvml& nvml) {
  if (nvml.init == nullptr || nvml.init() != 0) return "";
  char text[96] = "";  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80.
  if (nvml.system_driver_version(text, sizeof text - 1) != 0) text[0] = '\0';
  nvml.shutdown();
  return text;
}

}  // namespace sk::cuda
