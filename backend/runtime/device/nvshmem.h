// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVSHMEM's host library, opened at run time: a job's symmetric heap and the state of the device
// code that was compiled with its bitcode. One process a GPU.
#pragma once

#include "backend/runtime/device/device.h"
#include "backend/runtime/device/nvshmem_abi.h"
#include "backend/runtime/job/rendezvous.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dtile::runtime {

/// "collective": all ranks call it, in the same order.
class Nvshmem {
public:
  /// Opens the library below `home` (empty: DTILE_NVSHMEM_HOME, or as the loader finds it), starts
  /// it on `device` with the ranks of `job` and makes a heap. Collective: where one rank cannot,
  /// all fail.
  static Status start(const std::string &home, Device &device, Rendezvous &job, int64_t heapBytes,
                      std::unique_ptr<Nvshmem> *out);

  /// The heap, and the same of another rank as this device addresses it.
  [[nodiscard]] DeviceAddress heap() const { return heap_; }
  /// 0: it is not mapped here, and only NVSHMEM's own functions reach it.
  [[nodiscard]] DeviceAddress peer(int32_t rank) const { return peers_[size_t(rank)]; }
  /// The first rank that is not mapped, or -1.
  [[nodiscard]] int32_t firstUnmapped() const;

  /// Lets the network read and write this device's memory from `begin` to before `end`, which is
  /// outside the heap, where a rank is not mapped; kernels put from there and get to there.
  Status lend(DeviceAddress begin, DeviceAddress end);

  /// Whether device code of a version (dtile_device_image) runs with this host library; otherwise
  /// the end of a sentence about the kernel.
  [[nodiscard]] Status accepts(int32_t deviceVersion) const;
  /// Gives a loaded module what its device code has to know; before its first launch.
  Status attach(ModuleHandle module);
  /// Before the module is unloaded.
  void detach(ModuleHandle module);

  /// Gives the heap back and ends what `start` began; collective. Without it the library stays, as
  /// peers may not come.
  void finish();

private:
  Nvshmem(Device &device, int32_t rank, int32_t ranks)
      : device_(device), rank_(rank), ranks_(ranks) {}
  Status open(const std::string &home);
  void prepareEnvironment(const Rendezvous &job, int64_t heapBytes) const;
  /// Rank 0's id; fails where ranks do not fit together.
  Status exchangeId(Rendezvous &job, int64_t heapBytes, nvshmem::UniqueId *out);
  /// NVSHMEM waits for all ranks where one of them finds no memory.
  Status tryRoom(int64_t bytes) const;
  Status initialize(nvshmem::UniqueId &id);
  Status allocate(const Rendezvous &job, int64_t bytes);

  Device &device_;
  int32_t rank_, ranks_;
  nvshmem::Functions calls_;
  std::string path_;
  int32_t version_ = 0;
  DeviceAddress heap_ = 0;
  std::vector<DeviceAddress> peers_;
  /// What was lent: ends by begins. No two touch.
  std::map<DeviceAddress, DeviceAddress> lent_;
};

} // namespace dtile::runtime
