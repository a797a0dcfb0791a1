#include <dlfcn.h>

#include "cuda/driver/nvml.h"
#include "cuda/exec/device.h"

namespace sk::cuda {
namespace {

constexpr char kLibrary[] = "libsk_cuda.so.0";

// The folder of the library or program that this code is in, with a slash; "" if it has none.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&load_runtime), &info) == 0) return "";
  const std::string path = info.dli_fname != nullptr ? info.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1);
}

}  // namespace

Result<KernelBundle> load_bundle(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return error(SK_ERR_UNSUPPORTED, "this installation has no kernels for GPUs: {}", dlerror());
  const auto kernels =
      reinterpret_cast<decltype(&sk_cuda_kernels)>(dlsym(handle, "sk_cuda_kernels"));
  if (kernels == nullptr || kernels()->interface != kKernelInterface) {
    return error(SK_ERR_UNSUPPORTED,
                 "{} is of another version than this library; install both anew", library);
  }
  return *kernels();
}

Result<Runtime> load_runtime() {
  Runtime runtime;
  SK_ASSIGN_OR_RETURN(runtime.driver, load_driver());
  Result<KernelBundle> beside = load_bundle(own_folder() + kLibrary);
  if (!beside.ok()) beside = load_bundle(kLibrary);
  SK_ASSIGN_OR_RETURN(runtime.kernels, std::move(beside));
  runtime.release = driver_release(load_nvml());
  return runtime;
}

}  // namespace sk::cuda
