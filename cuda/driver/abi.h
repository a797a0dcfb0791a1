// The CUDA driver's binary interface, as far as it is used here: types, constants, functions.
//
// Declared by us, because cuda.h comes only with a toolkit, and all of the host's side is built and
// tested without one. The interface is as stable as a system call's: what a versioned name (_v2)
// means never changes. Where a toolkit is there, toolkit_check.cpp compares every line with cuda.h.
#ifndef SK_CUDA_DRIVER_ABI_H_
#define SK_CUDA_DRIVER_ABI_H_

#include <cstddef>
#include <cstdint>

namespace sk::cuda::abi {

using Result = int;  // CUresult.
using Device = int;
using DevicePtr = unsigned long long;
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: numbers in a handle's place.
inline Stream legacy_stream() { return reinterpret_cast<Stream>(uintptr_t{1}); }
inline Stream per_thread_stream() { return reinterpret_cast<Stream>(uintptr_t{2}); }

enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kNoDevice = 100,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kNvlinkUncorrectable = 220,
  kUnsupportedPtxVersion = 222,
  kJitCompilationDisabled = 223,
  kContained = 226,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kTensorMemoryLeak = 721,
  kSystemDriverMismatch = 803,
  kCompatNotSupportedOnDevice = 804,
  kMpsClientTerminated = 810,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureImplicit = 906,
  kExternalDevice = 911,
  kUnknown = 999,
};

enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kCooperativeLaunch = 95,
  kMaxSharedMemoryPerBlockOptin = 97,
};
enum FunctionAttribute : int { kMaxDynamicSharedSizeBytes = 8 };
enum PointerAttribute : int { kMemoryType = 2, kIsManaged = 8, kDeviceOrdinal = 9 };
enum MemoryType : unsigned { kUnknownMemory = 0, kHostMemory = 1, kDeviceMemory = 2 };
enum CaptureStatus : int { kNotCapturing = 0, kCapturing = 1, kCaptureInvalidated = 2 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureRelaxed = 2 };
enum LaunchAttributeId : int { kLaunchCooperative = 2, kLaunchCluster = 4 };
inline constexpr unsigned kMemHostPortable = 1, kMemHostDeviceMap = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;

struct alignas(128) TensorMap {  // 64 in CUDA 12.
  uint64_t opaque[16];
};
enum TensorType : int { kTensorF16 = 6, kTensorBf16 = 9 };
enum TensorInterleave : int { kInterleaveNone = 0 };
enum TensorSwizzle : int { kSwizzle128 = 3 };
enum TensorPromotion : int { kPromote128 = 2 };
enum TensorFill : int { kFillZero = 0 };

union LaunchAttributeValue {
  char pad[64];
  int cooperative;
  struct {
    unsigned x, y, z;
  } cluster;  // Blocks of one.
};
struct alignas(8) LaunchAttribute {
  LaunchAttributeId id;
  alignas(8) LaunchAttributeValue value;
};
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// X(name, symbol in libcuda.so.1, parameters...)
#define SK_CUDA_DRIVER_FUNCTIONS(X)                                                             \
  X(cuInit, "cuInit", unsigned)                                                                 \
  X(cuDriverGetVersion, "cuDriverGetVersion", int*)                                             \
  X(cuGetErrorName, "cuGetErrorName", Result, const char**)                                     \
  X(cuGetErrorString, "cuGetErrorString", Result, const char**)                                 \
  X(cuDeviceGetCount, "cuDeviceGetCount", int*)                                                 \
  X(cuDeviceGet, "cuDeviceGet", Device*, int)                                                   \
  X(cuDeviceGetName, "cuDeviceGetName", char*, int, Device)                                     \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", int*, DeviceAttribute, Device)                \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", Context*, Device)                     \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", Device)                          \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", Context)                                           \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", Context*)                                            \
  X(cuModuleLoadData, "cuModuleLoadData", Module*, const void*)                                 \
  X(cuModuleUnload, "cuModuleUnload", Module)                                                   \
  X(cuModuleGetFunction, "cuModuleGetFunction", Function*, Module, const char*)                 \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", Function, FunctionAttribute, int)                 \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor", \
    int*, Function, int, size_t)                                                                \
  X(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters", int*, Function,               \
    const LaunchConfig*)                                                                        \
  X(cuMemGetInfo, "cuMemGetInfo_v2", size_t*, size_t*)                                          \
  X(cuMemAlloc, "cuMemAlloc_v2", DevicePtr*, size_t)                                            \
  X(cuMemFree, "cuMemFree_v2", DevicePtr)                                                       \
  X(cuMemHostAlloc, "cuMemHostAlloc", void**, size_t, unsigned)                                 \
  X(cuMemFreeHost, "cuMemFreeHost", void*)                                                      \
  X(cuMemsetD8Async, "cuMemsetD8Async", DevicePtr, unsigned char, size_t, Stream)               \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", DevicePtr, const void*, size_t, Stream)          \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", void*, DevicePtr, size_t, Stream)                \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", unsigned, PointerAttribute*, void**,      \
    DevicePtr)                                                                                  \
  X(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", TensorMap*, TensorType, uint32_t, void*,  \
    const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, TensorInterleave,       \
    TensorSwizzle, TensorPromotion, TensorFill)                                                 \
  X(cuLaunchKernelEx, "cuLaunchKernelEx", const LaunchConfig*, Function, void**, void**)        \
  X(cuStreamCreate, "cuStreamCreate", Stream*, unsigned)                                        \
  X(cuStreamDestroy, "cuStreamDestroy_v2", Stream)                                              \
  X(cuStreamSynchronize, "cuStreamSynchronize", Stream)                                         \
  X(cuStreamQuery, "cuStreamQuery", Stream)                                                     \
  X(cuStreamGetCtx, "cuStreamGetCtx", Stream, Context*)                                         \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", Stream, CaptureStatus*)                         \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", Stream, Event, unsigned)                            \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", CaptureMode*)       \
  X(cuEventCreate, "cuEventCreate", Event*, unsigned)                                           \
  X(cuEventRecord, "cuEventRecord", Event, Stream)                                              \
  X(cuEventQuery, "cuEventQuery", Event)                                                        \
  X(cuEventDestroy, "cuEventDestroy_v2", Event)

// The same, of later drivers: null in older ones.
#define SK_CUDA_LATER_FUNCTIONS(X) X(cuFuncLoad, "cuFuncLoad", Function)  // Of CUDA 12.4.

// What callers of the library do by themselves: for tests and benchmarks, never for the library.
#define SK_CUDA_CALLERS_FUNCTIONS(X)                                                          \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", Stream, CaptureMode)                     \
  X(cuStreamEndCapture, "cuStreamEndCapture", Stream, Graph*)                                 \
  X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", GraphExec*, Graph, unsigned long long) \
  X(cuGraphLaunch, "cuGraphLaunch", GraphExec, Stream)                                        \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", GraphExec)                                      \
  X(cuGraphDestroy, "cuGraphDestroy", Graph)                                                  \
  X(cuEventElapsedTime, "cuEventElapsedTime_v2", float*, Event, Event)                        \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", DevicePtr, DevicePtr, size_t, Stream)

}  // namespace sk::cuda::abi

#endif  // SK_CUDA_DRIVER_ABI_H_
