// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a team of devices keeps of a kernel between its launches.
#pragma once

#include "backend/runtime/device/device.h"
#include "backend/runtime/device_abi.h"
#include "backend/runtime/kernel_state.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtile::runtime {

class DeviceTeam;

/// A scratch object or signal: at the same offset of all ranks' heaps.
struct DeviceObject {
  ObjectKey key;
  bool isSignal = false;
  int64_t offset = 0;
  int64_t copyBytes = 0;
  int32_t copies = 1;
  int64_t cells = 0;
  /// By local rank, in the arena: scratch has turns, signals what says since when
  /// bases hold, the bases and what was asked for.
  std::vector<DeviceAddress> turn, bases, asked;
  static constexpr int64_t kSinceBytes = 2 * sizeof(uint64_t);
};

/// Everything that a launch with certain arguments needs; nothing of it changes.
struct PreparedLaunch {
  struct FreeFrame {
    void operator()(void *frame) const;
  };
  /// The arguments, word by word.
  std::vector<uint64_t> signature;
  uint64_t hash = 0;
  dtile_device_launch launch = {};
  std::unique_ptr<void, FreeFrame> frame;
  uint64_t lastUse = 0;
  /// It need not ask about memory taken in turn while TurnedMemory's is this.
  uint64_t turnedVersion = 0;
};

/// A kernel on one rank of this process.
struct LoadedImage {
  const dtile_device_image *image = nullptr;
  FunctionHandle function = nullptr;
  /// Programs of this rank that can be resident at once.
  int64_t resident = 0;
  /// Its dtile_device_kernel.
  DeviceAddress counters = 0;
  std::vector<std::unique_ptr<PreparedLaunch>> prepared;
};

/// What reports say of a kernel. Copies: a graph may be replayed, and fail, when the library that
/// the kernel came from is closed.
struct ReportedNames {
  struct Place {
    std::string file, what;
    int32_t line = 0, column = 0;
    [[nodiscard]] dtile_site site() const { return {file.c_str(), what.c_str(), line, column}; }
  };
  std::vector<std::string> spaces, params;
  std::vector<Place> places;

  ReportedNames() = default;
  ReportedNames(const dtile_kernel_desc &desc, const dtile_device_image &image);
};

struct DeviceKernel {
  /// Descriptor, name and arguments, as for hosts; its counters stay unused.
  KernelState state;
  /// To see that the memory of an unloaded module holds another kernel now.
  const void *imageData = nullptr;
  int64_t imageBytes = 0;
  uint32_t flags = 0;
  /// What reports call it: of its name and code.
  uint64_t id = 0;
  ReportedNames names;
  /// Programs may wait for others of the launch, so that all of them must have begun.
  bool waits = false;
  /// Launches enter TurnedMemory.
  bool writesCallersObjects = false;
  /// By local rank.
  std::vector<LoadedImage> loaded;
  std::map<ObjectKey, std::unique_ptr<DeviceObject>> objects;
};

/// What the calls of a prologue on a device know.
struct DeviceLaunch {
  DeviceTeam *team = nullptr;
  DeviceKernel *kernel = nullptr;
  /// The stream is being captured: nothing can be allocated.
  bool capturing = false;
};

/// Puts the words of the arguments into `out`, which hold all that a prologue can see.
void signArguments(const KernelState &kernel, const dtile_arg *arguments,
                   std::vector<uint64_t> &out);

/// Checks the tensors of a launch on one rank. Heap offsets of symmetric ones are checked by the
/// team.
Status checkDeviceArguments(Device &device, const KernelState &kernel, int32_t rank,
                            const dtile_arg *arguments, DeviceAddress heap, int64_t heapBytes);

} // namespace dtile::runtime
