// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVIDIA's driver. The library is opened at run time; primary contexts are used, so that the memory
// and streams of whoever else uses CUDA in this process (PyTorch) are good here.
//
// Heaps that processes share are made of the driver's virtual memory with file descriptors. No
// multicast objects anywhere: a program that dies while it holds one can put GPUs out of service.
#include "backend/runtime/arguments/regions.h"
#include "backend/runtime/device/cuda_abi.h"
#include "backend/runtime/device/device.h"
#include "backend/runtime/device_abi.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <unistd.h>

namespace dtile::runtime {

using namespace cuda;

namespace {

Status failed(const Functions &cu, Result result, const char *what) {
  if (result == kSuccess)
    return {};
  const char *words = nullptr;
  cu.cuGetErrorString(result, &words);
  dtile_status code = result == kOutOfMemory ? DTILE_OUT_OF_MEMORY : DTILE_UNAVAILABLE;
  return {code, format("CUDA: %s (error %d) in %s", words ? words : "unknown error", result, what)};
}

/// Makes a context current for a scope.
class Current {
public:
  Current(const Functions &cu, CUcontext context) : cu_(cu) {
    cu_.cuCtxGetCurrent(&before_);
    if (before_ == context)
      return;
    cu_.cuCtxSetCurrent(context);
    isChanged_ = true;
  }
  ~Current() {
    if (isChanged_)
      cu_.cuCtxSetCurrent(before_);
  }
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;

private:
  const Functions &cu_;
  CUcontext before_ = nullptr;
  bool isChanged_ = false;
};

class CudaDevice final : public Device {
public:
  CudaDevice(const Functions &cu, CUdevice device, CUcontext context, DeviceFacts facts)
      : cu_(cu), device_(device), context_(context), facts_(std::move(facts)) {}

  const DeviceFacts &facts() const override { return facts_; }

  int32_t fitness(const dtile_device_image &image) const override {
    if (std::strcmp(image.target, "nvptx") != 0 || std::strncmp(image.arch, "sm_", 3) != 0)
      return 0;
    char *end = nullptr;
    long number = std::strtol(image.arch + 3, &end, 10);
    int32_t own = facts_.major * 10 + facts_.minor;
    // `a` is for this very architecture, `f` for its family (the same major number).
    bool exact = *end == 'a';
    bool isCubin = image.format == DTILE_IMAGE_CUBIN;
    if (exact && number != own)
      return 0;
    if (number > own || ((isCubin || *end == 'f') && number / 10 != facts_.major))
      return 0;
    return int32_t(number) * 4 + (*end != '\0' ? 2 : 0) + (isCubin ? 1 : 0);
  }

  Status within(const std::function<Status()> &call) override {
    Current current(cu_, context_);
    return call();
  }

  Status allocate(int64_t bytes, DeviceAddress *out) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuMemAlloc(out, size_t(bytes)), "cuMemAlloc");
  }

  void release(DeviceAddress address) override {
    Current current(cu_, context_);
    cu_.cuMemFree(address);
  }

  Status reach(const Device &other) override {
    const auto &peer = static_cast<const CudaDevice &>(other);
    if (peer.context_ == context_)
      return {};
    Current current(cu_, context_);
    int can = 0;
    cu_.cuDeviceCanAccessPeer(&can, device_, peer.device_);
    if (!can)
      return {DTILE_UNAVAILABLE,
              format("GPU %d cannot access the memory of GPU %d: they are not connected by NVLink "
                     "or a PCIe switch that allows it",
                     facts_.ordinal, peer.facts_.ordinal)};
    Result result = cu_.cuCtxEnablePeerAccess(peer.context_, 0);
    if (result == kPeerAccessAlreadyEnabled)
      return {};
    return failed(cu_, result, "cuCtxEnablePeerAccess");
  }

