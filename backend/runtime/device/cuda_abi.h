// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the CUDA driver's ABI that the runtime uses, declared by itself so that nothing of
// CUDA is needed to build it. Names and values are those of cuda.h; entry points are opened by
// name.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtile::runtime::cuda {

using Result = int;
using CUdevice = int;
using CUcontext = void *;
using CUmodule = void *;
using CUfunction = void *;
using CUstream = void *;
using CUgraph = void *;
using CUgraphExec = void *;
using CUevent = void *;
using CUdeviceptr = uint64_t;
using CUmemHandle = uint64_t;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kNoBinaryForGpu = 209;
inline constexpr Result kInvalidPtx = 218;
inline constexpr Result kUnsupportedPtxVersion = 222;
inline constexpr Result kNotReady = 600;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;
inline constexpr Result kCooperativeLaunchTooLarge = 720;
inline constexpr Result kHostMemoryAlreadyRegistered = 712;

// CUdevice_attribute
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kCooperativeLaunch = 95;
inline constexpr int kMaxSharedMemoryPerBlockOptin = 97;
inline constexpr int kPosixFileDescriptorSupported = 103;

// CUfunction_attribute
inline constexpr int kMaxDynamicSharedSizeBytes = 8;
// CUpointer_attribute
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerBufferId = 7;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;
// CU_MEMHOSTALLOC_* and CU_MEMHOSTREGISTER_* alike
inline constexpr unsigned kPortable = 1;
inline constexpr unsigned kDeviceMap = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
// One thread may capture streams of several GPUs side by side, and make graphs of them in turn: the
// stricter modes refuse cuGraphInstantiate while any other is captured.
inline constexpr int kCaptureRelaxed = 2;
// CUjit_option
inline constexpr int kJitErrorLogBuffer = 5;
inline constexpr int kJitErrorLogBufferSizeBytes = 6;

struct CUmemLocation {
  /// 1: a device
  int type = 1;
  int id = 0;
};

struct CUmemAllocationProp {
  /// 1: pinned
  int type = 1;
  /// 1: POSIX file descriptors
  int requestedHandleTypes = 1;
  CUmemLocation location;
  void *win32HandleMetaData = nullptr;
  unsigned char compressionType = 0;
  unsigned char gpuDirectRDMACapable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};

struct CUmemAccessDesc {
  CUmemLocation location;
  /// 3: read and write
  int flags = 3;
};

// CUlaunchAttributeID
inline constexpr int kLaunchCooperative = 2;
inline constexpr int kLaunchClusterDimension = 4;

struct CUlaunchAttribute {
  int id = 0;
  int reserved = 0;
  /// The largest member is 64 bytes: `cooperative` is the first word, a cluster's dimensions are
  /// the first three.
  unsigned value[16] = {};
};
static_assert(sizeof(CUlaunchAttribute) == 72);

struct CUlaunchConfig {
  unsigned gridX = 1, gridY = 1, gridZ = 1;
  unsigned blockX = 1, blockY = 1, blockZ = 1;
  unsigned sharedBytes = 0;
  CUstream stream = nullptr;
  CUlaunchAttribute *attributes = nullptr;
  unsigned numAttributes = 0;
};

// CU_MEMORYTYPE_UNIFIED: the address says on which device it is
inline constexpr int kMemoryTypeUnified = 4;

/// CUDA_MEMCPY2D
struct CUmemcpy2D {
  size_t srcXInBytes = 0, srcY = 0;
  int srcMemoryType = kMemoryTypeUnified;
  const void *srcHost = nullptr;
  CUdeviceptr srcDevice = 0;
  void *srcArray = nullptr;
  size_t srcPitch = 0;
  size_t dstXInBytes = 0, dstY = 0;
  int dstMemoryType = kMemoryTypeUnified;
  void *dstHost = nullptr;
  CUdeviceptr dstDevice = 0;
  void *dstArray = nullptr;
  size_t dstPitch = 0;
  size_t widthInBytes = 0, height = 0;
};
static_assert(sizeof(CUmemcpy2D) == 128);

// CUtensorMapDataType
inline constexpr int kTensorUint8 = 0, kTensorUint16 = 1, kTensorUint32 = 2, kTensorInt32 = 3,
                     kTensorUint64 = 4, kTensorInt64 = 5, kTensorFloat16 = 6, kTensorFloat32 = 7,
                     kTensorFloat64 = 8, kTensorBfloat16 = 9, kTensorTfloat32 = 11;
// CUtensorMapL2promotion: 128 bytes
inline constexpr int kPromote128 = 2;

