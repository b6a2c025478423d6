// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Libraries that carry bytes between GPUs beside p2p: who makes the symmetric heap of a job's GPU,
// and what device code compiled for the library has to be told. One process a GPU.
#pragma once

#include "backend/runtime/device/device.h"
#include "backend/runtime/job/rendezvous.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dtile::runtime {

/// The provider whose heaps the team itself makes, and whose code runs in a team of any other.
inline constexpr const char *kPeerToPeer = "p2p";

/// "collective": all ranks call it, in the same order.
class HeapProvider {
public:
  virtual ~HeapProvider() = default;

  /// The heap, and the same of another rank as this device addresses it.
  [[nodiscard]] virtual DeviceAddress heap() const = 0;
  /// 0: it is not mapped here, and only the library's own functions reach it.
  [[nodiscard]] virtual DeviceAddress peer(int32_t rank) const = 0;
  /// The first rank that is not mapped, or -1.
  [[nodiscard]] virtual int32_t firstUnmapped() const = 0;

  /// Lets the network read and write this device's memory from `begin` to before `end`, which is
  /// outside the heap, where a rank is not mapped; kernels put from there and get to there.
  virtual Status lend(DeviceAddress begin, DeviceAddress end) = 0;

  /// Whether device code of a version (dtile_device_image) runs with this host library; otherwise
  /// the end of a sentence about the kernel.
  [[nodiscard]] virtual Status accepts(int32_t deviceVersion) const = 0;
  /// Gives a loaded module what its device code has to know; before its first launch.
  virtual Status attach(ModuleHandle module) = 0;
  /// Before the module is unloaded.
  virtual void detach(ModuleHandle module) = 0;

  /// Gives the heap back and ends what the start began; collective. Without it the library stays,
  /// as peers may not come.
  virtual void finish() = 0;
};

/// A provider that this library has a host side for.
struct HeapProviderRow {
  /// As in dtile_device_options.shmem and dtile_device_image.shmem.
  const char *name;
  /// The target of its GPUs (dtile_device_options.target), and whose they are.
  const char *target;
  const char *vendor;
  /// Opens the library below `home` (empty: where it is installed), starts it on `device` with the
  /// ranks of `job` and makes a heap. Collective: where one rank cannot, all fail.
  Status (*start)(const std::string &home, Device &device, Rendezvous &job, int64_t heapBytes,
                  std::unique_ptr<HeapProvider> *out);
};

/// The row of a name, or null.
[[nodiscard]] const HeapProviderRow *findHeapProvider(const std::string &name);
/// `p2p and nvshmem`: p2p, and those with rows.
[[nodiscard]] std::string heapProviderNames();
/// The first provider for GPUs of a target that reaches other hosts, or null.
[[nodiscard]] const HeapProviderRow *providerBetweenHosts(const std::string &target);

} // namespace dtile::runtime
