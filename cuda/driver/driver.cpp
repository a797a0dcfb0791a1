#include "cuda/driver/driver.h"

#include <dlfcn.h>

namespace sk::cuda {
namespace {

std::string because(const Driver& driver, abi::Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  if (name == nullptr || text == nullptr) return fmt::format("error {}", result);
  return fmt::format("{} ({})", text, name);
}

}  // namespace

Result<Driver> load_driver(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return error(SK_ERR_UNSUPPORTED, "no NVIDIA driver on this machine: {}", dlerror());
  Driver driver;
  // The names with versions, which every driver keeps; a plain cuMemAlloc is of CUDA 2.
#define SK_LOAD(name, symbol, ...)                                                            \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(handle, symbol));               \
  if (driver.name == nullptr)                                                                 \
    return error(SK_ERR_UNSUPPORTED, "{} has no {}: the NVIDIA driver is older than CUDA 12", \
                 library, symbol);
  SK_CUDA_DRIVER_FUNCTIONS(SK_LOAD)
#undef SK_LOAD
#define SK_LOAD(name, symbol, ...) \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(handle, symbol));
  SK_CUDA_LATER_FUNCTIONS(SK_LOAD)
#undef SK_LOAD
  return driver;
}

std::string version_text(uint32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Status start_driver(const Driver& driver, uint32_t toolkit, const std::string& release) {
  int version = 0;
  SK_CUDA_TRY(driver, cuDriverGetVersion, &version);
  // Machine code runs on every driver of its own major version, and on later ones.
  if (uint32_t(version) / 1000 < toolkit / 1000) {
    return error(SK_ERR_UNSUPPORTED,
                 "the NVIDIA driver{}{} is for CUDA {}, the kernels are of CUDA {}: they need a "
                 "driver for CUDA {} or later",
                 release.empty() ? "" : " ", release, version_text(uint32_t(version)),
                 version_text(toolkit), toolkit / 1000);
  }
  const abi::Result result = driver.cuInit(0);
  if (result == abi::kNoDevice) return error(SK_ERR_UNSUPPORTED, "the NVIDIA driver sees no GPU");
  if (result == abi::kSystemDriverMismatch || result == abi::kCompatNotSupportedOnDevice) {
    return error(SK_ERR_UNSUPPORTED,
                 "the kernel's NVIDIA driver does not fit the library's, which is for CUDA {}: {}",
                 version_text(uint32_t(version)), because(driver, result));
  }
  return driver_status(driver, result, "cuInit");
}

bool is_sticky(abi::Result result) {
  switch (result) {  // cuda.h: "the process must be terminated and relaunched", and their like.
    case abi::kDeinitialized:
    case abi::kEccUncorrectable:
    case abi::kNvlinkUncorrectable:
    case abi::kContained:
    case abi::kIllegalAddress:
    case abi::kLaunchTimeout:
    case abi::kContextIsDestroyed:
    case abi::kAssert:
    case abi::kHardwareStackError:
    case abi::kIllegalInstruction:
    case abi::kMisalignedAddress:
    case abi::kInvalidAddressSpace:
    case abi::kInvalidPc:
    case abi::kLaunchFailed:
    case abi::kTensorMemoryLeak:
    case abi::kMpsClientTerminated:
    case abi::kExternalDevice:
      return true;
    default:
      return false;
  }
}

Status driver_status(const Driver& driver, abi::Result result, const char* call) {
  if (result == abi::kSuccess) [[likely]]
    return {};
  const std::string why = because(driver, result);
  if (is_sticky(result)) {
    return error(SK_ERR_DEVICE,
                 "the GPU has failed: {}, seen by {}; nothing runs on it in this process any more, "
                 "which must be restarted",
                 why, call);
  }
  if (result == abi::kOutOfMemory) return error(SK_ERR_NO_MEMORY, "{}: {}", call, why);
  return error(SK_ERR_DEVICE, "{}: {}", call, why);
}

}  // namespace sk::cuda
