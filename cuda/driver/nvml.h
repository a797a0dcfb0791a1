// What only NVML knows: the number that a driver's installer has, "580.65.06".
#ifndef SK_CUDA_DRIVER_NVML_H_
#define SK_CUDA_DRIVER_NVML_H_

#include <string>

namespace sk::cuda {

struct Nvml {
  int (*init)() = nullptr;
  int (*system_driver_version)(char* text, unsigned bytes) = nullptr;
  int (*shutdown)() = nullptr;
};

// All null where there is none.
Nvml load_nvml(const char* library = "libnvidia-ml.so.1");

// "" where it cannot be had.
std::string driver_release(const Nvml& nvml);

}  // namespace sk::cuda

#endif  // SK_CUDA_DRIVER_NVML_H_