  Status allocateShared(int64_t *bytes, DeviceAddress *out, int *descriptor) override {
    Current current(cu_, context_);
    int supported = 0;
    cu_.cuDeviceGetAttribute(&supported, kPosixFileDescriptorSupported, device_);
    if (!supported)
      return {DTILE_UNAVAILABLE, "this driver cannot share memory between processes by file "
                                 "descriptors; run all ranks in one process"};
    CUmemAllocationProp property;
    property.location.id = device_;
    size_t granularity = 0;
    // 1: the recommended one.
    if (Status status = failed(cu_, cu_.cuMemGetAllocationGranularity(&granularity, &property, 1),
                               "cuMemGetAllocationGranularity");
        !status.ok())
      return status;
    *bytes = int64_t((size_t(*bytes) + granularity - 1) / granularity * granularity);
    CUmemHandle handle = 0;
    if (Status status =
            failed(cu_, cu_.cuMemCreate(&handle, size_t(*bytes), &property, 0), "cuMemCreate");
        !status.ok())
      return status;
    Status status = failed(cu_, cu_.cuMemExportToShareableHandle(descriptor, handle, 1, 0),
                           "cuMemExportToShareableHandle");
    if (status.ok()) {
      status = mapHandle(handle, *bytes, out);
      if (!status.ok())
        close(*descriptor);
    }
    // The mapping keeps the memory.
    cu_.cuMemRelease(handle);
    return status;
  }

  Status mapShared(int descriptor, int64_t bytes, DeviceAddress *out) override {
    Current current(cu_, context_);
    CUmemHandle handle = 0;
    Status status = failed(cu_,
                           cu_.cuMemImportFromShareableHandle(
                               &handle, reinterpret_cast<void *>(intptr_t(descriptor)), 1),
                           "cuMemImportFromShareableHandle");
    if (!status.ok())
      return status;
    status = mapHandle(handle, bytes, out);
    cu_.cuMemRelease(handle);
    return status;
  }

  void releaseShared(DeviceAddress address, int64_t bytes) override {
    Current current(cu_, context_);
    cu_.cuMemUnmap(address, size_t(bytes));
    cu_.cuMemAddressFree(address, size_t(bytes + spare_[address]));
    spare_.erase(address);
  }

  int64_t spareBehind(DeviceAddress shared) const override {
    const auto found = spare_.find(shared);
    return found == spare_.end() ? 0 : found->second;
  }

