// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a team of devices keeps of a kernel between its launches.
#pragma once

#include "backend/runtime/arguments/tensor_span.h"
#include "backend/runtime/device/choose/device_programs.h"
#include "backend/runtime/device/device.h"
#include "backend/runtime/device/engine/engine_work.h"
#include "backend/runtime/device_abi.h"
#include "backend/runtime/host/kernel_state.h"
#include "backend/runtime/launch_frame.h"
#include "backend/runtime/symmetric_heap.h"
#include "backend/runtime/telemetry/senders.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtile::runtime {

class DeviceTeam;

struct DeviceKernel;

/// A scratch object or signal: at the same offset of all ranks' heaps.
struct DeviceObject {
  ObjectKey key;
  /// Whose it is; null where that was unloaded, and graphs may launch it.
  DeviceKernel *kernel = nullptr;
  bool isSignal = false;
  int64_t offset = 0;
  int64_t copyBytes = 0;
  int32_t copies = 1;
  int64_t cells = 0;
  /// By local rank, in the arena: scratch has turns, signals what says since when
  /// bases hold, the bases and what was asked for.
  std::vector<DeviceAddress> turn, bases, asked;
  static constexpr int64_t kSinceBytes = DTILE_DEVICE_SINCE_WORDS * sizeof(uint64_t);
  /// Bytes of each of those.
  int64_t baseBytes = 0, askedBytes = 0;
  /// A graph may hold its addresses.
  bool isCaptured = false;
  /// The call that looked it up last: what one call uses, it cannot give back.
  uint64_t heldBy = 0;
  /// The last call that launched with it (or made it), to find what has not been used for long.
  /// Calls that were refused do not count, as they may be of one process alone.
  uint64_t lastUse = 0;
};

/// Everything that a launch with certain arguments needs; nothing of it changes.
struct PreparedLaunch {
  /// The arguments, word by word.
  std::vector<uint64_t> signature;
  uint64_t hash = 0;
  dtile_device_launch launch = {};
  LaunchFrame frame;
  uint64_t lastUse = 0;
  /// It need not ask about memory taken in turn while TurnedMemory's is this.
  uint64_t turnedVersion = 0;
  /// What its frame has addresses of. It goes with any of them.
  std::vector<DeviceObject *> objects;
  /// Of the kernel's variants.
  size_t variant = 0;
  /// Programs of a cluster.
  int32_t cluster = 1;
  /// Of the variant's functions.
  FunctionHandle function = nullptr;
  /// They are all captured: nobody need ask again.
  bool isCaptured = false;
  /// What the copy engine does beside it. `begins`: the kernel has spaces that may leave it
  /// transfers, so a launch of one program comes before (DTILE_DEVICE_BEGINS), also where programs
  /// send this time.
  EngineWork engine;
  bool begins = false;
  /// Offsets in the heap where its arguments begin that are there: it goes with these objects, too.
  std::vector<int64_t> arguments;
};

/// One of a kernel's variants on one rank of this process.
struct LoadedImage {
  const dtile_device_image *image = nullptr;
  /// By dtile_launch_kind.
  FunctionHandle functions[DTILE_LAUNCH_KINDS] = {};
  /// Programs of this rank that can be resident at once, in launches that move all tiles in whole
  /// words, and in others.
  int64_t resident = 0, residentInParts = 0;
  /// The same in clusters of so many.
  int64_t inClusters[DTILE_MOST_PARTS + 1] = {};
};

/// A kernel on one rank of this process.
struct LoadedKernel {
  /// Those that fit the device; at least one. The same on all ranks.
  std::vector<LoadedImage> variants;
  /// The dtile_device_kernel that they share: whatever runs, the kernel has one epoch.
  DeviceAddress counters = 0;
  /// What programs leave for each other where bodies are divided; made when a launch first asks.
  DeviceAddress partials = 0;
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
  /// By space, what its dimensions are called.
  std::vector<std::vector<std::string>> vars;
  /// By parameter, who notifies it.
  std::vector<telemetry::Senders> senders;
  std::vector<Place> places;
  /// Of the kernel; and the constants that were chosen for the variant.
  std::string file, constants;

  ReportedNames() = default;
  ReportedNames(const dtile_kernel_desc &desc, const dtile_device_image &image);
};

/// What is known of a name for several kernels.
struct DeviceFamily {
  /// To see that its memory holds another one now.
  std::string name;
  const dtile_kernel_desc *const *alternatives = nullptr;
  /// Those with code for the devices.
  std::vector<size_t> usable;
  /// Alternatives by the sizes of the arguments.
  std::map<std::vector<int64_t>, size_t> choices;
};

struct DeviceKernel {
  explicit DeviceKernel(const dtile_kernel_desc &desc) : state(desc) {}

  /// Descriptor, name and arguments, as for hosts; its counters stay unused.
  KernelState state;
  /// To see that the memory of an unloaded module holds another kernel now.
  const void *imageData = nullptr;
  int64_t imageBytes = 0;
  uint32_t flags = 0;
  /// What reports call it: of its name and code. Variant i is id + i.
  uint64_t id = 0;
  /// One a variant.
  std::vector<ReportedNames> names;
  /// Its name among the strings of the team's telemetry.
  uint32_t shownName = 0;
  /// Programs may wait for others of the launch, so that all of them must have begun.
  bool waits = false;
  /// Its code was compiled to be traced.
  bool isTraced = false;
  /// Launches enter TurnedMemory.
  bool writesCallersObjects = false;
  /// By local rank.
  std::vector<LoadedKernel> loaded;
  std::map<ObjectKey, std::unique_ptr<DeviceObject>> objects;
};

/// What the calls of a prologue on a device know.
struct DeviceLaunch {
  DeviceTeam *team = nullptr;
  DeviceKernel *kernel = nullptr;
  /// The stream is being captured: nothing can be allocated.
  bool capturing = false;
  /// Nothing is launched: only sizes are wanted (device_variants.cpp).
  bool isEstimate = false;
  /// Variants that look alike to other ranks share objects.
  int32_t protocol = 0;
  /// That the prologue has asked for.
  std::vector<DeviceObject *> objects;
  /// Where transfers of the copy engine are listed; null elsewhere.
  EngineWork *engine = nullptr;
};

/// FNV-1a of bytes, after those that `hash` is of.
uint64_t hashBytes(const void *data, int64_t bytes, uint64_t hash = 0xcbf29ce484222325u);

/// Puts the words of the arguments into `out`, which hold all that a prologue can see.
void signArguments(const KernelState &kernel, const dtile_arg *arguments,
                   std::vector<uint64_t> &out);

/// A rank's heap, and what of it callers have.
struct CallersHeap {
  DeviceAddress begin = 0;
  int64_t bytes = 0;
  const CallersObjects &objects;
};

/// Checks the tensors of a launch on one rank.
Status checkDeviceArguments(Device &device, const KernelState &kernel, int32_t rank,
                            const dtile_arg *arguments, const CallersHeap &heap);

} // namespace dtile::runtime
