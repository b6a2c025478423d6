// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the runtime asks of a vendor's driver. One implementation a vendor (device_cuda.cpp,
// device_hip.cpp), and one in host memory for tests; everything else in this folder knows no
// vendor.
//
// Addresses of device memory are numbers, never dereferenced here. Calls of one device may come
// from any thread; each makes the device's context current and restores what was.
#pragma once

#include "backend/runtime/errors.h"
#include "backend/runtime/kernel_abi.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace dtile::runtime {

using DeviceAddress = uint64_t;
/// The vendor's stream; null is its default stream.
using StreamHandle = void *;
using ModuleHandle = void *;
using FunctionHandle = void *;
using GraphHandle = void *;
using EventHandle = void *;

/// What a device is, as its driver says.
struct DeviceFacts {
  int32_t ordinal = 0;
  std::string name;
  /// `sm_90`, `gfx942`.
  std::string arch;
  /// NVIDIA: 9 and 0 for sm_90.
  int32_t major = 0, minor = 0;
  int32_t multiprocessors = 0;
  int64_t sharedBytesPerProgram = 0;
  /// That the driver takes for one launch.
  int64_t parameterBytes = 0;
  bool cooperative = false;
};

/// Where an address that a caller passed is.
struct PointerPlace {
  enum class Kind : uint8_t { Host, Device, Managed } kind = Kind::Host;
  int32_t ordinal = -1;
};

/// Memory that the host and all devices see.
struct PinnedMemory {
  void *host = nullptr;
  DeviceAddress device = 0;
};

/// A launch of one kernel, as the driver wants it.
struct GridLaunch {
  FunctionHandle function = nullptr;
  int32_t programs = 1;
  int32_t threads = 1;
  int32_t sharedBytes = 0;
  /// All programs start together or none does.
  bool cooperative = false;
  /// Programs of a cluster; `programs` is a multiple.
  int32_t cluster = 1;
  void *parameters[2] = {};
};

/// A copy between devices: rows of `rowBytes` at equal distances.
struct DeviceCopy {
  DeviceAddress to = 0, from = 0;
  int64_t toPitch = 0, fromPitch = 0;
  int64_t rowBytes = 0, rows = 1;
};

/// What cuTensorMapEncodeTiled wants to know; innermost dimension last.
struct TensorMapShape {
  void *data = nullptr;
  int32_t dtype = 0;
  int32_t ndim = 0;
  const int64_t *size = nullptr;
  const int64_t *stride = nullptr;
  const int32_t *box = nullptr;
  int32_t swizzle = 0;
};

/// An allocation of somebody else.
struct ForeignMemory {
  DeviceAddress begin = 0;
  int64_t bytes = 0;
  /// Device::mappingAt, when it was found.
  uint64_t mapping = 0;
};

/// One device of this process.
class Device {
public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceFacts &facts() const = 0;
  /// The images that it runs, best first: 0 none of it, otherwise larger is better.
  [[nodiscard]] virtual int32_t fitness(const dtile_device_image &image) const = 0;
  /// Calls into a library that uses the driver's current device: it is this one meanwhile.
  virtual Status within(const std::function<Status()> &call) = 0;

  // ---- Memory ----
  virtual Status allocate(int64_t bytes, DeviceAddress *out) = 0;
  virtual void release(DeviceAddress address) = 0;
  /// Kernels of this device may access what `other` has allocated.
  virtual Status reach(const Device &other) = 0;
  /// Memory that another process can map, zero bytes long where the device has no such memory. The
  /// size is rounded up.
  virtual Status allocateShared(int64_t *bytes, DeviceAddress *out, int *descriptor) = 0;
  virtual Status mapShared(int descriptor, int64_t bytes, DeviceAddress *out) = 0;
  virtual void releaseShared(DeviceAddress address, int64_t bytes) = 0;
  /// Bytes of address space that are kept free after such memory, for what follows.
  [[nodiscard]] virtual int64_t spareBehind(DeviceAddress /*shared*/) const { return 0; }
  /// The allocation that somebody else's memory is in, which another one can share.
  virtual Status findForeign(DeviceAddress, ForeignMemory *) {
    return {DTILE_UNAVAILABLE, "this driver cannot map memory of others a second time"};
  }
  /// Maps it at `at`, too, in such free space. It lives until it is unmapped there as well.
  virtual Status mapForeign(const ForeignMemory &, DeviceAddress /*at*/) {
    return {DTILE_UNAVAILABLE, "this driver cannot map memory of others a second time"};
  }
  virtual void unmapForeign(DeviceAddress /*at*/, int64_t /*bytes*/) {}
  /// What tells the memory that is mapped at an address from all that was mapped there before; 0
  /// where there is none, or the driver cannot say.
  [[nodiscard]] virtual uint64_t mappingAt(DeviceAddress) { return 0; }
  /// Pinned host memory of this device and all others.
  virtual Status allocatePinned(int64_t bytes, PinnedMemory *out) = 0;
  virtual void releasePinned(const PinnedMemory &memory) = 0;
  /// The same of memory that the caller has mapped.
  virtual Status pin(void *host, int64_t bytes, PinnedMemory *out) = 0;
  virtual void unpin(const PinnedMemory &memory) = 0;
  virtual Status place(const void *address, PointerPlace *out) = 0;