// Every entry point, one row each: FN(name, arguments), FN_AS(name, exported name, arguments),
// and OPTIONAL_FN(name, arguments) for those that older drivers lack.
#define DTILE_CUDA_FUNCTIONS                                                                       \
  FN(cuInit, (unsigned))                                                                           \
  FN(cuDriverGetVersion, (int *))                                                                  \
  FN(cuGetErrorString, (Result, const char **))                                                    \
  FN(cuDeviceGetCount, (int *))                                                                    \
  FN(cuDeviceGet, (CUdevice *, int))                                                               \
  FN(cuDeviceGetName, (char *, int, CUdevice))                                                     \
  FN(cuDeviceGetAttribute, (int *, int, CUdevice))                                                 \
  FN(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice))                                           \
  FN(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                            \
  FN(cuCtxGetCurrent, (CUcontext *))                                                               \
  FN(cuCtxSetCurrent, (CUcontext))                                                                 \
  FN(cuCtxSynchronize, ())                                                                         \
  FN(cuCtxEnablePeerAccess, (CUcontext, unsigned))                                                 \
  FN_AS(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                                      \
  FN_AS(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                  \
  FN(cuMemHostAlloc, (void **, size_t, unsigned))                                                  \
  FN(cuMemFreeHost, (void *))                                                                      \
  FN_AS(cuMemHostRegister, "cuMemHostRegister_v2", (void *, size_t, unsigned))                     \
  FN(cuMemHostUnregister, (void *))                                                                \
  FN_AS(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2",                                 \
        (CUdeviceptr *, void *, unsigned))                                                         \
  FN(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                              \
  FN_AS(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream))  \
  FN_AS(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream))        \
  FN(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                  \
  FN_AS(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2", (const CUmemcpy2D *, CUstream))                     \
  FN(cuEventCreate, (CUevent *, unsigned))                                                         \
  FN_AS(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                                            \
  FN(cuEventRecord, (CUevent, CUstream))                                                           \
  FN(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                             \
  FN(cuPointerGetAttributes, (unsigned, int *, void **, CUdeviceptr))                              \
  FN(cuStreamCreate, (CUstream *, unsigned))                                                       \
  FN_AS(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                         \
  FN(cuStreamSynchronize, (CUstream))                                                              \
  FN(cuStreamQuery, (CUstream))                                                                    \
  FN(cuStreamIsCapturing, (CUstream, int *))                                                       \
  FN_AS(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int))                          \
  FN(cuStreamEndCapture, (CUstream, CUgraph *))                                                    \
  FN(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                    \
  FN(cuGraphLaunch, (CUgraphExec, CUstream))                                                       \
  FN(cuGraphDestroy, (CUgraph))                                                                    \
  FN(cuGraphExecDestroy, (CUgraphExec))                                                            \
  FN(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, int *, void **))                     \
  FN(cuModuleUnload, (CUmodule))                                                                   \
  FN(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                  \
  FN(cuFuncSetAttribute, (CUfunction, int, int))                                                   \
  FN(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, CUfunction, int, size_t))                \
  FN(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,      \
                      unsigned, CUstream, void **, void **))                                       \
  FN(cuLaunchCooperativeKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                                 unsigned, unsigned, CUstream, void **))                           \
  FN(cuMemGetAllocationGranularity, (size_t *, const CUmemAllocationProp *, int))                  \
  FN(cuMemCreate, (CUmemHandle *, size_t, const CUmemAllocationProp *, unsigned long long))        \
  FN(cuMemRelease, (CUmemHandle))                                                                  \
  FN(cuMemExportToShareableHandle, (void *, CUmemHandle, int, unsigned long long))                 \
  FN(cuMemImportFromShareableHandle, (CUmemHandle *, void *, int))                                 \
  FN(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))        \
  FN(cuMemAddressFree, (CUdeviceptr, size_t))                                                      \
  FN(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemHandle, unsigned long long))                     \
  FN(cuMemUnmap, (CUdeviceptr, size_t))                                                            \
  FN(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))                       \
  FN(cuMemRetainAllocationHandle, (CUmemHandle *, void *))                                         \
  FN_AS(cuMemGetAddressRange, "cuMemGetAddressRange_v2", (CUdeviceptr *, size_t *, CUdeviceptr))   \
  OPTIONAL_FN(cuFuncLoad, (CUfunction))                                                            \
  OPTIONAL_FN(cuOccupancyMaxActiveClusters, (int *, CUfunction, const CUlaunchConfig *))           \
  OPTIONAL_FN(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))            \
  OPTIONAL_FN(cuTensorMapEncodeTiled,                                                              \
              (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,                  \
               const uint32_t *, const uint32_t *, int, int, int, int))

/// The driver's entry points.
struct Functions {
#define FN(NAME, ARGUMENTS) Result(*NAME) ARGUMENTS = nullptr;
#define FN_AS(NAME, EXPORTED, ARGUMENTS) FN(NAME, ARGUMENTS)
#define OPTIONAL_FN(NAME, ARGUMENTS) FN(NAME, ARGUMENTS)
  DTILE_CUDA_FUNCTIONS
#undef FN
#undef FN_AS
#undef OPTIONAL_FN
};

} // namespace dtile::runtime::cuda
