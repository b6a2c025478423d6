// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AMD's driver, opened at run time. Written against HIP's documented module API and never run on
// hardware: dtile has been measured on NVIDIA GPUs only.
//
// HIP keeps the calling thread's device instead of contexts. Its declarations below are its own
// ABI's; values that differ between versions of HIP are avoided: the architecture is read out of
// whatever structure hipGetDeviceProperties fills, by its text.
#include "backend/runtime/device/device.h"
#include "backend/runtime/device_abi.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <dlfcn.h>
#include <vector>

namespace dtile::runtime {

namespace {

using Result = int;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr Result kNoDevice = 100;
constexpr Result kNotReady = 600;
constexpr Result kPeerAccessAlreadyEnabled = 704;
// hipDeviceAttribute_t since ROCm 5
constexpr int kCooperativeLaunch = 10;
constexpr int kMultiprocessorCount = 63;
constexpr int kMaxSharedMemoryPerBlock = 74;
// hipHostMallocPortable | hipHostMallocMapped; of hipHostRegister, too
constexpr unsigned kPortableMapped = 3;
// hipHostMallocCoherent: devices see each other's writes while a kernel runs
constexpr unsigned kCoherent = 0x40000000;
constexpr unsigned kStreamNonBlocking = 1;
constexpr int kCaptureRelaxed = 2;
constexpr int kHostToDevice = 1, kDeviceToHost = 2;
// hipPointer_attribute, as CUDA's
constexpr int kPointerMemoryType = 2, kPointerIsManaged = 8, kPointerDeviceOrdinal = 9;
// hipMemoryType since ROCm 6; before, a device was 1, which is the host now
constexpr unsigned kMemoryTypeDevice = 2;
// hipDeviceMallocUncached: what peers write is seen at once, without leaving stale lines
constexpr unsigned kUncached = 3;

#define DTILE_HIP_FUNCTIONS                                                                        \
  FN(hipInit, (unsigned))                                                                          \
  FN(hipGetDeviceCount, (int *))                                                                   \
  FN(hipGetDevice, (int *))                                                                        \
  FN(hipSetDevice, (int))                                                                          \
  FN(hipDeviceGetName, (char *, int, int))                                                         \
  FN(hipDeviceGetAttribute, (int *, int, int))                                                     \
  FN(hipDeviceCanAccessPeer, (int *, int, int))                                                    \
  FN(hipDeviceEnablePeerAccess, (int, unsigned))                                                   \
  FN(hipDeviceSynchronize, ())                                                                     \
  FN(hipMalloc, (void **, size_t))                                                                 \
  FN(hipExtMallocWithFlags, (void **, size_t, unsigned))                                           \
  FN(hipFree, (void *))                                                                            \
  FN(hipHostMalloc, (void **, size_t, unsigned))                                                   \
  FN(hipHostFree, (void *))                                                                        \
  FN(hipHostRegister, (void *, size_t, unsigned))                                                  \
  FN(hipHostUnregister, (void *))                                                                  \
  FN(hipHostGetDevicePointer, (void **, void *, unsigned))                                         \
  FN(hipMemsetAsync, (void *, int, size_t, void *))                                                \
  FN(hipMemcpyAsync, (void *, const void *, size_t, int, void *))                                  \
  FN(hipPointerGetAttribute, (void *, int, void *))                                                \
  FN(hipStreamCreateWithFlags, (void **, unsigned))                                                \
  FN(hipStreamDestroy, (void *))                                                                   \
  FN(hipStreamSynchronize, (void *))                                                               \
  FN(hipStreamQuery, (void *))                                                                     \
  FN(hipStreamIsCapturing, (void *, int *))                                                        \
  FN(hipStreamBeginCapture, (void *, int))                                                         \
  FN(hipStreamEndCapture, (void *, void **))                                                       \
  FN(hipGraphInstantiateWithFlags, (void **, void *, unsigned long long))                          \
  FN(hipGraphLaunch, (void *, void *))                                                             \
  FN(hipGraphDestroy, (void *))                                                                    \
  FN(hipGraphExecDestroy, (void *))                                                                \
  FN(hipModuleLoadData, (void **, const void *))                                                   \
  FN(hipModuleUnload, (void *))                                                                    \
  FN(hipModuleGetFunction, (void **, void *, const char *))                                        \
  FN(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, (int *, void *, int, size_t))             \
  FN(hipModuleLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,   \
                             unsigned, void *, void **, void **))                                  \
  FN(hipModuleLaunchCooperativeKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned,  \
                                        unsigned, unsigned, void *, void **))