  // ---- Streams; all that is queued runs in order ----
  virtual Status createStream(StreamHandle *out) = 0;
  virtual void destroyStream(StreamHandle stream) = 0;
  virtual Status zero(DeviceAddress address, int64_t bytes, StreamHandle stream) = 0;
  virtual Status copyIn(DeviceAddress to, const void *from, int64_t bytes, StreamHandle stream) = 0;
  virtual Status copyOut(void *to, DeviceAddress from, int64_t bytes, StreamHandle stream) = 0;
  virtual Status synchronize(StreamHandle stream) = 0;
  /// Whether all that is queued has ended.
  virtual Status poll(StreamHandle stream, bool *done) = 0;
  /// All streams of the device.
  virtual Status synchronizeAll() = 0;
  virtual Status isCapturing(StreamHandle stream, bool *capturing) = 0;

  // ---- Copies to other devices, beside kernels ----
  /// Whether it makes such copies without the processors that run kernels.
  [[nodiscard]] virtual bool hasCopyEngine() const { return false; }
  virtual Status copyAcross(const DeviceCopy &, StreamHandle) { return noCopyEngine(); }
  virtual Status createEvent(EventHandle *) { return noCopyEngine(); }
  virtual void destroyEvent(EventHandle) {}
  /// What is queued on `later` from now on runs after what `earlier` holds.
  virtual Status follow(StreamHandle /*earlier*/, StreamHandle /*later*/, EventHandle) {
    return noCopyEngine();
  }

  // ---- Code ----
  virtual Status load(const dtile_device_image &image, ModuleHandle *out) = 0;
  virtual void unload(ModuleHandle module) = 0;
  /// The kernel, ready to be launched with so much dynamic shared memory.
  virtual Status find(ModuleHandle module, const char *entry, int32_t sharedBytes,
                      FunctionHandle *out) = 0;
  /// Programs that one multiprocessor holds at once.
  virtual Status residency(FunctionHandle function, int32_t threads, int32_t sharedBytes,
                           int32_t *out) = 0;
  /// Clusters of `size` programs that the device holds at once; 0 where it has no clusters.
  virtual int32_t clusters(FunctionHandle, int32_t /*threads*/, int32_t /*sharedBytes*/,
                           int32_t /*size*/) {
    return 0;
  }
  virtual Status launch(const GridLaunch &launch, StreamHandle stream) = 0;
  /// Fills 128 bytes; false where the device cannot describe the object.
  virtual bool tensorMap(const TensorMapShape &shape, void *map) = 0;

  // ---- Graphs ----
  virtual Status beginCapture(StreamHandle stream) = 0;
  virtual Status endCapture(StreamHandle stream, GraphHandle *out) = 0;
  virtual Status replay(GraphHandle graph, StreamHandle stream) = 0;
  virtual void destroyGraph(GraphHandle graph) = 0;

private:
  static Status noCopyEngine() {
    return {DTILE_UNAVAILABLE, "this driver makes no copies beside kernels"};
  }
};

/// A vendor's driver, opened at run time.
class DeviceDriver {
public:
  virtual ~DeviceDriver() = default;
  /// `nvptx`, `amdgpu`.
  [[nodiscard]] virtual const char *target() const = 0;
  [[nodiscard]] virtual int32_t count() const = 0;
  virtual Status open(int32_t ordinal, std::unique_ptr<Device> *out) = 0;
};

/// Open the driver's library; DTILE_UNAVAILABLE with what to do where there is none.
Status openCuda(std::unique_ptr<DeviceDriver> *out);
Status openHip(std::unique_ptr<DeviceDriver> *out);

} // namespace dtile::runtime