  Status findForeign(DeviceAddress address, ForeignMemory *out) override {
    Current current(cu_, context_);
    size_t bytes = 0;
    if (Status status = failed(cu_, cu_.cuMemGetAddressRange(&out->begin, &bytes, address),
                               "cuMemGetAddressRange");
        !status.ok())
      return {DTILE_INVALID, "it is not memory of a GPU that this process has mapped (" +
                                 status.message +
                                 "); register the addresses of all ranks' memory, "
                                 "as PyTorch's rendezvous gives them"};
    out->bytes = int64_t(bytes);
    CUmemHandle handle = 0;
    // Of cudaMalloc there is none.
    if (cu_.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void *>(out->begin)) != kSuccess)
      return {DTILE_INVALID, "it is not memory of cuMemCreate, as that of PyTorch's symmetric "
                             "memory and of ncclMemAlloc is"};
    cu_.cuMemRelease(handle);
    out->mapping = mappingAt(address);
    return {};
  }

  uint64_t mappingAt(DeviceAddress address) override {
    Current current(cu_, context_);
    unsigned long long id = 0;
    int attributes[] = {kPointerBufferId};
    void *values[] = {&id};
    return cu_.cuPointerGetAttributes(1, attributes, values, address) == kSuccess ? id : 0;
  }

  Status mapForeign(const ForeignMemory &memory, DeviceAddress at) override {
    Current current(cu_, context_);
    CUmemHandle handle = 0;
    if (Status status = failed(
            cu_, cu_.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void *>(memory.begin)),
            "cuMemRetainAllocationHandle");
        !status.ok())
      return status;
    Status status = mapAt(handle, memory.bytes, at);
    // The mapping keeps the memory.
    cu_.cuMemRelease(handle);
    return status;
  }

  void unmapForeign(DeviceAddress at, int64_t bytes) override {
    Current current(cu_, context_);
    cu_.cuMemUnmap(at, size_t(bytes));
  }

  Status allocatePinned(int64_t bytes, PinnedMemory *out) override {
    Current current(cu_, context_);
    Status status =
        failed(cu_, cu_.cuMemHostAlloc(&out->host, size_t(bytes), kPortable | kDeviceMap),
               "cuMemHostAlloc");
    if (!status.ok())
      return status;
    std::memset(out->host, 0, size_t(bytes));
    return failed(cu_, cu_.cuMemHostGetDevicePointer(&out->device, out->host, 0),
                  "cuMemHostGetDevicePointer");
  }

  void releasePinned(const PinnedMemory &memory) override {
    Current current(cu_, context_);
    cu_.cuMemFreeHost(memory.host);
  }

  Status pin(void *host, int64_t bytes, PinnedMemory *out) override {
    Current current(cu_, context_);
    Result result = cu_.cuMemHostRegister(host, size_t(bytes), kPortable | kDeviceMap);
    if (result != kHostMemoryAlreadyRegistered && result != kSuccess)
      return failed(cu_, result, "cuMemHostRegister");
    out->host = host;
    return failed(cu_, cu_.cuMemHostGetDevicePointer(&out->device, host, 0),
                  "cuMemHostGetDevicePointer");
  }

  void unpin(const PinnedMemory &memory) override {
    Current current(cu_, context_);
    cu_.cuMemHostUnregister(memory.host);
  }

  Status place(const void *address, PointerPlace *out) override {
    Current current(cu_, context_);
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    int attributes[] = {kPointerMemoryType, kPointerIsManaged, kPointerDeviceOrdinal};
    void *values[] = {&type, &managed, &ordinal};
    Result result =
        cu_.cuPointerGetAttributes(3, attributes, values, reinterpret_cast<CUdeviceptr>(address));
    if (result != kSuccess)
      return failed(cu_, result, "cuPointerGetAttributes");
    out->ordinal = ordinal;
    // What the driver does not know is 0.
    out->kind = managed                     ? PointerPlace::Kind::Managed
                : type == kMemoryTypeDevice ? PointerPlace::Kind::Device
                                            : PointerPlace::Kind::Host;
    return {};
  }

  Status createStream(StreamHandle *out) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuStreamCreate(out, kStreamNonBlocking), "cuStreamCreate");
  }

  void destroyStream(StreamHandle stream) override {
    Current current(cu_, context_);
    cu_.cuStreamDestroy(stream);
  }

  Status zero(DeviceAddress address, int64_t bytes, StreamHandle stream) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuMemsetD8Async(address, 0, size_t(bytes), stream), "cuMemsetD8Async");
  }

  Status copyIn(DeviceAddress to, const void *from, int64_t bytes, StreamHandle stream) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuMemcpyHtoDAsync(to, from, size_t(bytes), stream), "cuMemcpyHtoDAsync");
  }

  Status copyOut(void *to, DeviceAddress from, int64_t bytes, StreamHandle stream) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuMemcpyDtoHAsync(to, from, size_t(bytes), stream), "cuMemcpyDtoHAsync");
  }

  Status synchronize(StreamHandle stream) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuStreamSynchronize(stream), "cuStreamSynchronize");
  }

  Status poll(StreamHandle stream, bool *done) override {
    Current current(cu_, context_);
    Result result = cu_.cuStreamQuery(stream);
    *done = result != kNotReady;
    return result == kNotReady ? Status() : failed(cu_, result, "a kernel");
  }

  Status synchronizeAll() override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuCtxSynchronize(), "a kernel");
  }

  Status isCapturing(StreamHandle stream, bool *capturing) override {
    Current current(cu_, context_);
    int state = 0;
    // The default stream cannot be captured; asking about it while another is fails.
    Result result = stream ? cu_.cuStreamIsCapturing(stream, &state) : kSuccess;
    *capturing = state != 0;
    return failed(cu_, result, "cuStreamIsCapturing");
  }

  bool hasCopyEngine() const override { return true; }

  Status copyAcross(const DeviceCopy &copy, StreamHandle stream) override {
    Current current(cu_, context_);
    if (copy.rows == 1)
      return failed(cu_, cu_.cuMemcpyAsync(copy.to, copy.from, size_t(copy.rowBytes), stream),
                    "cuMemcpyAsync");
    CUmemcpy2D rows;
    rows.srcDevice = copy.from;
    rows.srcPitch = size_t(copy.fromPitch);
    rows.dstDevice = copy.to;
    rows.dstPitch = size_t(copy.toPitch);
    rows.widthInBytes = size_t(copy.rowBytes);
    rows.height = size_t(copy.rows);
    return failed(cu_, cu_.cuMemcpy2DAsync(&rows, stream), "cuMemcpy2DAsync");
  }

  Status createEvent(EventHandle *out) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuEventCreate(out, kEventDisableTiming), "cuEventCreate");
  }

  void destroyEvent(EventHandle event) override {
    Current current(cu_, context_);
    cu_.cuEventDestroy(event);
  }

  Status follow(StreamHandle earlier, StreamHandle later, EventHandle event) override {
    Current current(cu_, context_);
    if (Status status = failed(cu_, cu_.cuEventRecord(event, earlier), "cuEventRecord");
        !status.ok())
      return status;
    return failed(cu_, cu_.cuStreamWaitEvent(later, event, 0), "cuStreamWaitEvent");
  }

  Status load(const dtile_device_image &image, ModuleHandle *out) override {
    Current current(cu_, context_);
    char log[2048] = "";
    int options[] = {kJitErrorLogBuffer, kJitErrorLogBufferSizeBytes};
    void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof log))};
    Result result = cu_.cuModuleLoadDataEx(out, image.data, 2, options, values);
    Status status = failed(cu_, result, "cuModuleLoadDataEx");
    if (result == kUnsupportedPtxVersion)
      status.message += "; this driver is older than the PTX: update it, or compile the kernel "
                        "where ptxas is found, so that it carries machine code";
    if (!status.ok() && log[0])
      status.message += std::string("\n") + log;
    return status;
  }

  void unload(ModuleHandle module) override {
    Current current(cu_, context_);
    cu_.cuModuleUnload(module);
  }

  Status find(ModuleHandle module, const char *entry, int32_t sharedBytes,
              FunctionHandle *out) override {
    Current current(cu_, context_);
    Status status = failed(cu_, cu_.cuModuleGetFunction(out, module, entry), entry);
    if (!status.ok())
      return status;
    status = failed(cu_, cu_.cuFuncSetAttribute(*out, kMaxDynamicSharedSizeBytes, sharedBytes),
                    "cuFuncSetAttribute");
    // Loading it at its first launch could wait for a kernel that waits for this one.
    if (status.ok() && cu_.cuFuncLoad)
      status = failed(cu_, cu_.cuFuncLoad(*out), "cuFuncLoad");
    return status;
  }

  Status residency(FunctionHandle function, int32_t threads, int32_t sharedBytes,
                   int32_t *out) override {
    Current current(cu_, context_);
    return failed(cu_,
                  cu_.cuOccupancyMaxActiveBlocksPerMultiprocessor(out, function, threads,
                                                                  size_t(sharedBytes)),
                  "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  }

  int32_t clusters(FunctionHandle function, int32_t threads, int32_t sharedBytes,
                   int32_t size) override {
    if (!cu_.cuOccupancyMaxActiveClusters || !cu_.cuLaunchKernelEx)
      return 0;
    Current current(cu_, context_);
    CUlaunchAttribute cluster = {.id = kLaunchClusterDimension, .value = {unsigned(size), 1, 1}};
    const CUlaunchConfig config = {.gridX = unsigned(size),
                                   .blockX = unsigned(threads),
                                   .sharedBytes = unsigned(sharedBytes),
                                   .attributes = &cluster,
                                   .numAttributes = 1};
    int32_t count = 0;
    return cu_.cuOccupancyMaxActiveClusters(&count, function, &config) == kSuccess ? count : 0;
  }

  Status launch(const GridLaunch &l, StreamHandle stream) override {
    Current current(cu_, context_);
    auto parameters = const_cast<void **>(l.parameters);
    if (l.cluster > 1)
      return launchClusters(l, stream, parameters);
    auto programs = unsigned(l.programs), threads = unsigned(l.threads);
    auto shared = unsigned(l.sharedBytes);
    Result result = l.cooperative
                        ? cu_.cuLaunchCooperativeKernel(l.function, programs, 1, 1, threads, 1, 1,
                                                        shared, stream, parameters)
                        : cu_.cuLaunchKernel(l.function, programs, 1, 1, threads, 1, 1, shared,
                                             stream, parameters, nullptr);
    return failed(cu_, result, "cuLaunchKernel");
  }

  Status launchClusters(const GridLaunch &l, StreamHandle stream, void **parameters) {
    CUlaunchAttribute attributes[] = {
        {.id = kLaunchClusterDimension, .value = {unsigned(l.cluster), 1, 1}},
        {.id = kLaunchCooperative, .value = {1}}};
    const CUlaunchConfig config = {.gridX = unsigned(l.programs),
                                   .blockX = unsigned(l.threads),
                                   .sharedBytes = unsigned(l.sharedBytes),
                                   .stream = stream,
                                   .attributes = attributes,
                                   .numAttributes = l.cooperative ? 2u : 1u};
    return failed(cu_, cu_.cuLaunchKernelEx(&config, l.function, parameters, nullptr),
                  "cuLaunchKernelEx");
  }

  bool tensorMap(const TensorMapShape &shape, void *map) override;

  Status beginCapture(StreamHandle stream) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuStreamBeginCapture(stream, kCaptureRelaxed), "cuStreamBeginCapture");
  }

  Status endCapture(StreamHandle stream, GraphHandle *out) override {
    Current current(cu_, context_);
    CUgraph graph = nullptr;
    Status status = failed(cu_, cu_.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    if (!status.ok())
      return status;
    status = failed(cu_, cu_.cuGraphInstantiateWithFlags(out, graph, 0), "cuGraphInstantiate");
    cu_.cuGraphDestroy(graph);
    return status;
  }

  Status replay(GraphHandle graph, StreamHandle stream) override {
    Current current(cu_, context_);
    return failed(cu_, cu_.cuGraphLaunch(graph, stream), "cuGraphLaunch");
  }

  void destroyGraph(GraphHandle graph) override {
    Current current(cu_, context_);
    cu_.cuGraphExecDestroy(graph);
  }

private:
  Status mapHandle(CUmemHandle handle, int64_t bytes, DeviceAddress *out) {
    // Address space costs nothing; where there is not so much of it, go without.
    int64_t spare = kSpareBytes;
    if (cu_.cuMemAddressReserve(out, size_t(bytes + spare), 0, 0, 0) != kSuccess) {
      spare = 0;
      if (Status status = failed(cu_, cu_.cuMemAddressReserve(out, size_t(bytes), 0, 0, 0),
                                 "cuMemAddressReserve");
          !status.ok())
        return status;
    }
    Status status = mapAt(handle, bytes, *out);
    if (status.ok())
      spare_[*out] = spare;
    else
      cu_.cuMemAddressFree(*out, size_t(bytes + spare));
    return status;
  }

  /// In address space that was reserved.
  Status mapAt(CUmemHandle handle, int64_t bytes, DeviceAddress at) {
    Status status = failed(cu_, cu_.cuMemMap(at, size_t(bytes), 0, handle, 0), "cuMemMap");
    if (!status.ok())
      return status;
    CUmemAccessDesc access;
    access.location.id = device_;
    status = failed(cu_, cu_.cuMemSetAccess(at, size_t(bytes), &access, 1), "cuMemSetAccess");
    if (!status.ok())
      cu_.cuMemUnmap(at, size_t(bytes));
    return status;
  }

  /// Reserved after each rank's heap, for memory of others: as much as a GPU has.
  static constexpr int64_t kSpareBytes = int64_t(256) << 30;

  const Functions &cu_;
  CUdevice device_;
  CUcontext context_;
  DeviceFacts facts_;
  /// By where shared memory begins.
  std::map<DeviceAddress, int64_t> spare_;
};