struct Functions {
#define FN(NAME, ARGUMENTS) Result(*NAME) ARGUMENTS = nullptr;
  DTILE_HIP_FUNCTIONS
#undef FN
  const char *(*hipGetErrorString)(Result) = nullptr;
  /// The newest that the library has; all fill a structure that holds the architecture's name.
  Result (*properties)(void *, int) = nullptr;
};

Status failed(const Functions &hip, Result result, const char *what) {
  if (result == kSuccess)
    return {};
  return {result == kOutOfMemory ? DTILE_OUT_OF_MEMORY : DTILE_UNAVAILABLE,
          format("HIP: %s (error %d) in %s", hip.hipGetErrorString(result), result, what)};
}

/// Makes a device the calling thread's for a scope.
class Current {
public:
  Current(const Functions &hip, int device) : hip_(hip) {
    if (hip_.hipGetDevice(&before_) == kSuccess && before_ == device)
      return;
    hip_.hipSetDevice(device);
    isChanged_ = true;
  }
  ~Current() {
    if (isChanged_)
      hip_.hipSetDevice(before_);
  }
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;

private:
  const Functions &hip_;
  int before_ = 0;
  bool isChanged_ = false;
};

void *pointer(DeviceAddress address) { return reinterpret_cast<void *>(address); }
DeviceAddress number(void *address) { return reinterpret_cast<DeviceAddress>(address); }

class HipDevice final : public Device {
public:
  HipDevice(const Functions &hip, DeviceFacts facts)
      : hip_(hip), device_(facts.ordinal), facts_(std::move(facts)) {}

  const DeviceFacts &facts() const override { return facts_; }
  int32_t fitness(const dtile_device_image &image) const override {
    return std::strcmp(image.target, "amdgpu") == 0 && facts_.arch == image.arch;
  }

  Status within(const std::function<Status()> &call) override {
    Current current(hip_, device_);
    return call();
  }

  Status allocate(int64_t bytes, DeviceAddress *out) override {
    Current current(hip_, device_);
    void *address = nullptr;
    // Heaps and counters: what another device writes there must not hide behind this one's caches.
    Result result = hip_.hipExtMallocWithFlags(&address, size_t(bytes), kUncached);
    if (result != kSuccess && result != kOutOfMemory)
      result = hip_.hipMalloc(&address, size_t(bytes));
    *out = number(address);
    return failed(hip_, result, "hipExtMallocWithFlags");
  }
  void release(DeviceAddress address) override {
    Current current(hip_, device_);
    (void)hip_.hipFree(pointer(address));
  }
  Status reach(const Device &other) override {
    const int peer = other.facts().ordinal;
    if (peer == device_)
      return {};
    Current current(hip_, device_);
    int can = 0;
    (void)hip_.hipDeviceCanAccessPeer(&can, device_, peer);
    if (!can)
      return {DTILE_UNAVAILABLE,
              format("GPU %d cannot access the memory of GPU %d", device_, peer)};
    Result result = hip_.hipDeviceEnablePeerAccess(peer, 0);
    return result == kPeerAccessAlreadyEnabled ? Status()
                                               : failed(hip_, result, "hipDeviceEnablePeerAccess");
  }
  Status allocateShared(int64_t *, DeviceAddress *, int *) override {
    return {DTILE_UNAVAILABLE, "on AMD GPUs all ranks are of one process: make the team by "
                               "dtile_team_create_devices"};
  }
  Status mapShared(int, int64_t, DeviceAddress *) override {
    return {DTILE_UNAVAILABLE, "on AMD GPUs all ranks are of one process"};
  }
  void releaseShared(DeviceAddress, int64_t) override {}

  Status allocatePinned(int64_t bytes, PinnedMemory *out) override {
    Current current(hip_, device_);
    Status status =
        failed(hip_, hip_.hipHostMalloc(&out->host, size_t(bytes), kPortableMapped | kCoherent),
               "hipHostMalloc");
    if (!status.ok())
      return status;
    std::memset(out->host, 0, size_t(bytes));
    return deviceView(out);
  }
  void releasePinned(const PinnedMemory &memory) override {
    Current current(hip_, device_);
    (void)hip_.hipHostFree(memory.host);
  }
  Status pin(void *host, int64_t bytes, PinnedMemory *out) override {
    Current current(hip_, device_);
    out->host = host;
    Status status =
        failed(hip_, hip_.hipHostRegister(host, size_t(bytes), kPortableMapped), "hipHostRegister");
    return status.ok() ? deviceView(out) : status;
  }
  void unpin(const PinnedMemory &memory) override {
    Current current(hip_, device_);
    (void)hip_.hipHostUnregister(memory.host);
  }

