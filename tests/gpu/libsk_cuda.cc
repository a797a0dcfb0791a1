// A libsk_cuda.so.0 for the fake driver, which takes any image and runs the kernels that it knows.
#include "cuda/exec/bundle.h"

extern "C" __attribute__((visibility("default"))) const sk::cuda::KernelBundle* sk_cuda_kernels() {
  static constexpr char image[] = "kernels";
  static constexpr sk::cuda::KernelBundle bundle{sk::cuda::kKernelInterface, 13000, image,
                                                 sizeof image, /*watched=*/false};
  return &bundle;
}
