// The kernels of cuda/kernel as functions of the CPU.
#ifndef SK_TESTS_UNIT_CUDA_HOST_KERNELS_H_
#define SK_TESTS_UNIT_CUDA_HOST_KERNELS_H_

#include <string>

#include "cuda/kernel/image.h"
#include "cuda/watch/records.h"

namespace sk::cuda {

struct HostKernel {
  std::string name;
  void (*run)(const std::byte* args);
  size_t args_bytes;
  bool cooperative;  // Its blocks wait for each other.
  uint32_t cluster_blocks;
};

// Null: there is none of this name.
const HostKernel* find_host_kernel(const std::string& name);

}  // namespace sk::cuda

#endif  // SK_TESTS_UNIT_CUDA_HOST_KERNELS_H_