  Status place(const void *address, PointerPlace *out) override {
    Current current(hip_, device_);
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    void *at = const_cast<void *>(address);
    // What HIP has not allocated it does not know.
    if (hip_.hipPointerGetAttribute(&type, kPointerMemoryType, at) != kSuccess)
      return {};
    (void)hip_.hipPointerGetAttribute(&managed, kPointerIsManaged, at);
    (void)hip_.hipPointerGetAttribute(&ordinal, kPointerDeviceOrdinal, at);
    out->ordinal = ordinal;
    out->kind = managed                     ? PointerPlace::Kind::Managed
                : type == kMemoryTypeDevice ? PointerPlace::Kind::Device
                                            : PointerPlace::Kind::Host;
    return {};
  }

  Status createStream(StreamHandle *out) override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipStreamCreateWithFlags(out, kStreamNonBlocking),
                  "hipStreamCreateWithFlags");
  }
  void destroyStream(StreamHandle stream) override {
    Current current(hip_, device_);
    (void)hip_.hipStreamDestroy(stream);
  }
  Status zero(DeviceAddress address, int64_t bytes, StreamHandle stream) override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipMemsetAsync(pointer(address), 0, size_t(bytes), stream),
                  "hipMemsetAsync");
  }
  Status copyIn(DeviceAddress to, const void *from, int64_t bytes, StreamHandle stream) override {
    Current current(hip_, device_);
    return failed(hip_,
                  hip_.hipMemcpyAsync(pointer(to), from, size_t(bytes), kHostToDevice, stream),
                  "hipMemcpyAsync");
  }
  Status copyOut(void *to, DeviceAddress from, int64_t bytes, StreamHandle stream) override {
    Current current(hip_, device_);
    return failed(hip_,
                  hip_.hipMemcpyAsync(to, pointer(from), size_t(bytes), kDeviceToHost, stream),
                  "hipMemcpyAsync");
  }
  Status synchronize(StreamHandle stream) override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipStreamSynchronize(stream), "hipStreamSynchronize");
  }
  Status poll(StreamHandle stream, bool *done) override {
    Current current(hip_, device_);
    Result result = hip_.hipStreamQuery(stream);
    *done = result != kNotReady;
    return result == kNotReady ? Status() : failed(hip_, result, "a kernel");
  }
  Status synchronizeAll() override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipDeviceSynchronize(), "a kernel");
  }
  Status isCapturing(StreamHandle stream, bool *capturing) override {
    Current current(hip_, device_);
    int state = 0;
    Result result = stream ? hip_.hipStreamIsCapturing(stream, &state) : kSuccess;
    *capturing = state != 0;
    return failed(hip_, result, "hipStreamIsCapturing");
  }

  Status load(const dtile_device_image &image, ModuleHandle *out) override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipModuleLoadData(out, image.data), "hipModuleLoadData");
  }
  void unload(ModuleHandle module) override {
    Current current(hip_, device_);
    (void)hip_.hipModuleUnload(module);
  }
  Status find(ModuleHandle module, const char *entry, int32_t /*sharedBytes*/,
              FunctionHandle *out) override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipModuleGetFunction(out, module, entry), entry);
  }
  Status residency(FunctionHandle function, int32_t threads, int32_t sharedBytes,
                   int32_t *out) override {
    Current current(hip_, device_);
    return failed(hip_,
                  hip_.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(out, function, threads,
                                                                          size_t(sharedBytes)),
                  "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor");
  }
  Status launch(const GridLaunch &l, StreamHandle stream) override {
    Current current(hip_, device_);
    auto parameters = const_cast<void **>(l.parameters);
    auto programs = unsigned(l.programs), threads = unsigned(l.threads);
    auto shared = unsigned(l.sharedBytes);
    Result result = l.cooperative
                        ? hip_.hipModuleLaunchCooperativeKernel(l.function, programs, 1, 1, threads,
                                                                1, 1, shared, stream, parameters)
                        : hip_.hipModuleLaunchKernel(l.function, programs, 1, 1, threads, 1, 1,
                                                     shared, stream, parameters, nullptr);
    return failed(hip_, result, "hipModuleLaunchKernel");
  }
  bool tensorMap(const TensorMapShape &, void *) override { return false; }

  Status beginCapture(StreamHandle stream) override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipStreamBeginCapture(stream, kCaptureRelaxed),
                  "hipStreamBeginCapture");
  }
  Status endCapture(StreamHandle stream, GraphHandle *out) override {
    Current current(hip_, device_);
    void *graph = nullptr;
    Status status = failed(hip_, hip_.hipStreamEndCapture(stream, &graph), "hipStreamEndCapture");
    if (!status.ok())
      return status;
    status = failed(hip_, hip_.hipGraphInstantiateWithFlags(out, graph, 0),
                    "hipGraphInstantiateWithFlags");
    (void)hip_.hipGraphDestroy(graph);
    return status;
  }
  Status replay(GraphHandle graph, StreamHandle stream) override {
    Current current(hip_, device_);
    return failed(hip_, hip_.hipGraphLaunch(graph, stream), "hipGraphLaunch");
  }
  void destroyGraph(GraphHandle graph) override {
    Current current(hip_, device_);
    (void)hip_.hipGraphExecDestroy(graph);
  }