/// CUtensorMapDataType of an element.
int tensorType(int32_t dtype) {
  if (dtype == DTILE_MAP_TF32)
    return kTensorTfloat32;
  switch (dtile_dtype(dtype)) {
  case DTILE_BOOL:
  case DTILE_I8:
  case DTILE_U8:
  case DTILE_F8E4M3:
  case DTILE_F8E5M2:
    return kTensorUint8;
  case DTILE_I16:
  case DTILE_U16:
    return kTensorUint16;
  case DTILE_I32:
    return kTensorInt32;
  case DTILE_U32:
    return kTensorUint32;
  case DTILE_I64:
    return kTensorInt64;
  case DTILE_U64:
    return kTensorUint64;
  case DTILE_F16:
    return kTensorFloat16;
  case DTILE_BF16:
    return kTensorBfloat16;
  case DTILE_F32:
    return kTensorFloat32;
  case DTILE_F64:
    return kTensorFloat64;
  }
  return kTensorUint8;
}

bool CudaDevice::tensorMap(const TensorMapShape &shape, void *map) {
  constexpr int32_t kMostDims = 5;
  constexpr int64_t kMostSize = int64_t(1) << 32, kMostStride = int64_t(1) << 40;
  if (!cu_.cuTensorMapEncodeTiled || shape.ndim < 1 || shape.ndim > kMostDims)
    return false;
  int32_t bytes = elementBytes(shape.dtype == DTILE_MAP_TF32 ? int32_t(DTILE_F32) : shape.dtype);
  uint64_t size[kMostDims], stride[kMostDims];
  uint32_t box[kMostDims], steps[kMostDims];
  // The driver counts from the innermost dimension.
  for (int32_t i = 0; i < shape.ndim; ++i) {
    int32_t d = shape.ndim - 1 - i;
    int64_t bytesApart = shape.stride[d] * bytes;
    if (shape.size[d] < 1 || shape.size[d] > kMostSize || shape.box[d] < 1 || shape.box[d] > 256)
      return false;
    // A dimension of one element is never stepped along.
    if (i > 0 && shape.size[d] == 1 && (bytesApart <= 0 || bytesApart % 16 != 0))
      bytesApart = 16;
    if (i == 0 ? shape.stride[d] != 1 && shape.size[d] != 1
               : bytesApart <= 0 || bytesApart % 16 != 0 || bytesApart >= kMostStride)
      return false;
    size[i] = uint64_t(shape.size[d]);
    box[i] = uint32_t(shape.box[d]);
    steps[i] = 1;
    if (i > 0)
      stride[i - 1] = uint64_t(bytesApart);
  }
  if (reinterpret_cast<uintptr_t>(shape.data) % 16 != 0 || box[0] * uint32_t(bytes) % 16 != 0 ||
      (shape.swizzle != 0 && int32_t(box[0]) * bytes > shape.swizzle))
    return false;
  Current current(cu_, context_);
  int swizzle = shape.swizzle == 32 ? 1 : shape.swizzle == 64 ? 2 : shape.swizzle == 128 ? 3 : 0;
  return cu_.cuTensorMapEncodeTiled(map, tensorType(shape.dtype), uint32_t(shape.ndim), shape.data,
                                    size, stride, box, steps, /*interleave=*/0, swizzle,
                                    kPromote128, /*oobFill=*/0) == kSuccess;
}

