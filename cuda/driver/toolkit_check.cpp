// Compares abi.h with a toolkit's cuda.h, at compile time; nothing of it runs.
#include <cuda.h>

#include <type_traits>

#include "cuda/driver/abi.h"

namespace sk::cuda::abi {
namespace {

// Passed alike: both addresses, or both numbers of one size.
template <typename Ours, typename Theirs>
constexpr bool kSame =
    sizeof(Ours) == sizeof(Theirs) &&
    alignof(Ours) == alignof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <typename... Ours, typename... Theirs>
constexpr bool same(CUresult (*)(Theirs...), Result (*)(Ours...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs))
    return (kSame<Ours, Theirs> && ...);
  else
    return false;
}

// cuda.h renames what has versions: cuMemAlloc is a macro for cuMemAlloc_v2 there. So the plain
// name is the symbol that its declarations mean.
constexpr bool equal(const char* a, const char* b) {
  for (; *a != '\0' && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}
#define SK_TEXT_(name) #name
#define SK_TEXT(name) SK_TEXT_(name)
#define SK_SAME(name, symbol, ...)                                                    \
  static_assert(same(decltype (&::name)(nullptr), (Result(*)(__VA_ARGS__)) nullptr)); \
  static_assert(equal(SK_TEXT(name), symbol));
SK_CUDA_DRIVER_FUNCTIONS(SK_SAME)
SK_CUDA_LATER_FUNCTIONS(SK_SAME)
SK_CUDA_CALLERS_FUNCTIONS(SK_SAME)

#define SK_EQUAL(ours, theirs) static_assert(int64_t(ours) == int64_t(theirs))
SK_EQUAL(kSuccess, CUDA_SUCCESS);
SK_EQUAL(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SK_EQUAL(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
SK_EQUAL(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
SK_EQUAL(kStubLibrary, CUDA_ERROR_STUB_LIBRARY);
SK_EQUAL(kNoDevice, CUDA_ERROR_NO_DEVICE);
SK_EQUAL(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
SK_EQUAL(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
SK_EQUAL(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SK_EQUAL(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SK_EQUAL(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SK_EQUAL(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SK_EQUAL(kJitCompilationDisabled, CUDA_ERROR_JIT_COMPILATION_DISABLED);
SK_EQUAL(kNotReady, CUDA_ERROR_NOT_READY);
SK_EQUAL(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SK_EQUAL(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SK_EQUAL(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SK_EQUAL(kAssert, CUDA_ERROR_ASSERT);
SK_EQUAL(kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
SK_EQUAL(kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SK_EQUAL(kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
SK_EQUAL(kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SK_EQUAL(kInvalidPc, CUDA_ERROR_INVALID_PC);
SK_EQUAL(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SK_EQUAL(kCooperativeLaunchTooLarge, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
SK_EQUAL(kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SK_EQUAL(kCompatNotSupportedOnDevice, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
SK_EQUAL(kMpsClientTerminated, CUDA_ERROR_MPS_CLIENT_TERMINATED);
SK_EQUAL(kStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SK_EQUAL(kStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SK_EQUAL(kStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SK_EQUAL(kExternalDevice, CUDA_ERROR_EXTERNAL_DEVICE);
SK_EQUAL(kUnknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 13000  // Older ones do not know these.
SK_EQUAL(kContained, CUDA_ERROR_CONTAINED);
SK_EQUAL(kTensorMemoryLeak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
SK_EQUAL(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SK_EQUAL(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SK_EQUAL(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SK_EQUAL(kCooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SK_EQUAL(kMaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SK_EQUAL(kMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SK_EQUAL(kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SK_EQUAL(kIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SK_EQUAL(kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SK_EQUAL(kHostMemory, CU_MEMORYTYPE_HOST);
SK_EQUAL(kDeviceMemory, CU_MEMORYTYPE_DEVICE);
SK_EQUAL(kNotCapturing, CU_STREAM_CAPTURE_STATUS_NONE);
SK_EQUAL(kCapturing, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SK_EQUAL(kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SK_EQUAL(kCaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL);
SK_EQUAL(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SK_EQUAL(kLaunchCooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SK_EQUAL(kLaunchCluster, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SK_EQUAL(offsetof(LaunchAttributeValue, cluster), offsetof(CUlaunchAttributeValue, clusterDim));
SK_EQUAL(sizeof(LaunchAttributeValue::cluster), sizeof(CUlaunchAttributeValue::clusterDim));
SK_EQUAL(kMemHostPortable, CU_MEMHOSTALLOC_PORTABLE);
SK_EQUAL(kMemHostDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
SK_EQUAL(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SK_EQUAL(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);

SK_EQUAL(kTensorF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SK_EQUAL(kTensorBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SK_EQUAL(kInterleaveNone, CU_TENSOR_MAP_INTERLEAVE_NONE);
SK_EQUAL(kSwizzle128, CU_TENSOR_MAP_SWIZZLE_128B);
SK_EQUAL(kPromote128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SK_EQUAL(kFillZero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);

SK_EQUAL(sizeof(TensorMap), sizeof(CUtensorMap));
static_assert(alignof(TensorMap) >= alignof(CUtensorMap));
SK_EQUAL(sizeof(DevicePtr), sizeof(CUdeviceptr));
SK_EQUAL(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
SK_EQUAL(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
SK_EQUAL(offsetof(LaunchAttributeValue, cooperative),
         offsetof(CUlaunchAttributeValue, cooperative));
SK_EQUAL(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
SK_EQUAL(offsetof(LaunchConfig, block_x), offsetof(CUlaunchConfig, blockDimX));
SK_EQUAL(offsetof(LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
SK_EQUAL(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
SK_EQUAL(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
SK_EQUAL(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));

}  // namespace
}  // namespace sk::cuda::abi