private:
  Status deviceView(PinnedMemory *memory) {
    void *view = nullptr;
    Status status = failed(hip_, hip_.hipHostGetDevicePointer(&view, memory->host, 0),
                           "hipHostGetDevicePointer");
    memory->device = number(view);
    return status;
  }

  const Functions &hip_;
  int device_;
  DeviceFacts facts_;
};

class HipDriver final : public DeviceDriver {
public:
  HipDriver(const Functions &functions, int32_t count) : hip(functions), count_(count) {}
  const char *target() const override { return "amdgpu"; }
  int32_t count() const override { return count_; }

  Status open(int32_t ordinal, std::unique_ptr<Device> *out) override {
    DeviceFacts facts;
    facts.ordinal = ordinal;
    auto attribute = [&](int which) {
      int value = 0;
      (void)hip.hipDeviceGetAttribute(&value, which, ordinal);
      return value;
    };
    char name[256] = "";
    (void)hip.hipDeviceGetName(name, sizeof name, ordinal);
    facts.name = name;
    facts.multiprocessors = attribute(kMultiprocessorCount);
    facts.sharedBytesPerProgram = attribute(kMaxSharedMemoryPerBlock);
    facts.cooperative = attribute(kCooperativeLaunch) != 0;
    facts.parameterBytes = DTILE_HIP_PARAMETER_BYTES;
    // Larger than any version's structure.
    std::vector<char> properties(16 << 10);
    if (Status status =
            failed(hip, hip.properties(properties.data(), ordinal), "hipGetDeviceProperties");
        !status.ok())
      return status;
    constexpr char kPrefix[] = "gfx";
    auto found = std::search(properties.begin(), properties.end() - 64, kPrefix, kPrefix + 3);
    for (; found < properties.end() - 64 && std::isalnum(static_cast<unsigned char>(*found));
         ++found)
      facts.arch += *found;
    if (facts.arch.empty())
      return {DTILE_UNAVAILABLE, format("HIP does not say which architecture GPU %d is", ordinal)};
    *out = std::make_unique<HipDevice>(hip, std::move(facts));
    return {};
  }

  Functions hip;

private:
  int32_t count_;
};

} // namespace

Status openHip(std::unique_ptr<DeviceDriver> *out) {
  void *library = nullptr;
  for (const char *name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"})
    if (!library)
      library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return {DTILE_UNAVAILABLE, std::string("no HIP on this machine (") + dlerror() +
                                   "); install ROCm 6 or later, or run on the host target"};
  Functions hip;
  const char *missing = nullptr;
#define FN(NAME, ARGUMENTS)                                                                        \
  hip.NAME = reinterpret_cast<Result(*) ARGUMENTS>(dlsym(library, #NAME));                         \
  if (!hip.NAME)                                                                                   \
    missing = #NAME;
  DTILE_HIP_FUNCTIONS
#undef FN
  hip.hipGetErrorString =
      reinterpret_cast<const char *(*)(Result)>(dlsym(library, "hipGetErrorString"));
  hip.properties =
      reinterpret_cast<Result (*)(void *, int)>(dlsym(library, "hipGetDevicePropertiesR0600"));
  if (!hip.properties || !hip.hipGetErrorString)
    missing = "hipGetDevicePropertiesR0600";
  if (missing)
    return {DTILE_UNAVAILABLE,
            format("libamdhip64 lacks %s: it is too old; ROCm 6 or later is needed", missing)};
  Result result = hip.hipInit(0);
  int count = 0;
  if (result == kSuccess)
    result = hip.hipGetDeviceCount(&count);
  if (result == kNoDevice || (result == kSuccess && count == 0))
    return {DTILE_UNAVAILABLE, "HIP finds no GPU; see rocminfo, and HIP_VISIBLE_DEVICES if it is "
                               "set"};
  if (result != kSuccess)
    return failed(hip, result, "hipInit");
  *out = std::make_unique<HipDriver>(hip, count);
  return {};
}

} // namespace dtile::runtime