class CudaDriver final : public DeviceDriver {
public:
  explicit CudaDriver(int32_t count) : count_(count) {}

  const char *target() const override { return "nvptx"; }
  int32_t count() const override { return count_; }

  Status open(int32_t ordinal, std::unique_ptr<Device> *out) override {
    CUdevice device = 0;
    if (Status status = failed(cu, cu.cuDeviceGet(&device, ordinal), "cuDeviceGet"); !status.ok())
      return status;
    auto attribute = [&](int which) {
      int value = 0;
      cu.cuDeviceGetAttribute(&value, which, device);
      return value;
    };
    char name[128] = "";
    cu.cuDeviceGetName(name, sizeof name, device);
    DeviceFacts facts;
    facts.ordinal = ordinal;
    facts.name = name;
    facts.major = attribute(kComputeCapabilityMajor);
    facts.minor = attribute(kComputeCapabilityMinor);
    facts.arch = format("sm_%d%d", facts.major, facts.minor);
    facts.multiprocessors = attribute(kMultiprocessorCount);
    facts.sharedBytesPerProgram = attribute(kMaxSharedMemoryPerBlockOptin);
    facts.cooperative = attribute(kCooperativeLaunch) != 0;
    constexpr int kCuda12_1 = 12010;
    int version = 0;
    cu.cuDriverGetVersion(&version);
    facts.parameterBytes =
        version < kCuda12_1 ? DTILE_CUDA_FEW_PARAMETER_BYTES : DTILE_CUDA_PARAMETER_BYTES;
    // Never released: making a context again takes a third of a second.
    CUcontext context = nullptr;
    if (Status status =
            failed(cu, cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
        !status.ok())
      return status;
    *out = std::make_unique<CudaDevice>(cu, device, context, std::move(facts));
    return {};
  }

  Functions cu;

private:
  int32_t count_;
};

Status loadFunctions(void *library, Functions &cu) {
  const char *missing = nullptr;
  auto find = [&](const char *name) {
    void *address = dlsym(library, name);
    return address;
  };
#define FN_AS(NAME, EXPORTED, ARGUMENTS)                                                           \
  cu.NAME = reinterpret_cast<Result(*) ARGUMENTS>(find(EXPORTED));                                 \
  if (!cu.NAME)                                                                                    \
    missing = EXPORTED;
#define FN(NAME, ARGUMENTS) FN_AS(NAME, #NAME, ARGUMENTS)
#define OPTIONAL_FN(NAME, ARGUMENTS) cu.NAME = reinterpret_cast<Result(*) ARGUMENTS>(find(#NAME));
  DTILE_CUDA_FUNCTIONS
#undef FN
#undef FN_AS
#undef OPTIONAL_FN
  if (missing)
    return {DTILE_UNAVAILABLE, format("libcuda.so.1 lacks %s: the NVIDIA driver is too old; "
                                      "CUDA 12 or later is needed",
                                      missing)};
  return {};
}

} // namespace

Status openCuda(std::unique_ptr<DeviceDriver> *out) {
  // Kept open for good: drivers do not expect to be unloaded.
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return {DTILE_UNAVAILABLE, std::string("no NVIDIA driver on this machine (") + dlerror() +
                                   "); install it, or run on the host target"};
  Functions cu;
  if (Status status = loadFunctions(library, cu); !status.ok())
    return status;
  Result result = cu.cuInit(0);
  int count = 0;
  if (result == kSuccess)
    result = cu.cuDeviceGetCount(&count);
  if (result == kNoDevice || (result == kSuccess && count == 0))
    return {DTILE_UNAVAILABLE, "the NVIDIA driver finds no GPU; see nvidia-smi, and "
                               "CUDA_VISIBLE_DEVICES if it is set"};
  if (result != kSuccess)
    return failed(cu, result, "cuInit");
  auto driver = std::make_unique<CudaDriver>(count);
  driver->cu = cu;
  *out = std::move(driver);
  return {};
}

} // namespace dtile::runtime
